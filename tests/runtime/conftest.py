"""The stores that the runtime is tried on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

# Test modules are imported by file, not by path: what they share must be found, also by handlers' own processes.
sys.path.insert(0, str(Path(__file__).parent))

from stage import Stage
from tests.opening import opened

from rota.clock import SystemClock
from rota.stores.memory import MemoryStore
from rota.stores.sql.store import SqlStore
from rota.testing import FakeClock


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, sqlite_url: str) -> AsyncIterator[Stage]:
    """A stage in real time, on each store that needs no server."""
    clock = SystemClock()
    async with opened(MemoryStore(clock) if request.param == "memory" else SqlStore(sqlite_url)) as store:
        yield Stage(store, clock)


@pytest_asyncio.fixture
async def memory_stage() -> AsyncIterator[Stage]:
    """A stage in real time, in memory."""
    clock = SystemClock()
    async with opened(MemoryStore(clock)) as store:
        yield Stage(store, clock)


@pytest_asyncio.fixture
async def still_stage(still_clock: FakeClock) -> AsyncIterator[Stage]:
    """A stage on which time stands still until it is told to move."""
    async with opened(MemoryStore(still_clock)) as store:
        yield Stage(store, still_clock)


@pytest.fixture
def still_clock() -> FakeClock:
    return FakeClock()
