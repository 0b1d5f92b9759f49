"""Databases that alerts are kept in, and a scene with rules, sinks and a condition that can be switched."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from scene import Scene

from rota.database import Database
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A database of its own, on each engine."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))


@pytest_asyncio.fixture
async def scene(sqlite_url: str, clock: FakeClock) -> AsyncIterator[Scene]:
    """A store in memory and a database in a file, both on a clock that is told."""
    store, database = MemoryStore(clock), Database(sqlite_url, clock=clock)
    await store.open()
    await database.open()
    yield Scene(store, database, clock)
    await database.close()
    await store.close()
