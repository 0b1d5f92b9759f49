"""pause and resume: pending <-> paused; on a running task, a wish."""

from __future__ import annotations

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition, Want
from rota.core.task_type import TaskType
from rota.testing.conformance.world import Suite, World, policy

__all__ = ["TestPause", "TestResume"]


class TestPause(Suite):
    async def test_a_paused_task_is_not_claimed(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        reply = await world.apply(Transition.PAUSE)
        assert reply.answer is Answer.OK
        assert reply.task == await world.there("k")
        assert await world.status("k") is TaskStatus.PAUSED
        assert await world.claim() == []
        assert (await world.tick()).next_due_at is None
        await world.check_counts()

    async def test_twice_is_refused_and_changes_nothing(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.apply(Transition.PAUSE)
        before = await world.there("k")
        assert await world.apply(Transition.PAUSE) == (Answer.REFUSED, before)
        assert await world.apply(Transition.PAUSE, "nobody") == (Answer.UNKNOWN, None)

    async def test_a_running_one_is_paused_when_its_run_ends(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        task = await world.claim_one()
        await world.apply(Transition.PAUSE)
        running = await world.there("k")
        assert (running.status, running.want) == (TaskStatus.RUNNING, Want.PAUSE)
        assert world.renew(task).answer is Answer.OK
        await world.settle(task)
        after = await world.there("k")
        assert made.next_fire is not None
        assert (after.status, after.want, after.next_fire) == (TaskStatus.PAUSED, Want.NONE, made.next_fire + HOUR)

    async def test_a_retry_of_a_running_one_waits_paused(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claim_one()
        await world.apply(Transition.PAUSE)
        await world.settle(await world.there("k"), Transition.RETRY, after_ms=0)
        assert await world.status("k") is TaskStatus.PAUSED
        assert await world.claim() == []
        await world.apply(Transition.RESUME)
        assert (await world.claim_one()).errors == 1

    async def test_work_that_is_done_is_done(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claim_one()
        await world.apply(Transition.PAUSE)
        reply = await world.settle(await world.there("k"))
        assert reply.task is not None
        assert reply.task.status is TaskStatus.COMPLETED


class TestResume(Suite):
    async def test_it_is_due_as_before(self, world: World, work: TaskType) -> None:
        made = await world.created("k", scheduled_at=world.now + MINUTE)
        await world.apply(Transition.PAUSE)
        await world.apply(Transition.RESUME)
        task = await world.there("k")
        assert (task.status, task.scheduled_at) == (TaskStatus.PENDING, made.scheduled_at)

    async def test_a_series_that_missed_nothing_goes_on(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        await world.apply(Transition.PAUSE)
        world.clock.advance("59m")
        await world.apply(Transition.RESUME)
        task = await world.there("k")
        assert (task.next_fire, task.scheduled_at) == (made.next_fire, made.scheduled_at)
        assert await world.runs() == []

    async def test_a_long_paused_series_does_not_fire_for_the_past(self, world: World, work: TaskType) -> None:
        for misfire in ("latest", "all", "skip"):
            made = await world.series(misfire, policy=policy(misfire=misfire))
            await world.apply(Transition.PAUSE, misfire)
            world.clock.advance("5h30m")
            reply = await world.apply(Transition.RESUME, misfire)
            assert reply.task is not None
            assert reply.task.next_fire == reply.task.scheduled_at == world.now + 30 * MINUTE
            assert await world.claim() == []
            (row,) = await world.runs(misfire)
            assert (row.status, row.reason, row.fires) == ("skipped", "paused", 5)
            assert (row.fire_at, row.last_fire_at) == (made.next_fire, world.now - 30 * MINUTE)
            await world.apply(Transition.CANCEL, misfire)

    async def test_a_wish_to_pause_is_taken_back(self, world: World, work: TaskType) -> None:
        await world.series("k")
        world.clock.advance("1h")
        task = await world.claim_one()
        await world.apply(Transition.PAUSE)
        assert (await world.apply(Transition.RESUME)).answer is Answer.OK
        await world.settle(task)
        assert await world.status("k") is TaskStatus.PENDING

    async def test_what_is_not_paused_is_refused(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        assert (await world.apply(Transition.RESUME)).answer is Answer.REFUSED
        assert (await world.apply(Transition.RESUME, "nobody")).answer is Answer.UNKNOWN
