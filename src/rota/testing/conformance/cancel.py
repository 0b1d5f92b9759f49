"""cancel: pending, paused -> cancelled; on a running task, a wish that every exit honours."""

from __future__ import annotations

import pytest

from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition, Want
from rota.core.task_type import TaskType
from rota.testing.conformance.world import SETTLING, Suite, World
from rota.triggers import Once, encode_trigger

__all__ = ["TestCancel"]


class TestCancel(Suite):
    async def test_a_waiting_task_is_cancelled_at_once(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        reply = await world.apply(Transition.CANCEL)
        task = await world.there("k")
        assert reply == (Answer.OK, task)
        assert (task.status, task.finished_at) == (TaskStatus.CANCELLED, world.now)
        assert task.purge_at == world.now + work.task_ttl_ms
        assert await world.claim() == []
        await world.check_counts()

    async def test_so_is_a_paused_one(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.apply(Transition.PAUSE)
        await world.apply(Transition.CANCEL)
        assert await world.status("k") is TaskStatus.CANCELLED

    @pytest.mark.parametrize("transition", SETTLING)
    @pytest.mark.parametrize("recurring", [False, True])
    async def test_every_exit_of_a_running_one_cancels_it(
        self, world: World, work: TaskType, transition: Transition, recurring: bool
    ) -> None:
        await (world.series("k") if recurring else world.created("k"))
        task = await world.claim_due("k")
        reply = await world.apply(Transition.CANCEL)
        assert reply.task is not None
        assert (reply.task.status, reply.task.want) == (TaskStatus.RUNNING, Want.CANCEL)
        await world.touch("k")
        await world.settle(task, transition)
        after = await world.there("k")
        assert (after.status, after.want, after.dirty) == (TaskStatus.CANCELLED, Want.NONE, False)
        assert len(await world.runs()) == 1

    async def test_also_a_crash(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claim_one(instance="doomed")
        await world.apply(Transition.CANCEL)
        await world.tick_past_lease()
        assert await world.status("k") is TaskStatus.CANCELLED
        assert [run.status for run in await world.runs()] == ["lost"]

    async def test_it_is_stronger_than_pause_and_resume(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claim_one()
        for transition in (Transition.PAUSE, Transition.CANCEL, Transition.PAUSE, Transition.RESUME):
            await world.apply(transition)
        assert (await world.there("k")).want is Want.CANCEL

    async def test_fires_that_were_due_leave_a_row(self, world: World, work: TaskType) -> None:
        await world.series("k")
        world.clock.advance("3h30m")
        await world.apply(Transition.CANCEL)
        assert [(row.status, row.reason, row.fires) for row in await world.runs()] == [("skipped", "cancelled", 3)]

    async def test_a_single_time_that_was_due_leaves_a_row(self, world: World, work: TaskType) -> None:
        await world.created("k", trigger=encode_trigger(Once(world.now + 1_000)))
        await world.created("later", trigger=encode_trigger(Once(world.now + 60_000)))
        world.clock.advance("2s")
        await world.apply(Transition.CANCEL)
        await world.apply(Transition.CANCEL, "later")
        assert [(row.key, row.status, row.reason, row.fires) for row in await world.runs()] == [
            ("k", "skipped", "cancelled", 1)
        ]

    async def test_what_is_finished_is_refused(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        done = await world.run()
        assert await world.apply(Transition.CANCEL) == (Answer.REFUSED, done)
        assert await world.apply(Transition.CANCEL, "nobody") == (Answer.UNKNOWN, None)
