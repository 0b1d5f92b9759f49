"""Claiming: fair, event-driven, and never forgetting what a lost reply may have taken."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from stage import Stage

from rota.clock import Instant
from rota.core.task import NewTask, Task
from rota.errors import StoreUnavailable
from rota.runtime.dispatcher import Dispatcher, DispatchReport, Slots
from rota.runtime.executor import Executor
from rota.runtime.running import Running
from rota.runtime.verdict import StopCause
from rota.stores.base import Claimed, ClaimRequest, Store
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import until


def dispatcher(
    stage: Stage, executor: Executor, total: int = 5, store: Store | None = None, call_timeout: float | None = None
) -> Dispatcher:
    slots = Slots(total, abandoned=1, lease_ms=10_000, check_interval_ms=10_000)
    context = stage.context(store, call_timeout=call_timeout)
    return Dispatcher(context, executor, stage.handlers, stage.types, slots=slots)


async def waiting() -> None:
    await asyncio.Event().wait()


async def nothing() -> None: ...


async def end(executor: Executor) -> None:
    executor.give_up()
    await executor.drain()


async def stop_some(executor: Executor, count: int) -> None:
    left = len(executor.running) - count
    for each in list(executor.running)[:count]:
        executor.stopping.stop(each, StopCause.SHUTDOWN)
    await until(lambda: len(executor.running) == left)


def running(executor: Executor) -> list[str]:
    return sorted(one.task.task_type for one in executor.running)


async def test_it_claims_as_many_as_there_are_free_slots(still_stage: Stage) -> None:
    await still_stage.add(waiting)
    await still_stage.schedule("a", "b", "c", "d")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor, total=3)
    report = await duty.run_once()
    assert (report.claimed, report.is_full) == (3, True)
    assert (await duty.run_once()).claimed == 0
    assert duty.pause_after(report) == 10
    await end(executor)


async def test_slots_are_shared_among_types_with_work(still_stage: Stage) -> None:
    for name in ("busy", "rare", "idle"):
        await still_stage.add(waiting, name)
    await still_stage.schedule(*"abcdefgh", name="busy")
    await still_stage.schedule("a", "b", name="rare")
    executor = still_stage.executor()
    await dispatcher(still_stage, executor, total=6).run_once()
    assert running(executor) == ["busy"] * 3 + ["rare"] * 2, "and the one that has nothing to do keeps a slot"
    await end(executor)


async def test_fewer_slots_than_types_still_reach_everybody(still_stage: Stage) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        await still_stage.add(nothing, name)
    await still_stage.schedule("u1", name="d")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor, total=1)
    assert (await duty.run_once()).claimed == 1
    await executor.drain()


async def test_one_call_when_nothing_is_due(still_stage: Stage) -> None:
    for name in ("a", "b", "c"):
        await still_stage.add(nothing, name)
    faulty = FaultyStore(still_stage.store)
    duty = dispatcher(still_stage, still_stage.executor(), store=faulty)
    assert await duty.run_once() == DispatchReport(now=still_stage.clock.now())
    assert faulty.calls["claim"] == 1


async def test_concurrency_of_a_type_is_a_limit(still_stage: Stage) -> None:
    await still_stage.add(waiting, concurrency=2)
    await still_stage.schedule("a", "b", "c")
    executor = still_stage.executor()
    report = await dispatcher(still_stage, executor).run_once()
    assert (report.claimed, report.is_full) == (2, False)
    await end(executor)


async def test_it_waits_until_the_next_due_time(still_stage: Stage, still_clock: FakeClock) -> None:
    await still_stage.add(nothing)
    await still_stage.store.schedule([NewTask(task_type="work", key="u1", scheduled_at=still_clock.now() + 2_500)])
    duty = dispatcher(still_stage, still_stage.executor())
    report = await duty.run_once()
    assert duty.pause_after(report) == 2.5


async def test_what_is_due_but_has_no_room_does_not_make_it_spin(still_stage: Stage) -> None:
    await still_stage.add(waiting, concurrency=1)
    await still_stage.schedule("a", "b")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor)
    report = await duty.run_once()
    assert (report.claimed, report.next_due_at) == (1, None)
    assert duty.pause_after(report) == 10
    await end(executor)


async def test_a_claim_whose_reply_was_lost_is_given_back(still_stage: Stage) -> None:
    """Before the next claim, and counted nowhere."""
    await still_stage.add(waiting)
    await still_stage.schedule("u1")
    faulty = FaultyStore(still_stage.store)
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor, store=faulty)
    faulty.torn("claim", calls=1)
    with pytest.raises(StoreUnavailable):
        await duty.run_once()
    assert await still_stage.status("u1") == "running", "the store has taken it, nobody runs it"
    assert (await duty.run_once()).claimed == 1
    task = await still_stage.task("u1")
    assert (task.attempt, task.crashes, task.errors) == (1, 0, 0)
    assert faulty.calls["abandon"] == 1
    await end(executor)


async def test_nothing_is_claimed_while_a_lost_claim_cannot_be_given_back(still_stage: Stage) -> None:
    await still_stage.add(waiting)
    faulty = FaultyStore(still_stage.store)
    duty = dispatcher(still_stage, still_stage.executor(), store=faulty)
    faulty.torn("claim", calls=1)
    with pytest.raises(StoreUnavailable):
        await duty.run_once()
    with faulty.down("abandon"), pytest.raises(StoreUnavailable):
        await duty.run_once()
    assert faulty.calls["claim"] == 1


async def test_a_claim_that_takes_too_long_is_given_back(memory_stage: Stage) -> None:
    """The deadline of the call has passed; the reply that comes later finds nobody."""
    stage = memory_stage
    await stage.add(waiting)
    faulty = FaultyStore(stage.store)
    executor = stage.executor()
    duty = dispatcher(stage, executor, store=faulty, call_timeout=0.05)
    with faulty.slow(5, "claim"), pytest.raises(StoreUnavailable, match="did not answer 'claim' within"):
        await duty.run_once()
    await stage.schedule("u1")
    assert (await duty.run_once()).claimed == 1
    assert faulty.calls["abandon"] == 1
    await end(executor)


async def test_a_claim_in_flight_when_it_is_stopped_is_given_back(still_stage: Stage) -> None:
    await still_stage.add(waiting)
    await still_stage.schedule("u1")
    faulty = FaultyStore(still_stage.store)
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor, store=faulty)
    faulty.slow(0.05, "claim")
    async with asyncio.TaskGroup() as group:
        group.create_task(duty.run())
        await until(lambda: faulty.calls.get("claim"))
        duty.stop()
    assert await duty.give_back() == 1
    assert await still_stage.status("u1") == "pending"
    assert not executor.running


async def test_an_identity_that_was_left_behind_is_not_claimed(still_stage: Stage) -> None:
    await still_stage.add(waiting, timeout_ms=10_000)
    await still_stage.schedule("u1", "u2")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor, total=1)
    await duty.run_once()
    stuck = next(iter(executor.running))
    executor.stopping.abandoned.add(stuck)
    executor.running.clear()
    seen: list[Task] = []
    for _ in range(3):
        await duty.run_once()
        seen += [one.task for one in executor.running]
    assert {task.identity for task in seen} != {stuck.task.identity}
    await end(executor)


async def test_past_the_limit_of_abandoned_handlers_no_thread_is_started(still_stage: Stage) -> None:
    def blocking() -> None: ...

    await still_stage.add(blocking, "threaded")
    await still_stage.add(nothing, "awaited")
    await still_stage.schedule("u1", name="threaded")
    await still_stage.schedule("u1", name="awaited")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor)
    left_behind = Running(await still_stage.task("u1", "threaded"), still_stage.handlers["threaded"], 1, 0.0)
    executor.stopping.abandoned.add(left_behind)
    assert (await duty.run_once()).claimed == 1
    assert running(executor) == ["awaited"]
    await executor.drain()


async def test_an_overridden_concurrency_counts_within_a_check_interval(
    still_stage: Stage, still_clock: FakeClock
) -> None:
    await still_stage.add(waiting)
    await still_stage.schedule("a", "b", "c", "d")
    executor = still_stage.executor()
    faulty = FaultyStore(still_stage.store)
    duty = dispatcher(still_stage, executor, store=faulty)
    await still_stage.store.override_type("work", {"concurrency": 1})
    assert (await duty.run_once()).claimed == 1
    await still_stage.store.override_type("work", {"concurrency": 3})
    assert (await duty.run_once()).claimed == 0
    assert faulty.calls["list_types"] == 1
    still_clock.advance("10s")
    assert (await duty.run_once()).claimed == 2
    await still_stage.store.override_type("work", {"concurrency": None})
    still_clock.advance("10s")
    assert (await duty.run_once()).claimed == 1
    assert faulty.calls["list_types"] == 3
    await end(executor)


async def test_shared_slots_that_are_full_do_not_hold_a_type_with_slots_of_its_own(still_stage: Stage) -> None:
    await still_stage.add(waiting, "shared")
    await still_stage.add(waiting, "own", slots="own", concurrency=3)
    await still_stage.schedule(*"abcdefg", name="shared")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor)
    report = await duty.run_once()
    assert (report.claimed, report.is_full) == (5, False), "the other one has room"
    await still_stage.schedule(*"abcd", name="own")
    duty.poke()
    report = await duty.run_once()
    assert (report.claimed, report.is_full) == (3, True)
    assert running(executor) == ["own"] * 3 + ["shared"] * 5
    await end(executor)


async def test_waiting_runs_in_slots_of_their_own_do_not_hold_a_shared_type(still_stage: Stage) -> None:
    await still_stage.add(waiting, "own", slots="own", concurrency=64)
    await still_stage.add(waiting, "shared")
    await still_stage.schedule(*(f"k{number}" for number in range(80)), name="own")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor)
    assert (await duty.run_once()).claimed == 64
    await still_stage.schedule(*"abcdefg", name="shared")
    duty.poke()
    assert (await duty.run_once()).claimed == 5
    assert running(executor) == ["own"] * 64 + ["shared"] * 5
    await end(executor)


async def test_without_a_limit_a_pool_of_its_own_has_as_many_slots_as_the_others_share(still_stage: Stage) -> None:
    await still_stage.add(waiting, "own", slots="own")
    await still_stage.schedule(*"abcdefg", name="own")
    executor = still_stage.executor()
    assert (await dispatcher(still_stage, executor, total=3).run_once()).claimed == 3
    await end(executor)


async def test_a_type_with_slots_of_its_own_keeps_none_of_the_shared_ones(still_stage: Stage) -> None:
    await still_stage.add(waiting, "own", slots="own", concurrency=1)
    await still_stage.add(waiting, "shared")
    await still_stage.schedule(*"abcdefg", name="shared")
    executor = still_stage.executor()
    assert (await dispatcher(still_stage, executor).run_once()).claimed == 5
    await end(executor)


async def test_several_types_with_slots_of_their_own(still_stage: Stage) -> None:
    """Whatever ranks first: nobody competes with anybody."""
    for name, priority in (("one", 0), ("two", 9), ("shared", 5)):
        slots = "shared" if name == "shared" else "own"
        await still_stage.add(waiting, name, slots=slots, concurrency=2)
        new = [NewTask(task_type=name, key=key, priority=priority) for key in "abcd"]
        await still_stage.store.schedule(new)
    executor = still_stage.executor()
    faulty = FaultyStore(still_stage.store)
    duty = dispatcher(still_stage, executor, store=faulty)
    assert (await duty.run_once()).claimed == 6
    assert running(executor) == ["one", "one", "shared", "shared", "two", "two"]
    assert faulty.calls["claim"] == 3
    assert (await duty.run_once()).claimed == 0
    assert faulty.calls["claim"] == 3, "who has no room is not asked"
    await end(executor)


async def test_the_due_time_of_a_type_with_room_counts_while_the_shared_slots_are_full(
    still_stage: Stage, still_clock: FakeClock
) -> None:
    await still_stage.add(waiting, "shared")
    await still_stage.add(nothing, "own", slots="own")
    await still_stage.schedule(*"abcdefg", name="shared")
    await still_stage.store.schedule([NewTask(task_type="own", key="u1", scheduled_at=still_clock.now() + 2_500)])
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor)
    report = await duty.run_once()
    assert (report.is_full, duty.pause_after(report)) == (False, 2.5)
    still_clock.advance(2.5)
    assert (await duty.run_once()).claimed == 1
    await end(executor)


async def test_who_was_quiet_is_asked_again_soon_while_others_are_busy(
    still_stage: Stage, still_clock: FakeClock
) -> None:
    """Else every claim of a busy type would be one more for each pool; a poke asks at once."""
    await still_stage.add(nothing, "shared")
    await still_stage.add(waiting, "own", slots="own")
    executor = still_stage.executor()
    faulty = FaultyStore(still_stage.store)
    duty = dispatcher(still_stage, executor, store=faulty)
    await still_stage.schedule("a", name="shared")
    await duty.run_once()
    assert faulty.calls["claim"] == 2
    await executor.drain()
    await still_stage.schedule("b", name="shared")
    report = await duty.run_once()
    assert (report.claimed, report.passes_over, faulty.calls["claim"]) == (1, True, 3)
    assert duty.pause_after(report) == 0.1
    await still_stage.schedule("c", name="own")
    still_clock.advance(0.1)
    assert (await duty.run_once()).claimed == 1
    await end(executor)


async def test_a_free_slot_is_no_reason_to_ask_who_had_nothing(
    still_stage: Stage, still_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends frees a slot; if nothing was due a moment ago, whatever is due now was heard of."""
    await still_stage.add(waiting, "shared")
    await still_stage.add(waiting, "other")
    await still_stage.add(waiting, "own", slots="own")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor)
    woken: list[int] = []
    monkeypatch.setattr(duty, "wake", lambda: woken.append(1))

    def wakes(task_type: str) -> bool:
        woken.clear()
        duty.freed([task_type])
        return bool(woken)

    assert wakes("shared")  # nobody has looked yet
    await duty.run_once()
    assert not wakes("shared")
    assert not wakes("own")
    still_clock.advance(0.1)
    assert wakes("shared")
    await duty.run_once()
    duty.poke()
    assert wakes("own")
    await still_stage.schedule(*(f"s{number}" for number in range(9)), name="shared")
    await duty.run_once()
    assert wakes("shared")  # more is due than there are slots
    assert wakes("other")  # and it may have this one
    assert not wakes("own")
    executor.stopping.abandoned.add(next(iter(executor.running)))
    assert wakes("own")
    executor.stopping.abandoned.clear()
    await end(executor)


async def test_what_waited_for_a_run_that_ended_during_a_round_is_looked_for(still_stage: Stage) -> None:
    """The claim may have looked before the end that let it in."""
    await still_stage.add(waiting, "shared")
    await still_stage.schedule("a", name="shared")
    executor = still_stage.executor()
    slow = Slow(still_stage.store)
    duty = dispatcher(still_stage, executor, store=slow)
    duty._woken.clear()  # pyright: ignore[reportPrivateUsage]  # as `run` does before a round
    job = asyncio.ensure_future(duty.run_once())
    await until(lambda: len(slow.limits) == 1)
    duty.freed(["shared"])
    slow.may_answer.release()
    assert (await job).claimed == 1
    assert duty._woken.is_set()  # pyright: ignore[reportPrivateUsage]
    await end(executor)


class Slow(FaultyStore):
    """A store that answers a claim when it may."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.may_answer = asyncio.Semaphore(0)
        self.limits: list[int | None] = []

    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        self.limits.append(request.limit)
        await self.may_answer.acquire()
        return await super().claim(request, now=now)


async def all_taken(stage: Stage) -> tuple[Executor, Slow, Dispatcher]:
    """All of eight slots, and more is due."""
    await stage.add(waiting)
    await stage.schedule(*(f"u{number}" for number in range(30)))
    executor = stage.executor()
    slow = Slow(stage.store)
    duty = dispatcher(stage, executor, store=slow, total=8)
    slow.may_answer.release()
    assert (await duty.run_once()).claimed == 8
    return executor, slow, duty


async def test_slots_that_come_free_are_filled_while_a_claim_is_answered(still_stage: Stage) -> None:
    """If they are many; no slot is offered twice."""
    executor, slow, duty = await all_taken(still_stage)
    await stop_some(executor, 3)
    is_woken = duty._woken.is_set  # pyright: ignore[reportPrivateUsage]
    duty._woken.clear()  # pyright: ignore[reportPrivateUsage]  # as `run` does before a round
    job = asyncio.ensure_future(duty.run_once())
    await until(lambda: len(slow.limits) == 2)
    await stop_some(executor, 1)
    duty.freed(["work"])
    await stop_some(executor, 1)
    duty.freed(["work"])
    await until(lambda: len(slow.limits) == 3)
    assert slow.limits == [7, 3, 2], "one slot alone is not worth a call, two of eight are; the first one was its own"
    assert not is_woken(), "they are filled by this round: no other one need be made for them"
    duty.poke()
    duty.freed(["work"])
    slow.may_answer.release()
    slow.may_answer.release()
    assert (await job).claimed == 5
    assert len(executor.running) == 8
    assert is_woken(), "who was poked looks again, whatever else happened"
    await end(executor)


async def test_a_claim_that_fails_takes_the_other_one_with_it(still_stage: Stage) -> None:
    """What either of them took is given back before the next one."""
    executor, slow, duty = await all_taken(still_stage)
    await stop_some(executor, 4)
    job = asyncio.ensure_future(duty.run_once())
    await until(lambda: len(slow.limits) == 2)
    await stop_some(executor, 4)
    duty.freed(["work"])
    await until(lambda: len(slow.limits) == 3)
    with slow.torn("claim", calls=1):
        slow.may_answer.release()
        with pytest.raises(StoreUnavailable):
            await job
    assert len(executor.running) == 0
    assert await duty.give_back() == 2
    slow.may_answer.release()
    assert (await duty.run_once()).claimed == 8
    await end(executor)


async def test_whether_a_type_has_slots_of_its_own_is_looked_up_like_its_concurrency(
    still_stage: Stage, still_clock: FakeClock
) -> None:
    await still_stage.add(waiting, "work")
    await still_stage.add(waiting, "other")
    await still_stage.schedule(*"abc", name="work")
    await still_stage.schedule(*"abc", name="other")
    executor = still_stage.executor()
    duty = dispatcher(still_stage, executor, total=2)
    assert (await duty.run_once()).claimed == 2
    await still_stage.store.put_types([replace(still_stage.types["work"], slots="own", concurrency=3, version=1)])
    still_clock.advance("10s")
    assert (await duty.run_once()).claimed == 3
    assert running(executor) == ["other"] * 2 + ["work"] * 3
    await end(executor)
