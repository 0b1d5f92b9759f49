"""The pytest plugin: fixtures for tests of an application that uses Rota.

    rota_clock    a FakeClock
    rota_store    an open, empty MemoryStore on that clock
    rota_app      a Rota on that store, for tests that declare types and handlers
    rota_use      takes the program's own app, and gives it back on that store and that clock: rota_use(assistant.app)

Every import of substance is made inside a fixture: a test session that does not use them pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rota.app.rota import Rota
    from rota.stores.memory import MemoryStore
    from rota.testing.clock import FakeClock

__all__ = ["rota_app", "rota_clock", "rota_store", "rota_use"]

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


@pytest.fixture
def rota_use(rota_store: MemoryStore, rota_clock: FakeClock, tmp_path: Path) -> Generator[Callable[[Rota], Rota]]:
    """`app = rota_use(assistant.app)`: the program's own app, with all that it has declared, on `rota_store` and
    `rota_clock`. Its database is a file of this test, its bus is local, and its own store is never asked. After the
    test the app is as it was. Calls connect by themselves; several apps of one test share the store."""
    from rota.testing.own_app import in_test

    used: list[Rota] = []
    with ExitStack() as apps:

        def use(app: Rota) -> Rota:
            if not any(app is one for one in used):
                used.append(apps.enter_context(in_test(app, rota_store, rota_clock, tmp_path)))
            return app

        yield use
