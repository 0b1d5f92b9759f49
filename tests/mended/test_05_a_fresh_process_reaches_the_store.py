"""A fresh process that touches reaches a store that is up, leaves nothing behind in silence, and never hears True for a
type that is off. Connecting took longer than a touch may wait, and short scripts ended with their touches in a file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota import load_config
from rota.runtime.spool import PATIENCE
from rota.seeds import TaskScheduler
from rota.stores.base import TaskQuery
from rota.stores.memory import MemoryStore
from rota.testing import FaultyStore
from rota.testing.redis_servers import RedisServer
from rota.testing.waiting import until

WORK = {"trigger_mode": "user_activity", "interval": 60}
LEFT = "touches left in the spool"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A disk that is busy with something else is no disk that is broken.
    monkeypatch.setattr("rota.runtime.spool_file.DISK_SECONDS", 60.0)
    return tmp_path / "rota-spool.db"


@pytest.fixture
async def store() -> AsyncIterator[FaultyStore]:
    made = FaultyStore(MemoryStore())
    yield made
    made.heal()
    await made.close()


def scheduler_on(store: FaultyStore, path: Path, *, enabled: bool = True) -> TaskScheduler:
    tasks = {"work": {**WORK, "enabled": enabled}}
    return TaskScheduler(store, load_config({"spool": str(path), "scheduler": {"tasks": tasks}}))


def users_in(path: Path) -> list[str]:
    if not path.exists():
        return []
    with sqlite3.connect(path) as disk:
        found = disk.execute("SELECT user_id FROM touches ORDER BY user_id").fetchall()
    disk.close()
    return [row[0] for row in found]


async def is_in(store: FaultyStore, user: str) -> bool:
    return bool((await store.store.find(TaskQuery(user_id=user))).items)


# --- patience --------------------------------------------------------------------------------------------------------


async def test_a_store_that_is_slow_to_connect_is_not_away(store: FaultyStore, path: Path) -> None:
    scheduler = scheduler_on(store, path)
    store.slow(2 * PATIENCE, "open")
    assert (await scheduler.touch("work", "u1")).outcome == "created"
    assert users_in(path) == []
    await scheduler.stop()


async def test_only_the_first_touches_wait_for_a_store_that_never_connects(
    store: FaultyStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_CALL_TIMEOUT", "1s")  # all tests have 60 s there
    scheduler = scheduler_on(store, path)
    store.slow(600, "open")
    first = await asyncio.gather(*(scheduler.touch("work", f"u{number}") for number in range(3)))
    assert {touch.outcome for touch in first} == {"spooled"}
    later = [await scheduler.touch("work", f"u{number}") for number in range(3, 50)]
    assert {touch.outcome for touch in later} == {"spooled"}
    assert store.calls["open"] == 1, "nobody has tried again for them"
    await scheduler.stop()
    assert len(users_in(path)) == 50


# --- at the end ------------------------------------------------------------------------------------------------------


async def test_who_ends_hands_over_what_waits(store: FaultyStore, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = scheduler_on(store, path)
    with store.down("touch"):
        assert await scheduler.schedule_user_task("work", "u1") is True
        assert users_in(path) == ["u1"]
    await scheduler.stop()
    assert await is_in(store, "u1")
    assert (users_in(path), LEFT in caplog.text) == ([], False)


async def test_who_was_never_connected_hands_over_too(store: FaultyStore, path: Path) -> None:
    scheduler = scheduler_on(store, path)
    with store.down("open"):
        assert await scheduler.schedule_user_task("work", "u1") is True
    await scheduler.stop()
    assert (await is_in(store, "u1"), users_in(path)) == (True, [])


async def test_who_cannot_hand_over_says_so(store: FaultyStore, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = scheduler_on(store, path)
    with store.down():
        assert await scheduler.schedule_user_task("work", "u1") is True
        await scheduler.stop()
    assert users_in(path) == ["u1"]
    assert (LEFT in caplog.text, str(path) in caplog.text) == (True, True)


# --- types that are off ----------------------------------------------------------------------------------------------


async def test_a_type_that_is_off_is_not_spooled(store: FaultyStore, path: Path) -> None:
    scheduler = scheduler_on(store, path, enabled=False)
    assert await scheduler.schedule_user_task("work", "u1") is False
    with store.down():
        assert await scheduler.schedule_user_task("work", "u1") is False
        assert (await scheduler.touch("work", "u1")).outcome == "disabled"
    await scheduler.stop()
    assert users_in(path) == []


@pytest.mark.parametrize("override", ["enabled", "draining"])
async def test_what_an_operator_has_switched_off_is_not_spooled(store: FaultyStore, path: Path, override: str) -> None:
    """Known since the process has connected, before it has touched anything."""
    scheduler = scheduler_on(store, path)
    await scheduler.get_queue_depths()
    await store.override_type("work", {override: override == "draining"})
    await scheduler.stop()
    scheduler = scheduler_on(store, path)
    await scheduler.get_queue_depths()
    with store.down("touch"):
        assert await scheduler.schedule_user_task("work", "u1") is False
    assert users_in(path) == []
    await store.override_type("work", {override: None})
    await until(lambda: scheduler.schedule_user_task("work", "u1"), "the store was asked again")
    with store.down("touch"):
        assert await scheduler.schedule_user_task("work", "u2") is True
    await scheduler.stop()
    assert await is_in(store, "u2")


# --- fresh processes, a real Redis -----------------------------------------------------------------------------------

TOUCHES = """
import asyncio, sys
from rota.seeds import TaskScheduler

async def main():
    scheduler = TaskScheduler(sys.argv[1], {"tasks": {"work": {"trigger_mode": "user_activity", "interval": 60}}})
    print(await scheduler.schedule_user_task("work", sys.argv[2]))
    if "stop" in sys.argv:
        await scheduler.stop()

asyncio.run(main())
"""
WITHOUT_CLOSE = """
import sys
from rota import Rota
from rota.testing import FaultyStore
from rota.stores.redis.store import RedisStore

store = FaultyStore(RedisStore(sys.argv[1]))
app = Rota({"scheduler": {"tasks": {"work": {"trigger_mode": "user_activity", "interval": 60}}}}, store=store)
with store.down("touch"):
    print(app.sync.schedule_user_task("work", sys.argv[2]))
"""


def start(script: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        # On a busy machine eight of them may take long to connect: the limit of all tests is theirs, too.
        env={name: value for name, value in os.environ.items() if name[:5] != "ROTA_" or name == "ROTA_CALL_TIMEOUT"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_eight_fresh_processes_at_once(redis: RedisServer, redis_url: str, path: Path) -> None:
    """Whatever connecting takes: what they were told True for is in Redis when they have ended."""
    processes = [start(TOUCHES, path.parent, redis_url, f"u{number}", "stop") for number in range(8)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [out.strip() for out, _ in said] == ["True"] * 8, said
    assert (redis.ask("ZCARD", "scheduler:queue:{work}"), users_in(path)) == (8, []), said


def test_a_script_without_an_event_loop_that_closes_nothing(redis: RedisServer, redis_url: str, path: Path) -> None:
    out, err = start(WITHOUT_CLOSE, path.parent, redis_url, "u1").communicate(timeout=120)
    assert out.strip() == "True", err
    assert path.exists(), "it was spooled at first"
    assert (redis.ask("ZCARD", "scheduler:queue:{work}"), users_in(path)) == (1, []), err


def test_a_script_that_could_not_hand_over_says_where_it_is(path: Path) -> None:
    out, err = start(TOUCHES, path.parent, "redis://127.0.0.1:1/0", "u1").communicate(timeout=120)
    assert out.strip() == "True", err
    assert users_in(path) == ["u1"]
    assert (LEFT in err, str(path) in err) == (True, True), err
