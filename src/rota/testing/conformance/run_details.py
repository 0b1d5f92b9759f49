"""What a run leaves: kept with its end or while it runs, under its token, for as long as run records are."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from rota.clock import DAY, HOUR
from rota.core.outcome import Answer
from rota.core.task import NewTask, Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidInput, LimitExceeded
from rota.stores.base import DETAILED_RUNS, MAX_DETAILS_BYTES, RunLeft, RunQuery, RunRef
from rota.testing.conformance.world import WORK, Suite, World, hourly

__all__ = ["TestDueAt", "TestRunDetails"]


def run_of(task: Task) -> RunRef:
    return RunRef(task.task_type, task.key, task.token)


async def left_by(world: World, *tasks: Task) -> list[str | None]:
    return await world.store.details([run_of(task) for task in tasks])


async def keep(world: World, task: Task, details: str) -> Answer:
    return (await world.store.keep_details([RunLeft(run_of(task), details)], now=world.now))[0]


class TestRunDetails(Suite):
    @pytest.mark.parametrize(
        "transition", [Transition.COMPLETE, Transition.RETRY, Transition.FAIL, Transition.SNOOZE, Transition.RELEASE]
    )
    async def test_the_end_of_a_run_brings_them(self, world: World, work: TaskType, transition: Transition) -> None:
        await world.schedule("k")
        claimed = await world.claim_one()
        assert (await world.settle(claimed, transition, details='{"host":"Köln ✓"}')).answer is Answer.OK
        assert await left_by(world, claimed) == ['{"host":"Köln ✓"}']

    async def test_of_a_worker_that_ends_many(self, world: World, work: TaskType) -> None:
        await world.store.schedule([NewTask(task_type=WORK, key=f"k{at}") for at in range(6)], now=world.now)
        tasks = await world.claim(6)
        ends = [
            Settlement(
                task_type=WORK,
                key=task.key,
                token=task.token,
                transition=Transition.RETRY if at % 2 else Transition.COMPLETE,
                details=f'{{"pid":{at}}}' if at % 3 else None,
            )
            for at, task in enumerate(tasks)
        ]
        await world.store.settle_runs(ends, now=world.now)
        assert await left_by(world, *tasks) == [None, '{"pid":1}', '{"pid":2}', None, '{"pid":4}', '{"pid":5}']
        await world.check_counts()

    async def test_of_a_series(self, world: World, work: TaskType) -> None:
        await world.series("k")
        claimed = await world.claim_due("k")
        await world.settle(claimed, Transition.FAIL, details="{}", failure="f1")
        assert await left_by(world, claimed) == ["{}"]
        assert [(run.token, run.failure) for run in await world.runs()] == [(claimed.token, "f1")]

    async def test_a_run_that_leaves_nothing_has_none(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one()
        await world.settle(claimed)
        assert await left_by(world, claimed) == [None]
        assert await world.store.details([RunRef("never", "made", 7)]) == [None]

    async def test_a_stale_writer_leaves_nothing(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        first = await world.claim_one()
        await world.settle(first, Transition.RELEASE)
        second = await world.claim_one()
        assert (await world.settle(first, Transition.COMPLETE, details="{}")).answer is Answer.STALE
        assert await keep(world, first, "{}") is Answer.STALE
        assert await left_by(world, first, second) == [None, None]

    async def test_the_same_end_again_changes_nothing(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one()
        await world.settle(claimed, Transition.FAIL, details='{"pid":1}')
        assert (await world.settle(claimed, Transition.FAIL, details='{"pid":2}')).answer is Answer.ALREADY
        assert await left_by(world, claimed) == ['{"pid":1}']

    async def test_while_it_runs_each_takes_the_place_of_the_one_before(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one()
        assert await keep(world, claimed, '{"pid":1}') is Answer.OK
        assert await keep(world, claimed, '{"pid":2}') is Answer.OK
        assert await left_by(world, claimed) == ['{"pid":2}']
        assert await world.status("k") is TaskStatus.RUNNING
        await world.settle(claimed, Transition.FAIL, details='{"pid":3}')
        assert await left_by(world, claimed) == ['{"pid":3}']
        assert await keep(world, claimed, '{"pid":4}') is Answer.STALE

    async def test_what_a_lost_run_had_left_is_found(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one(instance="doomed")
        await keep(world, claimed, '{"pid":1}')
        await world.tick_past_lease()
        (run,) = await world.runs()
        assert (run.status, run.token, run.failure) == ("lost", claimed.token, "lost")
        assert await left_by(world, claimed) == ['{"pid":1}']

    async def test_of_many_at_once(self, world: World, work: TaskType) -> None:
        await world.type("other")
        await world.store.schedule([NewTask(task_type=WORK, key=f"k{at}") for at in range(5)], now=world.now)
        await world.schedule("k", "other")
        tasks = await world.claim(9, (WORK, "other"))
        left = [RunLeft(run_of(task), f'{{"pid":{at}}}') for at, task in enumerate(tasks)]
        assert await world.store.keep_details(left, now=world.now) == [Answer.OK] * 6
        await asyncio.gather(*(world.store.keep_details([each]) for each in left))
        assert await left_by(world, *reversed(tasks)) == [each.details for each in reversed(left)]

    async def test_the_last_runs_of_an_identity_keep_theirs(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        tasks: list[Task] = []
        for _ in range(DETAILED_RUNS + 3):
            tasks.append(await world.claim_one())
            await world.settle(tasks[-1], Transition.RELEASE, details=f'{{"pid":{len(tasks)}}}')
        kept = [details is not None for details in await left_by(world, *tasks)]
        assert kept == [False] * 3 + [True] * DETAILED_RUNS

    async def test_they_outlive_their_task_and_go_with_the_run_records(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one()
        await world.settle(claimed, details="{}")
        world.clock.advance("3h")
        await world.prune(run_ttl_ms=5 * HOUR)
        assert await world.task("k") is None
        assert await left_by(world, claimed) == ["{}"]
        world.clock.advance("3h")
        await world.prune(run_ttl_ms=5 * HOUR)
        assert await left_by(world, claimed) == [None]
        assert await world.runs() == []

    async def test_they_are_erased_with_their_user(self, world: World, work: TaskType) -> None:
        left: list[Task] = []
        for key, user_id in (("u1", "u1"), ("report-of-u1", "u1"), ("u2", "u2")):
            await world.schedule(key, user_id=user_id)
            left.append(await world.claim_one())
            await world.settle(left[-1], Transition.FAIL if key != "u1" else Transition.COMPLETE, details="{}")
        # The task of one is gone already: only its record speaks of its run.
        world.clock.advance("3h")
        await world.prune()
        world.clock.advance("1h")
        while (await world.store.erase_user("u1", limit=2, now=world.now)).done_at is None:
            pass
        assert await left_by(world, *left) == [None, None, "{}"]

    async def test_what_cannot_be_kept_is_refused(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one()
        with pytest.raises(LimitExceeded, match=f"{MAX_DETAILS_BYTES:,} bytes"):
            await keep(world, claimed, "x" * (MAX_DETAILS_BYTES + 1))
        with pytest.raises(InvalidInput, match="NUL"):
            await world.settle(claimed, details="\x00")
        assert await left_by(world, claimed) == [None]


class TestDueAt(Suite):
    async def test_a_record_says_when_its_attempt_was_due(self, world: World, work: TaskType) -> None:
        first_due = (await world.created("k")).scheduled_at
        await world.run(Transition.RETRY, after_ms=HOUR)
        second_due = (await world.there("k")).scheduled_at
        assert second_due == world.now + HOUR
        await world.settle(await world.claim_due("k"))
        assert [run.was_due_at for run in await world.runs()] == [first_due, second_due]

    async def test_of_a_series_it_is_not_the_fire_time_of_a_retry(self, world: World, work: TaskType) -> None:
        fire_at = (await world.series("k", trigger=hourly(world.now))).scheduled_at
        await world.settle(await world.claim_due("k"), Transition.RETRY, after_ms=60_000)
        await world.settle(await world.claim_due("k"))
        assert [(run.fire_at, run.was_due_at) for run in await world.runs()] == [
            (fire_at, fire_at),
            (fire_at, fire_at + 60_000),
        ]

    async def test_of_a_run_that_was_asked_for(self, world: World, work: TaskType) -> None:
        await world.series("k")
        await world.apply(Transition.RUN_NOW)
        asked_at = world.now
        world.clock.advance("2s")
        await world.settle(await world.claim_one())
        (run,) = await world.runs()
        assert (run.fire_at, run.was_due_at) == (None, asked_at)

    async def test_failures_are_found_by_their_group(self, world: World, work: TaskType) -> None:
        for key, failure in (("a", "f1"), ("b", "f2"), ("c", "f1")):
            await world.schedule(key)
            await world.run(Transition.FAIL, failure=failure)
        await world.schedule("d")
        await world.run()
        assert [task.key for task in await world.all_tasks(failure="f1", limit=1)] == ["a", "c"]
        dead = await world.all_tasks(failure="f1", status=TaskStatus.FAILED)
        assert [(task.key, task.failure) for task in dead] == [("a", "f1"), ("c", "f1")]
        asked = RunQuery(task_type=WORK, failure="f1", limit=1)
        assert [run.key for run in await world.all_runs(asked)] == ["c", "a"]
        assert await world.all_runs(replace(asked, failure="f3")) == []

    async def test_a_task_is_of_its_last_runs_group(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        waiting = await world.run(Transition.RETRY, failure="f1", after_ms=DAY)
        assert waiting.failure == "f1"
        await world.apply(Transition.RUN_NOW)
        assert (await world.run(Transition.FAIL, failure="f2")).failure == "f2"
        assert await world.all_tasks(failure="f1") == []
        await world.apply(Transition.REDRIVE)
        assert (await world.there("k")).failure is None
        assert (await world.run()).failure is None
