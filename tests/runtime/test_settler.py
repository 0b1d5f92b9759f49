"""The ends of runs on their way to the store: in groups, each by itself, for as long as it takes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage import Stage
from structlog.testing import capture_logs
from tests.opening import opened

from rota.clock import Instant, SystemClock
from rota.core.outcome import Answer, Settled
from rota.core.task import Settlement, Task, Transition
from rota.errors import InvalidInput
from rota.group_commit import MAX_GROUP
from rota.runtime.executor import Executor
from rota.runtime.heartbeat import Heartbeat
from rota.runtime.running import Running
from rota.runtime.verdict import StopCause
from rota.runtime.worker import WorkerSettings
from rota.stores.base import ClaimRequest, Store
from rota.stores.memory import MemoryStore
from rota.testing import FaultyStore
from rota.testing.waiting import until


class Watched(FaultyStore):
    """A store that remembers the groups it was asked to settle, refuses some keys, and can be made to wait."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.groups: list[list[Settlement]] = []
        self.at_once = self.most_at_once = 0
        self.unwritable: dict[str, Exception] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.answered_at_once = 0
        """So many groups do not wait for that."""

    async def settle_runs(
        self, settlements: Sequence[Settlement], *, now: Instant | None = None
    ) -> list[Settled | Exception]:
        self.groups.append(list(settlements))
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            if len(self.groups) > self.answered_at_once:
                await self.may_answer.wait()
            good = [one for one in settlements if one.key not in self.unwritable]
            answers = iter(await super().settle_runs(good, now=now))
            return [self.unwritable.get(one.key) or next(answers) for one in settlements]
        finally:
            self.at_once -= 1


async def nothing() -> str:
    return "done"


async def claimed(stage: Stage, count: int) -> list[Task]:
    await stage.schedule(*(f"u{number}" for number in range(count)))
    request = ClaimRequest(wants=[("work", count)], instance="here", claim_id=uuid.uuid4().hex, lease_ms=10_000)
    return (await stage.store.claim(request)).tasks


async def started(stage: Stage, count: int) -> tuple[Executor, Watched, list[Running]]:
    """So many runs of what ends at once, over a store that is watched."""
    tasks = await claimed(stage, count)
    stage.store = watched = Watched(stage.store)
    executor = stage.executor()
    return executor, watched, [executor.start(task, stage.clock.monotonic()) for task in tasks]


@pytest.mark.parametrize("count", [1, 7, MAX_GROUP, 3 * MAX_GROUP + 1])
async def test_what_ends_together_is_settled_together(still_stage: Stage, count: int) -> None:
    await still_stage.add(nothing)
    executor, watched, runs = await started(still_stage, count)
    closed: list[Sequence[Running]] = []
    executor.on_settled = closed.append
    await executor.drain()
    assert [len(group) for group in watched.groups] == [len(group) for group in closed]
    assert len(watched.groups) == -(-count // MAX_GROUP), "whole groups, and one for the rest"
    assert sum(map(len, closed)) == executor.runs_total == count
    assert all(running.landed for running in runs)
    assert (len(executor.running), +executor.per_type) == (0, {})
    assert len(await still_stage.runs()) == min(count, 1_000)


async def test_few_groups_are_under_way_and_the_rest_waits(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, _ = await started(still_stage, 5 * MAX_GROUP)
    watched.may_answer.clear()
    await until(lambda: len(watched.groups) == 2)
    assert len(executor.running) == 5 * MAX_GROUP, "what waits has its slot"
    watched.may_answer.set()
    await executor.drain()
    assert (watched.most_at_once, len(watched.groups)) == (2, 5)


async def test_one_that_cannot_be_written_holds_up_nobody(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, _ = await started(still_stage, 5)
    watched.unwritable["u2"] = RuntimeError("this one not")
    await until(lambda: len(executor.running) == 1)
    assert [await still_stage.status(f"u{number}") for number in (0, 1, 3, 4)] == ["completed"] * 4
    await until(lambda: len(watched.groups) > 2, "it is tried again and again")
    assert {one.key for group in watched.groups[1:] for one in group} == {"u2"}
    watched.unwritable.clear()
    await executor.drain()
    assert (await still_stage.task("u2")).result == "done"


async def test_a_text_that_cannot_be_kept_is_left_out_of_its_own_run_alone(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, _ = await started(still_stage, 3)
    refusal = InvalidInput("no such text")
    watched.unwritable["u1"] = refusal
    await until(lambda: len(watched.groups) >= 2)
    watched.unwritable.clear()
    await executor.drain()
    assert [(await still_stage.task(key)).result for key in ("u0", "u1", "u2")] == ["done", None, "done"]
    assert [one.result for group in watched.groups for one in group if one.key == "u1"][:2] == ["done", None]


async def test_a_stale_one_among_good_ones_is_refused_alone(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, runs = await started(still_stage, 3)
    stolen = runs[1].task
    other = Settlement(task_type="work", key=stolen.key, token=stolen.token, transition=Transition.DISCARD)
    assert (await watched.store.settle([other]))[0].answer is Answer.OK
    with capture_logs() as logs:
        await executor.drain()
    assert [running.landed for running in runs] == [True, False, True]
    assert [line["key"] for line in logs if line["event"] == "lease lost"] == [stolen.key]
    assert (await still_stage.task(stolen.key)).result is None


async def test_an_outage_makes_the_pauses_grow_and_the_log_rare(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, runs = await started(still_stage, 2)
    pulse = executor._settler._pulse  # pyright: ignore[reportPrivateUsage]
    with capture_logs() as logs:
        watched.down("settle", calls=5)
        await until(lambda: runs[0].failures >= 2)
        assert "settling" in pulse.reasons()[0]
        await executor.drain()
    assert [running.failures for running in runs] == [5, 5]
    assert [line["failures"] for line in logs if line["event"] == "outcome waits"] == [1, 1, 2, 2, 4, 4]
    assert [len(group) for group in watched.groups] == [2] * 6, "what failed together is tried together"
    assert pulse.reasons() == []


# --- giving up ---


async def test_giving_up_ends_what_waits_what_pauses_and_what_is_under_way(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, runs = await started(still_stage, 3 * MAX_GROUP)
    failing = watched.down("settle", calls=2)
    watched.answered_at_once = 2
    watched.may_answer.clear()
    await until(lambda: failing.hits == 2)
    await until(lambda: watched.at_once == 1, "two groups pause, and one is under way")
    executor.give_up()
    await executor.drain()
    assert [running.landed for running in runs] == [False] * len(runs)
    assert +executor.per_type == {}
    groups = len(watched.groups)
    watched.may_answer.set()
    await until(lambda: watched.at_once == 0)
    loop = asyncio.get_running_loop()
    pauses_are_over = loop.time() + 0.2
    await until(lambda: loop.time() > pauses_are_over)
    assert len(watched.groups) == groups, "what was given up does not come back"


async def test_after_giving_up_what_still_runs_is_released_by_one_try(still_stage: Stage) -> None:
    begun = await still_stage.add_endless()
    executor, watched, runs = await started(still_stage, 1)
    await begun.wait()
    watched.down("settle")
    executor.give_up()
    await executor.drain()
    assert [(len(group), group[0].transition) for group in watched.groups] == [(1, Transition.RELEASE)]
    assert not runs[0].landed
    await until(lambda: not executor.stopping.abandoned)


async def test_a_worker_that_stops_waits_for_outcomes_that_wait(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    await still_stage.schedule("a", "b", "c")
    still_stage.store = watched = Watched(still_stage.store)
    watched.may_answer.clear()
    worker = still_stage.worker(WorkerSettings(max_concurrent=3))
    working = asyncio.create_task(worker.run())
    await until(lambda: watched.groups)
    stopping = asyncio.create_task(worker.stop(timeout=30))
    await until(lambda: worker._dispatcher.is_stopping)  # pyright: ignore[reportPrivateUsage]
    assert not stopping.done()
    watched.may_answer.set()
    await stopping
    await working
    assert [await still_stage.status(key) for key in ("a", "b", "c")] == ["completed"] * 3


# --- leases, slots, cancellation ---


async def test_a_renewal_that_is_stale_while_its_outcome_waits_stops_nothing(still_stage: Stage) -> None:
    await still_stage.add(nothing)
    executor, watched, (running,) = await started(still_stage, 1)
    watched.may_answer.clear()
    await until(lambda: watched.groups)
    other = Settlement(task_type="work", key="u0", token=running.task.token, transition=Transition.DISCARD)
    await watched.store.settle([other])
    running.settling_since -= 1  # it has waited for longer than a moment
    heartbeat = Heartbeat(still_stage.context(watched), executor, lease_ms=10_000)
    report = await asyncio.to_thread(heartbeat.run_once)
    assert (report.lost, running.cause) == (0, None), "the outcome itself is told"
    watched.may_answer.set()
    await executor.drain()
    assert not running.landed


async def test_slots_are_never_exceeded(memory_stage: Stage) -> None:
    most = at_once = 0

    async def handle() -> None:
        nonlocal most, at_once
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    await memory_stage.add(handle)
    await memory_stage.schedule(*(f"u{number}" for number in range(200)))
    memory_stage.store = watched = Watched(memory_stage.store)
    watched.slow(0.005, "settle", calls=10)
    assert await memory_stage.worker(WorkerSettings(max_concurrent=7)).run_until_idle() == 200
    assert most == 7


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    causes=st.lists(st.sampled_from(list(StopCause)), min_size=8, max_size=8),
    failures=st.integers(0, 1),
    gives_up=st.booleans(),
)
def test_stopped_at_any_moment_every_run_is_closed_once(
    steps: list[int], causes: list[StopCause], failures: int, gives_up: bool
) -> None:
    """Whatever stops a run, and whenever: its slot is free in the end, it is told once, and the store agrees."""

    async def handle() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    async def main() -> None:
        async with opened(MemoryStore(SystemClock())) as store:
            stage = Stage(store, SystemClock())
            await stage.add(handle)
            executor, watched, runs = await started(stage, len(steps))
            if failures:
                watched.down("settle", calls=failures)
            closed: list[Running] = []
            executor.on_settled = closed.extend
            for moment in range(7):
                for running, step, cause in zip(runs, steps, causes, strict=False):
                    if step == moment:
                        executor.stopping.stop(running, cause)
                await asyncio.sleep(0)
            if gives_up:
                executor.give_up()
            await executor.drain()
            assert sorted(running.task.key for running in closed) == sorted(running.task.key for running in runs)
            assert (+executor.per_type, executor.stopping.abandoned, executor.runs_total) == ({}, set(), len(runs))
            for running in runs:
                status = await stage.status(running.task.key)
                if running.landed:
                    assert running.verdict is not None
                    assert (status == "running") is False
                elif running.verdict is None:
                    assert (running.cause, status) == (StopCause.LOST, "running")
                else:
                    assert gives_up

    asyncio.run(main())


def test_what_the_store_does_not_answer_is_an_outage() -> None:
    """The group is tried again as a whole: which of them were written the store says by itself (already)."""

    async def main() -> None:
        async with opened(MemoryStore(SystemClock())) as store:
            stage = Stage(store, SystemClock())
            await stage.add(nothing)
            executor, watched, runs = await started(stage, 3)
            watched.torn("settle", calls=1)
            await executor.drain()
            assert [(running.failures, running.landed) for running in runs] == [(1, True)] * 3
            assert len(await stage.runs()) == 3

    asyncio.run(main())
