"""A server in another locale: equals are still taken in the order of their bytes, as everywhere else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
from tests.opening import opened

from rota.clock import SECOND
from rota.core.task import Transition
from rota.stores import open_store
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, World
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.servers import ServerAbsent, require_server

LOCALE = "en_US.UTF-8"
KEYS = ("B", "_", "a", "ä", "𝄞")
"""In the order of their bytes, which is not that of a dictionary."""


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one locale, made here: a bare system has none whose order differs from that of the bytes."""
    folder = tmp_path_factory.mktemp("locales")
    program = shutil.which("localedef")
    if program is None:
        pytest.skip("there is no localedef here, which makes the locale")
    made = subprocess.run(
        [program, "-i", "en_US", "-f", "UTF-8", str(folder / LOCALE)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"the locale cannot be made: {made.stderr.strip()}")
    return folder


@pytest.fixture
def abroad(locales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[RedisServer]:
    monkeypatch.setenv("LOCPATH", str(locales))
    monkeypatch.setenv("LC_ALL", LOCALE)
    try:
        with redis_server(tmp_path / "redis") as server:
            if server.ask("EVAL", "return ('a' < 'B') and 1 or 0", 0) != 1:
                pytest.skip("this server does not heed the locale")
            yield server
    except ServerAbsent as absent:
        require_server(absent)


@pytest.fixture
async def world(abroad: RedisServer, clock: FakeClock) -> AsyncIterator[World]:
    async with opened(open_store(abroad.url, clock)) as store:
        yield World(store, clock)


async def test_equals_are_claimed_in_the_order_of_their_bytes(world: World) -> None:
    await world.type()
    for key in KEYS:
        await world.schedule(key, scheduled_at=world.now)
    # A second lane: only where there are several are they merged by the script.
    await world.schedule("low", priority=1, scheduled_at=world.now)
    assert [task.key for task in await world.claim(len(KEYS) + 1)] == [*KEYS, "low"]


async def test_equals_that_wait_for_a_serial_come_back_in_the_order_of_their_bytes(world: World) -> None:
    await world.type()
    for key in KEYS:
        await world.schedule(key, serial="one", scheduled_at=world.now)
    run: list[str] = []
    for _ in KEYS:
        # Asked for all: one is given out, and those that must wait are parked.
        (task,) = await world.claim(len(KEYS))
        run.append(task.key)
        await world.settle(task, Transition.COMPLETE)
    assert run == list(KEYS)


async def test_how_many_are_ahead_is_counted_in_the_order_of_bytes(world: World) -> None:
    await world.type()
    holder = await world.created("holder", serial="one", scheduled_at=world.now - SECOND)
    for key in KEYS:
        await world.schedule(key, serial="one", scheduled_at=world.now)
    assert [task.key for task in await world.claim(len(KEYS) + 1)] == [holder.key]
    tasks = [await world.there(key) for key in KEYS]
    assert all(task.parked for task in tasks)
    ahead = [(await world.store.queue_position(task.identity, now=world.now)).ahead for task in tasks]
    assert ahead == list(range(len(KEYS)))
    assert (await world.counts(WORK)).pending == len(KEYS)
