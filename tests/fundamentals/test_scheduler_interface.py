"""The same engine by the names of the programs that were written for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rota import LeaseLost, TaskConfig, TaskScheduler, TriggerMode, get_scheduler, init_scheduler, set_scheduler
from rota.testing import FakeClock
from rota.testing.waiting import PATIENCE

CONFIG: dict[str, object] = {
    "enabled": True,
    "executor": {"check_interval": 10, "max_concurrent": 5},
    "tasks": {"memory_compression": {"enabled": True, "trigger_mode": "user_activity", "interval": 1800}},
}


@pytest.fixture(autouse=True)
def _one_scheduler_per_test() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    yield
    set_scheduler(None)


async def test_from_configuration_to_a_run(url: str):
    """init_scheduler, register_handler, start, schedule_user_task, stop: nothing else is needed."""
    import asyncio

    compressed = asyncio.Event()
    config = {**CONFIG, "tasks": {"memory_compression": {"interval": 0}}}
    scheduler = init_scheduler(url, config)

    async def compress(user_id: str, device_id: str | None, agent_id: str | None) -> bool:
        assert (user_id, device_id, agent_id) == ("u1", "phone", "default")
        compressed.set()
        return True

    assert scheduler.register_handler("memory_compression", compress) is True
    await scheduler.start()
    assert scheduler.is_running()
    assert await scheduler.schedule_user_task("memory_compression", "u1", "phone") is True
    async with asyncio.timeout(PATIENCE):
        await compressed.wait()
    await scheduler.stop()
    assert not scheduler.is_running()


async def test_there_is_one_scheduler_per_process(url: str):
    assert get_scheduler() is None
    scheduler = init_scheduler(url, CONFIG)
    assert get_scheduler() is scheduler


async def test_a_scheduler_that_is_off_is_none(url: str):
    """`if scheduler := get_scheduler():` is all that a push endpoint has to ask."""
    init_scheduler(url, {"enabled": False})
    assert get_scheduler() is None


async def test_true_means_that_a_task_was_made(url: str, clock: FakeClock):
    scheduler = TaskScheduler(url, CONFIG, clock=clock)
    assert await scheduler.schedule_user_task("memory_compression", "u1") is True
    assert await scheduler.schedule_user_task("memory_compression", "u1") is False
    assert await scheduler.schedule_user_task("no_such_type", "u1") is False
    assert await scheduler.get_queue_depths() == {"memory_compression": 1}
    await scheduler.stop()


async def test_a_task_can_be_claimed_and_settled_by_hand(url: str, clock: FakeClock):
    """The lock token is the fence: once the task is settled it opens nothing any more."""
    scheduler = TaskScheduler(url, CONFIG, clock=clock)
    await scheduler.schedule_user_task("memory_compression", "u1", "phone", "tutor")
    assert await scheduler.get_pending_task("memory_compression") is None

    clock.advance("30m")
    task = await scheduler.get_pending_task("memory_compression")
    assert task is not None
    assert (task.user_key, task.user_id, task.status) == ("u1:phone:tutor", "u1", "running")
    assert task.lock_token is not None

    await scheduler.complete_task(task.task_type, task.user_key, task.lock_token, True)
    with pytest.raises(LeaseLost, match="not the current one"):
        await scheduler.complete_task(task.task_type, task.user_key, "4711", True)
    await scheduler.stop()


async def test_a_type_can_be_registered_by_a_program(url: str, clock: FakeClock):
    scheduler = TaskScheduler(url, clock=clock)
    config = TaskConfig(name="embedding_refresh", interval=3600, trigger_mode=TriggerMode.USER_ACTIVITY)
    assert await scheduler.register_task_type(config) is True
    assert await scheduler.get_task_config("embedding_refresh") == config
    assert await scheduler.get_task_config("no_such_type") is None
    await scheduler.stop()
