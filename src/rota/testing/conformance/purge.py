"""purge, end and prune: what is over goes, in its own time; live state has no time limit."""

from __future__ import annotations

import pytest

from rota.clock import DAY, HOUR, MINUTE
from rota.core.outcome import Answer
from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import Suite, World, hourly

__all__ = ["TestEnd", "TestPrune", "TestPurge"]


class TestPurge(Suite):
    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.FAIL])
    async def test_a_finished_record_is_removed(self, world: World, work: TaskType, transition: Transition) -> None:
        await world.schedule("k")
        await world.run(transition)
        assert await world.apply(Transition.PURGE) == (Answer.OK, None)
        assert await world.task("k") is None
        assert await world.all_tasks() == []
        assert await world.apply(Transition.PURGE) == (Answer.UNKNOWN, None)
        await world.check_counts()

    async def test_its_runs_stay(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.run()
        await world.apply(Transition.PURGE)
        assert len(await world.runs()) == 1

    async def test_a_live_one_is_refused(self, world: World, work: TaskType) -> None:
        waiting = await world.created("k")
        assert await world.apply(Transition.PURGE) == (Answer.REFUSED, waiting)
        await world.claim_one()
        assert (await world.apply(Transition.PURGE)).answer is Answer.REFUSED


class TestEnd(Suite):
    @pytest.mark.parametrize("paused", [False, True])
    async def test_a_waiting_series_is_completed(self, world: World, work: TaskType, paused: bool) -> None:
        await world.series("k")
        if paused:
            await world.apply(Transition.PAUSE)
        world.clock.advance("2h30m")
        reply = await world.apply(Transition.END)
        task = await world.there("k")
        assert reply == (Answer.OK, task)
        assert (task.status, task.reason, task.next_fire) == (TaskStatus.COMPLETED, "expired", None)
        assert [(row.status, row.reason, row.fires) for row in await world.runs()] == [("skipped", "expired", 2)]

    async def test_a_running_one_is_refused(self, world: World, work: TaskType) -> None:
        await world.series("k")
        running = await world.claim_due("k")
        assert await world.apply(Transition.END) == (Answer.REFUSED, running)


class TestPrune(Suite):
    async def test_finished_records_go_after_their_time(self, world: World) -> None:
        await world.type(task_ttl_ms=HOUR, dead_ttl_ms=DAY)
        for key, transition in (("done", Transition.COMPLETE), ("dead", Transition.FAIL)):
            await world.schedule(key)
            await world.run(transition)
        await world.schedule("off")
        await world.apply(Transition.CANCEL, "off")
        world.clock.advance("59m59s")
        assert (await world.prune()).purged == 0
        world.clock.advance("1s")
        assert (await world.prune()).purged == 2
        assert [task.key for task in await world.all_tasks()] == ["dead"]
        world.clock.advance("23h")
        assert (await world.prune()).purged == 1
        await world.check_counts()

    async def test_live_state_has_no_time_limit(self, world: World) -> None:
        await world.type(task_ttl_ms=MINUTE, dead_ttl_ms=MINUTE)
        await world.schedule("running")
        await world.claim_one()
        await world.schedule("waiting")
        await world.schedule("held")
        await world.apply(Transition.PAUSE, "held")
        world.clock.advance("3650d")
        pruned = await world.prune()
        assert (pruned.purged, pruned.ended) == (0, 0)
        assert len(await world.all_tasks()) == 3

    async def test_what_was_made_again_is_not_purged(self, world: World) -> None:
        await world.type(task_ttl_ms=MINUTE)
        await world.schedule("k")
        await world.run()
        await world.schedule("k", scheduled_at=world.now + HOUR)
        world.clock.advance("30m")
        assert (await world.prune()).purged == 0

    async def test_what_has_expired_is_ended(self, world: World, work: TaskType) -> None:
        await world.series("a", expires_at=world.now + 90 * MINUTE)
        await world.series("b", expires_at=world.now + 90 * MINUTE)
        await world.apply(Transition.PAUSE, "b")
        await world.series("c")
        world.clock.advance("90m")
        assert (await world.prune()).ended == 2
        statuses = {task.key: task.status for task in await world.all_tasks()}
        assert statuses == {"a": TaskStatus.COMPLETED, "b": TaskStatus.COMPLETED, "c": TaskStatus.PENDING}

    async def test_run_records_go_after_their_time(self, world: World, work: TaskType) -> None:
        await world.created("k", trigger=hourly(world.now))
        for _ in range(3):
            world.clock.advance("1h")
            await world.run()
        assert (await world.prune(run_ttl_ms=HOUR)).runs == 1
        assert [run.started_at for run in await world.runs()] == [world.now - HOUR, world.now]

    async def test_a_page_at_a_time(self, world: World) -> None:
        await world.type(task_ttl_ms=MINUTE)
        for key in "abcde":
            await world.schedule(key)
            await world.run()
        world.clock.advance("1h")
        removed = [(await world.prune(run_ttl_ms=MINUTE, limit=2)) for _ in range(4)]
        assert [pruned.purged for pruned in removed] == [2, 2, 1, 0]
        assert [pruned.runs for pruned in removed] == [2, 2, 1, 0]

    async def test_a_past_is_forgotten_in_the_end(self, world: World) -> None:
        """Whatever became of the run: nothing of an identity stays for ever."""
        await world.type(task_ttl_ms=MINUTE, dead_ttl_ms=MINUTE)
        for transition in (Transition.COMPLETE, Transition.FAIL, Transition.DISCARD):
            await world.schedule(transition)
            await world.run(transition)
        await world.schedule("cancelled")
        claimed = await world.claim_one()
        await world.apply(Transition.CANCEL, "cancelled")
        await world.settle(claimed, Transition.RELEASE)
        world.clock.advance("90d")
        first = await world.prune()
        assert first.purged == 4
        assert first.forgotten + (await world.prune()).forgotten == 4
