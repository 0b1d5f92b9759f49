"""run_now: pending, paused, completed, failed -> pending, due now. It never shifts the series."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import SETTLING, Suite, World, hourly

__all__ = ["TestRunNow"]


class TestRunNow(Suite):
    async def test_a_waiting_task_is_due_now(self, world: World, work: TaskType) -> None:
        await world.schedule("k", scheduled_at=world.now + HOUR)
        reply = await world.apply(Transition.RUN_NOW)
        assert reply.answer is Answer.OK
        assert (await world.claim_one()).key == "k"

    @pytest.mark.parametrize("transition", SETTLING)
    async def test_the_series_is_not_shifted(self, world: World, work: TaskType, transition: Transition) -> None:
        made = await world.series("k")
        world.clock.advance("10m")
        await world.apply(Transition.RUN_NOW)
        await world.run(transition, after_ms=0)
        if (await world.there("k")).scheduled_at == world.now:
            await world.run()
        task = await world.there("k")
        assert (task.status, task.next_fire) == (TaskStatus.PENDING, made.next_fire)
        assert (task.scheduled_at, task.manual, task.fires_run) == (made.scheduled_at, False, 0)
        assert {(run.trigger_mode, run.fire_at) for run in await world.runs()} == {("manual", None)}

    async def test_it_does_not_count_against_max_runs(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=1)
        await world.apply(Transition.RUN_NOW)
        assert (await world.run()).status is TaskStatus.PENDING
        world.clock.advance("1h")
        assert (await world.run()).status is TaskStatus.COMPLETED

    async def test_a_paused_one_is_paused_again_after_it(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        await world.apply(Transition.PAUSE)
        await world.apply(Transition.RUN_NOW)
        assert await world.status("k") is TaskStatus.PENDING
        task = await world.run()
        assert (task.status, task.next_fire) == (TaskStatus.PAUSED, made.next_fire)

    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.FAIL])
    async def test_a_finished_one_runs_once_more_with_fresh_counts(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await world.schedule("k", payload="p")
        await world.run(transition, error="boom")
        await world.apply(Transition.RUN_NOW)
        task = await world.claim_one()
        assert (task.payload, task.attempt, task.errors, task.finished_at) == ("p", 1, 0, None)
        assert (await world.prune()).purged == 0
        await world.settle(task)
        assert await world.status("k") is TaskStatus.COMPLETED
        await world.check_counts()

    async def test_a_finished_series_stays_finished(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=1)
        world.clock.advance("1h")
        await world.run()
        await world.apply(Transition.RUN_NOW)
        await world.claim_one()
        await world.update("k", payload="edited meanwhile")
        await world.settle(await world.there("k"))
        assert await world.status("k") is TaskStatus.COMPLETED

    async def test_what_is_asked_for_counts_as_a_run_and_as_no_fire(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=2)
        await world.apply(Transition.RUN_NOW)
        await world.run()
        await world.apply(Transition.RUN_NOW)
        await world.run(Transition.RETRY)
        assert (await world.there("k")).runs == 1, "one that is tried again has not run to its end"
        world.clock.advance("1m")
        await world.run()
        task = await world.there("k")
        assert (task.runs, task.fires_run, task.status) == (2, 0, TaskStatus.PENDING)
        for _ in range(2):
            world.clock.advance("1h")
            await world.run()
        ended = await world.there("k")
        assert (ended.runs, ended.status) == (4, TaskStatus.COMPLETED), "its last run counts as well"

    async def test_a_retry_that_waits_is_brought_forward_and_keeps_its_fire(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        await world.run(Transition.RETRY, after_ms=20 * MINUTE)
        await world.apply(Transition.RUN_NOW)
        again = await world.claim_one()
        assert again.fire_at == made.next_fire
        done = await world.settle(again)
        assert done.task is not None
        assert made.next_fire is not None
        assert (done.task.next_fire, done.task.fires_run) == (made.next_fire + HOUR, 1)

    @pytest.mark.parametrize("transition", [Transition.RELEASE, Transition.RETRY, Transition.SNOOZE])
    async def test_a_series_that_was_edited_during_a_manual_run_goes_on(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await world.series("k")
        await world.apply(Transition.RUN_NOW)
        task = await world.claim_one()
        await world.update("k", trigger=hourly(world.now, 2 * HOUR))
        await world.settle(task, transition, after_ms=0)
        after = await world.run()
        assert (after.status, after.next_fire) == (TaskStatus.PENDING, world.now + 2 * HOUR)

    async def test_a_paused_run_that_is_paused_once_more_can_still_be_resumed(
        self, world: World, work: TaskType
    ) -> None:
        made = await world.series("k")
        for transition in (Transition.PAUSE, Transition.RUN_NOW, Transition.PAUSE, Transition.RESUME):
            assert (await world.apply(transition)).answer is Answer.OK
        assert (await world.there("k")).next_fire == made.next_fire
        world.clock.advance("1h")
        assert (await world.claim_one()).fire_at == made.next_fire

    @pytest.mark.parametrize("failed", [False, True])
    async def test_a_finished_series_that_is_paused_and_resumed_before_its_run(
        self, world: World, work: TaskType, failed: bool
    ) -> None:
        await world.series("k", max_runs=1)
        world.clock.advance("1h")
        await world.run(Transition.FAIL if failed else Transition.COMPLETE)
        for transition in (Transition.REDRIVE if failed else Transition.RUN_NOW, Transition.PAUSE, Transition.RESUME):
            assert (await world.apply(transition)).answer is Answer.OK
        assert (await world.run()).status is TaskStatus.COMPLETED

    async def test_a_running_or_cancelled_one_is_refused(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        running = await world.claim_one()
        assert await world.apply(Transition.RUN_NOW, "a") == (Answer.REFUSED, running)
        await world.schedule("b")
        await world.apply(Transition.CANCEL, "b")
        assert (await world.apply(Transition.RUN_NOW, "b")).answer is Answer.REFUSED
        assert (await world.apply(Transition.RUN_NOW, "nobody")).answer is Answer.UNKNOWN
