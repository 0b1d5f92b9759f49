"""Objects that were written for the scheduler interface work as they are: mergers, storages, caches."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from redis import Redis

from rota import Rota
from rota.core.task_type import TaskConfig, TriggerMode
from rota.errors import InvalidConfig
from rota.memory import create_cleanup_handler, create_compression_handler
from rota.seeds import RedisTaskScheduler, TaskScheduler, init_scheduler, set_scheduler
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.waiting import until

TASKS = {
    "memory_compression": {"trigger_mode": "user_activity", "interval": 1},
    "data_cleanup": {"trigger_mode": "periodic", "interval": 3600},
}


class OwnMerger:
    """As programs have it: not async, called by name, answers with nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str, int]] = []
        self.threads: set[int] = set()

    def periodic_memory_compression_for_user(
        self, *, user_id: str, device_id: str, agent_id: str, interval_seconds: int
    ) -> None:
        self.calls.append((user_id, device_id, agent_id, interval_seconds))
        self.threads.add(threading.get_ident())


class OwnStorage:
    def __init__(self, answer: bool | None = None) -> None:
        self.cleanups = 0
        self.answer = answer

    def cleanup_expired_data(self) -> bool | None:
        self.cleanups += 1
        return self.answer


@pytest.fixture(autouse=True)
def _nobodys_scheduler() -> Generator[None]:
    yield
    set_scheduler(None)


@pytest.fixture
def own_redis(tmp_path: Path) -> Generator[RedisServer]:
    with redis_server(tmp_path / "redis") as running:
        yield running


# --- handlers --------------------------------------------------------------------------------------------------------


async def test_07_a_merger_and_a_storage_that_are_not_async(sqlite_url: str) -> None:
    merger, storage = OwnMerger(), OwnStorage()
    scheduler = init_scheduler(sqlite_url, {"tasks": TASKS})
    scheduler.register_handler("memory_compression", create_compression_handler(merger))
    scheduler.register_handler("data_cleanup", create_cleanup_handler(storage))
    await scheduler.start()
    try:
        assert await scheduler.schedule_user_task("memory_compression", "u1", "phone", "helper")
        await until(lambda: len(scheduler.host.stats.totals()) == 2, "both have run")
        assert all(runs.success and not runs.error for runs in scheduler.host.stats.totals().values())
    finally:
        await scheduler.stop()
    assert merger.calls == [("u1", "phone", "helper", 1800)]
    assert threading.get_ident() not in merger.threads, "what is not async must not block the event loop"


async def test_07_an_async_merger_stays_as_it_was() -> None:
    class Merger:
        calls = 0

        async def periodic_memory_compression_for_user(
            self, user_id: str, device_id: str | None = None, agent_id: str | None = None, interval_seconds: int = 1800
        ) -> None:
            self.calls += 1

    merger = Merger()
    answer = create_compression_handler(merger)("u1", None, None)
    assert not isinstance(answer, bool)
    assert await answer
    assert merger.calls == 1


def test_07_only_one_that_says_false_has_failed() -> None:
    assert create_cleanup_handler(OwnStorage(None))(None, None, None) is True
    assert create_cleanup_handler(OwnStorage(True))(None, None, None) is True
    assert create_cleanup_handler(OwnStorage(False))(None, None, None) is False


async def test_07_handlers_can_be_registered_after_start(sqlite_url: str) -> None:
    """In both orders: the handler first, or the type first; and a type that comes after another one."""
    done: list[str] = []
    scheduler = TaskScheduler(sqlite_url, {"tasks": {"early": {"interval": 1}}, "check_interval": 600})
    await scheduler.start()
    try:
        scheduler.register_handler("early", lambda user_id, device_id, agent_id: done.append("early") or True)
        await scheduler.schedule_user_task("early", "u1")
        await until(lambda: "early" in done)

        scheduler.register_handler("late", lambda user_id, device_id, agent_id: done.append("late") or True)
        await scheduler.register_task_type(TaskConfig(name="late", interval=1))
        await scheduler.schedule_user_task("late", "u1")
        await until(lambda: "late" in done)

        await scheduler.register_task_type(
            TaskConfig(name="nightly", trigger_mode=TriggerMode.PERIODIC, interval=3_600)
        )
        scheduler.register_handler("nightly", lambda user_id, device_id, agent_id: done.append("nightly") or True)
        await until(lambda: "nightly" in done)
    finally:
        await scheduler.stop()


async def test_07_a_decorator_after_start_is_served(sqlite_url: str) -> None:
    done: list[str] = []
    async with Rota(sqlite_url) as app:
        await app.start()

        @app.on_activity(after="1s")
        async def compress(user_id: str) -> None:
            done.append("compress")

        @app.after("compress")
        async def refresh(user_id: str) -> None:
            done.append("refresh")

        await compress.touch(user_id="u1")
        await until(lambda: done == ["compress", "refresh"])


# --- the store, by the name `redis_cache` -----------------------------------------------------------------------------


class RedisCache:
    """As such programs have it: it holds a client."""

    def __init__(self, url: str) -> None:
        self._prefix = "x"
        self.client = Redis(port=int(url.rpartition(":")[2].partition("/")[0]))


async def test_07_redis_cache_is_taken(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = RedisCache(redis_url)
    for scheduler in (
        init_scheduler(redis_cache=cache, config={"tasks": TASKS}),
        init_scheduler(redis_cache=redis_url, config={"tasks": TASKS}),
        RedisTaskScheduler(redis_cache=cache, config={"tasks": TASKS}),
    ):
        assert await scheduler.get_queue_depths() == {"data_cleanup": 1, "memory_compression": 0}
        await scheduler.stop()
    cache.client.close()


def test_07_a_store_that_is_given_twice_or_never_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="twice"):
        TaskScheduler("memory://", redis_cache="memory://")
    with pytest.raises(InvalidConfig, match="not at all"):
        TaskScheduler()


# --- after -----------------------------------------------------------------------------------------------------------


async def test_07_a_type_after_one_that_nobody_knows_is_refused(sqlite_url: str) -> None:
    tasks = {**TASKS, "refresh": {"trigger_mode": "after", "after": ["memory_compresion"]}}
    scheduler = TaskScheduler(sqlite_url, {"tasks": tasks})
    with pytest.raises(InvalidConfig, match=r"'refresh' comes after 'memory_compresion'.*mean 'memory_compression'"):
        await scheduler.start()
    await scheduler.stop()
    assert await _types_in(sqlite_url) == set()


async def test_07_a_type_after_one_of_another_app_is_taken(sqlite_url: str) -> None:
    async with Rota({"scheduler": {"tasks": TASKS}}, store=sqlite_url):
        pass
    tasks = {"refresh": {"trigger_mode": "after", "after": ["memory_compression"]}}
    async with Rota({"scheduler": {"tasks": tasks}}, store=sqlite_url):
        pass
    assert await _types_in(sqlite_url) == {"data_cleanup", "memory_compression", "refresh"}


async def _types_in(url: str) -> set[str]:
    async with Rota(url) as app:
        return {record.task_type.name for record in await (await app.store()).list_types()}


# --- stopping, and health ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_07_a_redis_that_is_away_does_not_hold_up_a_stop(
    own_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    """Calls may take 60 s here, as in all tests: the stop waited for three of them, one after the other."""
    monkeypatch.chdir(tmp_path)
    begun = asyncio.Event()
    scheduler = TaskScheduler(own_redis.url, {"tasks": {"work": {"interval": 1}}})

    async def work(user_id: str, device_id: str | None, agent_id: str | None) -> bool:
        begun.set()
        await asyncio.sleep(3_600)
        return True

    scheduler.register_handler("work", work)
    await scheduler.start()
    await scheduler.schedule_user_task("work", "u1")
    await asyncio.wait_for(begun.wait(), 60)
    pid = own_redis.pid
    os.kill(pid, how)
    try:
        async with asyncio.timeout(45):
            await scheduler.stop(0.5)
    finally:
        if how is signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)


async def test_07_a_process_that_only_touches_is_healthy(sqlite_url: str) -> None:
    scheduler = TaskScheduler(sqlite_url, {"tasks": TASKS})
    await scheduler.schedule_user_task("memory_compression", "u1")
    try:
        assert scheduler.health().ok, scheduler.health().reasons
        assert scheduler.health().reasons == ()
    finally:
        await scheduler.stop()
