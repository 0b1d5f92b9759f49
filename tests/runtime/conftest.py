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

from rota.clock import SystemClock
from rota.stores.base import Store
from rota.stores.memory import MemoryStore
from rota.stores.sql.store import SqlStore
from rota.testing import FakeClock


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, sqlite_url: str) -> AsyncIterator[Stage]:
    """A stage in real time, on each store that needs no server."""
    clock = SystemClock()
    store: Store = MemoryStore(clock) if request.param == "memory" else SqlStore(sqlite_url)
    await store.open()
    yield Stage(store, clock)
    await store.close()


@pytest_asyncio.fixture
async def memory_stage() -> AsyncIterator[Stage]:
    """A stage in real time, in memory."""
    clock = SystemClock()
    store = MemoryStore(clock)
    await store.open()
    yield Stage(store, clock)
    await store.close()


@pytest_asyncio.fixture
async def still_stage(still_clock: FakeClock) -> AsyncIterator[Stage]:
    """A stage on which time stands still until it is told to move."""
    store = MemoryStore(still_clock)
    await store.open()
    yield Stage(store, still_clock)
    await store.close()


@pytest.fixture
def still_clock() -> FakeClock:
    return FakeClock()
