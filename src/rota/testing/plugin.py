"""The pytest plugin: fixtures for tests of an application that uses Rota.

    rota_clock    a FakeClock
    rota_store    an open, empty MemoryStore on that clock
    rota_app      a Rota on that store, for tests that declare types and handlers

Every import of substance is made inside a fixture: a test session that does not use them pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rota.app.rota import Rota
    from rota.stores.memory import MemoryStore
    from rota.testing.clock import FakeClock

__all__ = ["rota_app", "rota_clock", "rota_store"]

pytest.register_assert_rewrite("rota.testing.assertions", "rota.testing.conformance")


@pytest.fixture
def rota_clock() -> FakeClock:
    """A clock that moves only when told."""
    from rota.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def rota_store(rota_clock: FakeClock) -> MemoryStore:
    """An empty store in memory, on the fake clock. It needs no opening and leaves nothing behind."""
    from rota.stores.memory import MemoryStore

    return MemoryStore(rota_clock)


@pytest.fixture
def rota_app(rota_store: MemoryStore, rota_clock: FakeClock) -> Rota:
    """An application on that store, for tests that declare types and handlers."""
    from rota.app.rota import Rota

    return Rota(store=rota_store, clock=rota_clock)
