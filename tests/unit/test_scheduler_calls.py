"""The scheduler interface at its edges: contradictions, stale tokens, lost replies, periodic handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota import (
    InvalidConfig,
    InvalidInput,
    LeaseLost,
    StoreUnavailable,
    TaskConfig,
    TaskScheduler,
    TaskType,
    TriggerMode,
    init_scheduler,
    set_scheduler,
)
from rota.clock import SECOND, Clock
from rota.stores.base import Store
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock, FaultyStore, assert_scheduled
from rota.testing.waiting import PATIENCE

TYPES: dict[str, object] = {
    "compress": {"interval": 60, "timeout": 120, "max_retries": 1},
    "clean": {"trigger_mode": "periodic", "interval": 3600},
    "off": {"enabled": False},
}


@pytest.fixture
def store(clock: FakeClock) -> FaultyStore:
    return FaultyStore(MemoryStore(clock))


@pytest.fixture
async def scheduler(store: FaultyStore, clock: FakeClock) -> AsyncIterator[TaskScheduler]:
    made = TaskScheduler(store, {"tasks": TYPES}, clock=clock)
    yield made
    await made.stop()


async def handler(user_id: str, device_id: str | None, agent_id: str | None) -> bool:
    return True


async def test_a_type_that_is_not_for_users_gives_false(scheduler: TaskScheduler):
    assert await scheduler.schedule_user_task("clean", "u1") is False
    assert await scheduler.schedule_user_task("off", "u1") is False
    assert await scheduler.get_pending_task("nothing") is None


async def test_a_claim_by_hand_lasts_as_long_as_the_timeout(
    scheduler: TaskScheduler, store: FaultyStore, clock: FakeClock
):
    await scheduler.schedule_user_task("compress", "u1")
    clock.advance(60)
    await scheduler.get_pending_task("compress")
    task = await assert_scheduled(store, "compress", status="running")
    assert task.lease_until == clock.now() + 120 * SECOND


async def test_a_failure_by_hand_is_tried_again(scheduler: TaskScheduler, store: FaultyStore, clock: FakeClock):
    await scheduler.schedule_user_task("compress", "u1")
    for errors in (1, 2):
        clock.advance("1h")
        task = await scheduler.get_pending_task("compress")
        assert task is not None
        assert task.lock_token is not None
        await scheduler.complete_task("compress", task.user_key, task.lock_token, success=False)
        (left,) = await store.get([await _identity(store)])
        assert left is not None
        assert left.errors == errors
    await assert_scheduled(store, "compress", status="failed")


async def _identity(store: FaultyStore):
    from rota.stores.base import TaskQuery

    return (await store.find(TaskQuery(task_type="compress"))).items[0].identity


@pytest.mark.parametrize("token", ["0", "999", "wrong", ""])
async def test_a_stale_token_changes_nothing(
    scheduler: TaskScheduler, store: FaultyStore, clock: FakeClock, token: str
):
    await scheduler.schedule_user_task("compress", "u1")
    clock.advance(60)
    task = await scheduler.get_pending_task("compress")
    assert task is not None
    with pytest.raises(LeaseLost, match="Nothing was written"):
        await scheduler.complete_task("compress", task.user_key, token)
    await assert_scheduled(store, "compress", status="running")


async def test_settling_twice_is_harmless(scheduler: TaskScheduler, clock: FakeClock):
    """The reply to the first may have been lost: the same settle again is answered, not refused."""
    await scheduler.schedule_user_task("compress", "u1")
    clock.advance(60)
    task = await scheduler.get_pending_task("compress")
    assert task is not None
    assert task.lock_token is not None
    await scheduler.complete_task("compress", task.user_key, task.lock_token)
    await scheduler.complete_task("compress", task.user_key, task.lock_token)


async def test_a_claim_whose_reply_was_lost_is_given_back(
    scheduler: TaskScheduler, store: FaultyStore, clock: FakeClock
):
    """Nobody knows its token, so it is released before the next claim, and that one gets it."""
    await scheduler.schedule_user_task("compress", "u1")
    clock.advance(60)
    store.torn("claim", calls=1)
    with pytest.raises(StoreUnavailable):
        await scheduler.get_pending_task("compress")
    await assert_scheduled(store, "compress", status="running")
    task = await scheduler.get_pending_task("compress")
    assert task is not None
    assert (task.user_id, task.retry_count) == ("u1", 0)


async def test_a_store_that_is_down_is_an_error(scheduler: TaskScheduler, store: FaultyStore):
    await scheduler.get_queue_depths()
    with store.down():
        with pytest.raises(StoreUnavailable):
            await scheduler.schedule_user_task("compress", "u1")
        with pytest.raises(StoreUnavailable):
            await scheduler.get_pending_task("compress")


async def test_depths_of_all_types(scheduler: TaskScheduler):
    await scheduler.schedule_user_task("compress", "u1")
    await scheduler.schedule_user_task("compress", "u2")
    assert await scheduler.get_queue_depths() == {"clean": 1, "compress": 2, "off": 0}


async def test_a_periodic_handler_gets_three_times_none(scheduler: TaskScheduler):
    called: asyncio.Queue[tuple[object, ...]] = asyncio.Queue()

    async def clean(user_id: object, device_id: object, agent_id: object) -> bool:
        called.put_nowait((user_id, device_id, agent_id))
        return True

    scheduler.register_handler("clean", clean, trigger_mode=TriggerMode.PERIODIC)
    await scheduler.start()
    async with asyncio.timeout(PATIENCE):
        assert await called.get() == (None, None, None)


async def test_a_handler_may_be_a_plain_function(scheduler: TaskScheduler):
    called = asyncio.Event()
    loop = asyncio.get_running_loop()

    def clean(user_id: object, device_id: object, agent_id: object) -> bool:
        loop.call_soon_threadsafe(called.set)
        return True

    scheduler.register_handler("clean", clean)
    await scheduler.start()
    async with asyncio.timeout(PATIENCE):
        await called.wait()


def test_handlers_that_cannot_be_called_are_refused(scheduler: TaskScheduler):
    with pytest.raises(InvalidInput, match="must take"):
        scheduler.register_handler("compress", lambda user_id: True)  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
    with pytest.raises(InvalidInput, match="Give a function"):
        scheduler.register_handler("compress", "compress")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="Did you mean 'periodic'"):
        scheduler.register_handler("compress", handler, trigger_mode="periodical")  # pyright: ignore[reportArgumentType]


def test_a_contradicting_mode_is_refused(scheduler: TaskScheduler):
    with pytest.raises(InvalidConfig, match=r"'periodic' \(argument\), but .* 'user_activity' \(register_handler\)"):
        scheduler.register_handler("clean", handler, trigger_mode=TriggerMode.USER_ACTIVITY)


async def test_the_mode_in_code_counts_where_the_configuration_says_nothing(scheduler: TaskScheduler):
    scheduler.register_handler("compress", handler, trigger_mode=TriggerMode.PERIODIC)
    config = await scheduler.get_task_config("compress")
    assert config is not None
    assert config.trigger_mode is TriggerMode.PERIODIC


async def test_a_registered_type_must_fit_its_handler(scheduler: TaskScheduler):
    scheduler.register_handler("later", handler, trigger_mode=TriggerMode.PERIODIC)
    with pytest.raises(InvalidConfig, match=r"'user_activity' \(register_task_type\), but .*'periodic'"):
        await scheduler.register_task_type(TaskConfig(name="later"))
    with pytest.raises(InvalidConfig, match="timeout is 0s"):
        await scheduler.register_task_type(TaskConfig(name="other", timeout=0))
    assert await scheduler.register_task_type(TaskType(name="fine", interval_ms=500))


async def test_stopping_what_never_started_is_harmless(scheduler: TaskScheduler):
    await scheduler.stop()
    await scheduler.stop(timeout=0)
    assert not scheduler.is_running()


async def test_it_can_be_started_again(scheduler: TaskScheduler):
    for _ in range(2):
        await scheduler.start()
        assert scheduler.is_running()
        await scheduler.stop()
        assert not scheduler.is_running()


async def test_concurrent_first_calls_open_one_store(scheduler: TaskScheduler):
    made = await asyncio.gather(*(scheduler.schedule_user_task("compress", f"u{n}") for n in range(20)))
    assert made == [True] * 20
    assert (await scheduler.get_queue_depths())["compress"] == 20


def test_what_is_no_store_is_refused():
    with pytest.raises(InvalidConfig, match=r"cannot be used\. Give a URL"):
        init_scheduler(object())  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidConfig, match=r"scheduler.taks .*Did you mean 'tasks'"):
        init_scheduler("memory://", {"taks": {}})
    set_scheduler(None)


@pytest.mark.parametrize("clock", [None, FakeClock()])
async def test_the_stores_own_clock_rules_unless_a_test_brings_one(
    clock: FakeClock | None, monkeypatch: pytest.MonkeyPatch
):
    given: list[Clock | None] = []

    def opened(url: str, clock: Clock | None = None, *, call_timeout: float | None = None) -> Store:
        given.append(clock)
        return MemoryStore(clock)

    monkeypatch.setattr("rota.app.host.open_store", opened)
    scheduler = TaskScheduler("postgresql://h/d", {"tasks": TYPES}, clock=clock)
    await scheduler.schedule_user_task("compress", "u1")
    await scheduler.stop()
    assert given == [clock]
