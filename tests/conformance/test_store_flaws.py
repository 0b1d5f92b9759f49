"""What a store must not do, by its number in docs/flaws.md, on every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from rota.clock import DAY, HOUR, MINUTE, SECOND, from_datetime
from rota.core.outcome import Answer, ScheduleOutcome, TouchOutcome
from rota.core.task import NewTask, RunStatus, TaskStatus, Transition
from rota.errors import LimitExceeded
from rota.stores.base import MAX_PAYLOAD_BYTES, Store
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, World, hourly
from rota.triggers import Once, encode_trigger, parse_trigger


@pytest.fixture
def world(store: Store, clock: FakeClock) -> World:
    return World(store, clock)


async def test_flaw_01_schedule_is_one_step(world: World) -> None:
    """Two pushes at once make one task, and none overwrites a running one."""
    await world.type()
    answers = await asyncio.gather(*(world.schedule("k", payload=str(number)) for number in range(20)))
    assert [answer.outcome for answer in answers].count(ScheduleOutcome.CREATED) == 1
    running = await world.claim_one()
    await asyncio.gather(*(world.schedule("k") for _ in range(20)), *(world.touch("k") for _ in range(20)))
    task = await world.there("k")
    assert (task.status, task.token) == (TaskStatus.RUNNING, running.token)
    assert await world.claim(5) == []


async def test_flaw_02_claim_is_one_step(world: World) -> None:
    """Claimers that look at the same queue never run one task twice, not even after the first has completed it."""
    await world.type()
    keys = [f"k{number:02}" for number in range(40)]
    await world.store.schedule([NewTask(task_type=WORK, key=key) for key in keys], now=world.now)
    ran: list[str] = []

    async def work(instance: str) -> None:
        while tasks := await world.claim(3, instance=instance):
            for task in tasks:
                ran.append(task.key)
                assert (await world.settle(task)).answer is Answer.OK

    await asyncio.gather(*(work(f"i{number}") for number in range(8)))
    assert sorted(ran) == keys


async def test_flaw_03_crash_between_pop_and_finish(world: World) -> None:
    """A task whose instance dies is never stuck, however active its user is meanwhile."""
    await world.type()
    await world.touch("k")
    await world.claim_due("k")
    await world.tick("i2")
    reaped: list[str] = []
    for _ in range(8):
        world.clock.advance("2s")
        assert (await world.touch("k")).outcome is TouchOutcome.COALESCED
        reaped += [task.key for task in (await world.tick("i2")).reaped]
    assert reaped == ["k"]
    assert (await world.claim_one(instance="i2")).attempt == 2


async def test_flaw_05_stale_completion_is_refused(world: World) -> None:
    await world.type()
    await world.schedule("k")
    late = await world.claim_one(instance="slow")
    await world.tick_past_lease()
    current = await world.claim_one(instance="i2")
    assert (await world.settle(late, result="late")).answer is Answer.STALE
    assert (await world.settle(current, result="right")).answer is Answer.OK
    assert (await world.there("k")).result == "right"
    assert (await world.settle(late, Transition.FAIL)).answer is Answer.STALE


async def test_flaw_06_failures_retry_then_dead_letter(world: World) -> None:
    await world.type(max_retries=3)
    await world.schedule("k")
    for _ in range(4):
        await world.claim_due("k")
        await world.settle(await world.there("k"), Transition.RETRY, error="boom", chance=0.9)
    dead = await world.all_tasks(status=TaskStatus.FAILED)
    assert [(task.key, task.errors, task.error) for task in dead] == [("k", 4, "boom")]
    await world.apply(Transition.REDRIVE)
    assert (await world.run()).status is TaskStatus.COMPLETED


async def test_flaw_13_continuous_activity_loses_nothing(world: World) -> None:
    """A user who is active without pause for a day: with `defer` every activity is followed by a run."""
    await world.type(cooldown="defer")
    end_at = world.now + DAY
    last_activity_at = last_claim_at = 0
    starts: list[int] = []
    while world.now < end_at:
        outcome = (await world.touch("k")).outcome
        assert outcome in (TouchOutcome.CREATED, TouchOutcome.COALESCED, TouchOutcome.DEFERRED)
        last_activity_at = world.now
        world.clock.advance("5m")
        for task in await world.claim():
            last_claim_at = world.now
            starts.append(world.now)
            await world.settle(task)
    world.clock.advance("1h")
    for task in await world.claim():
        last_claim_at = world.now
        await world.settle(task)
    assert last_claim_at >= last_activity_at
    # Every interval, not every other one: by the rule of flaw 13 half of the data is never worked on.
    assert max(after - before for before, after in pairwise(starts)) <= 35 * MINUTE


async def test_flaw_14_activity_during_the_run(world: World) -> None:
    await world.type()
    await world.touch("k")
    await world.claim_due("k")
    world.clock.advance("1m")
    await world.touch("k")
    await world.settle(await world.there("k"))
    world.clock.advance("30m")
    assert (await world.run()).status is TaskStatus.COMPLETED
    assert len(await world.runs()) == 2


async def test_flaw_15_debounce_and_delay_are_named(world: World) -> None:
    await world.type("delayed", mode="delay", interval_ms=MINUTE)
    await world.type("debounced", mode="debounce", interval_ms=MINUTE, max_wait_ms=3 * MINUTE)
    start = world.now
    for _ in range(3):
        await world.touch("k", "delayed")
        await world.touch("k", "debounced")
        world.clock.advance("30s")
    assert (await world.there("k", "delayed")).scheduled_at == start + MINUTE
    assert (await world.there("k", "debounced")).scheduled_at == start + 2 * MINUTE


async def test_flaw_17_cooldown_outlives_a_day(world: World) -> None:
    await world.type(interval_ms=2 * DAY)
    await world.schedule("k")
    await world.run()
    world.clock.advance("25h")
    await world.prune()
    assert (await world.touch("k")).outcome is TouchOutcome.COOLDOWN


async def test_flaw_20_store_clock_rules(store: Store, clock: FakeClock) -> None:
    """Without a `now` every instance goes by the store's clock: nobody's own clock makes a lease end early."""
    world = World(store, clock)
    await world.type()
    task = (await store.schedule([NewTask(task_type=WORK, key="k")]))[0].task
    assert task is not None
    assert task.scheduled_at == clock.now() == await store.now()
    clock.advance("1h")
    assert await store.now() == clock.now()
    assert (await store.pause([task.identity]))[0].task is not None
    paused = await world.there("k")
    assert paused.updated_at == clock.now()


async def test_flaw_26_every_run_leaves_a_record(world: World) -> None:
    await world.type()
    await world.schedule("k")
    for transition in (Transition.RETRY, Transition.SNOOZE, Transition.RELEASE):
        await world.run(transition, after_ms=0)
    await world.crash("k")
    await world.run(Transition.COMPLETE)
    runs = await world.runs()
    assert [run.status for run in runs] == [
        RunStatus.ERROR,
        RunStatus.SKIPPED,
        RunStatus.SKIPPED,
        RunStatus.LOST,
        RunStatus.SUCCESS,
    ]
    assert len({run.run_id for run in runs}) == len({run.token for run in runs}) == 5
    await world.apply(Transition.RUN_NOW)
    await world.run(Transition.DISCARD)
    assert (await world.runs())[-1].trigger_mode == "manual"


async def test_flaw_29_edit_during_run_wins(world: World) -> None:
    await world.type()
    await world.series("k")
    world.clock.advance("1h")
    task = await world.claim_one()
    await world.update("k", trigger=hourly(world.now, 7 * HOUR))
    world.clock.advance("1m")
    await world.settle(task)
    assert (await world.there("k")).next_fire == world.now - MINUTE + 7 * HOUR


async def test_flaw_32_once_that_errors_is_failed(world: World) -> None:
    await world.type(max_retries=1)
    await world.created("k", trigger=encode_trigger(Once(world.now + MINUTE)))
    world.clock.advance("1m")
    assert (await world.run(Transition.RETRY, after_ms=0)).status is TaskStatus.PENDING
    assert (await world.run(Transition.RETRY, after_ms=0)).status is TaskStatus.FAILED


async def test_flaw_33_crash_leaves_a_run_record(world: World) -> None:
    await world.type()
    made = await world.series("k")
    world.clock.advance("1h")
    await world.crash("k")
    (run,) = await world.runs()
    assert (run.status, run.instance, run.attempt, run.fire_at) == (RunStatus.LOST, "doomed", 1, made.next_fire)


async def test_flaw_34_times_compare_as_numbers(world: World) -> None:
    """The same instant in three spellings is the same due time, and order is time order."""
    await world.type()
    for key, text in (
        ("b", "2026-01-05T11:00:00+01:00"),
        ("c", "2026-01-05T10:00:00.001Z"),
        ("a", "2026-01-05T09:59:59.999+00:00"),
    ):
        await world.created(key, trigger=encode_trigger(parse_trigger("once", text, now=world.now)))
    ten = from_datetime(datetime(2026, 1, 5, 10, tzinfo=UTC))
    assert (await world.there("b")).scheduled_at == ten
    world.clock.set(ten)
    assert [task.key for task in await world.claim(5)] == ["a", "b"]


async def test_flaw_37_resume(world: World) -> None:
    await world.type()
    await world.series("k")
    await world.apply(Transition.PAUSE)
    world.clock.advance("30d")
    await world.apply(Transition.RESUME)
    assert await world.claim() == []
    assert (await world.there("k")).scheduled_at == world.now + HOUR
    assert [(run.reason, run.fires) for run in await world.runs()] == [("paused", 30 * 24)]


async def test_flaw_39_limits(world: World) -> None:
    await world.type()
    with pytest.raises(LimitExceeded, match="262,144"):
        await world.schedule("k", payload="x" * (MAX_PAYLOAD_BYTES + 1))
    await world.schedule("k")
    await world.run()
    world.clock.advance("31d")
    pruned = await world.prune()
    assert (pruned.purged, pruned.runs) == (1, 1)
    assert await world.runs() == []


async def test_flaw_40_priority_ages(world: World) -> None:
    await world.type()
    await world.schedule("patient", priority=0)
    world.clock.advance(10 * 30 + 1)
    await world.schedule("rush", priority=10)
    assert (await world.claim_one()).key == "patient"


async def test_flaw_46_token_bucket(world: World) -> None:
    """One a minute, ten at once: an idle minute gives one token, not ten; a clock that steps back gives none."""
    for _ in range(10):
        assert (await world.store.take("b", 1, rate=1 / 60, burst=10, now=world.now)).granted == 1
    world.clock.advance("61s")
    assert (await world.store.take("b", 1, rate=1 / 60, burst=10, now=world.now)).granted == 1
    refused = await world.store.take("b", 1, rate=1 / 60, burst=10, now=world.now)
    assert refused.granted == 0
    assert 58 * SECOND <= refused.retry_after_ms <= 60 * SECOND
    assert (await world.store.take("b", 1, rate=1 / 60, burst=10, now=world.now - DAY)).granted == 0
    with pytest.raises(LimitExceeded):
        await world.store.take("b", 11, rate=1 / 60, burst=10, now=world.now)
