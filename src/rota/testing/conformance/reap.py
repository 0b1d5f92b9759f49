"""tick and reap: a dead instance's tasks run elsewhere; an outage is nobody's crash."""

from __future__ import annotations

import pytest

from rota.clock import DAY, HOUR, SECOND
from rota.core.lifecycle import MAX_CRASHES
from rota.core.outcome import Answer
from rota.core.task import NewTask, RunStatus, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import LEASE, WORK, Suite, World

__all__ = ["TestOutage", "TestReap", "TestTick"]

REAP_PAGE = 200


class TestReap(Suite):
    async def test_a_lease_that_ran_out_is_taken_back_and_counts_as_a_crash(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        claimed = await world.claim_one(instance="doomed")
        reaped = await world.tick_past_lease("i2")
        assert [task.key for task in reaped] == ["k"]
        task = await world.there("k")
        assert (task.status, task.crashes, task.errors) == (TaskStatus.PENDING, 1, 0)
        (run,) = await world.runs()
        assert (run.status, run.reason, run.instance) == (RunStatus.LOST, "lost", "doomed")
        assert (run.token, run.started_at) == (claimed.token, claimed.claimed_at)
        assert (await world.counts()).lost_total == 1
        assert (await world.settle(claimed)).answer is Answer.STALE
        await world.check_counts()

    async def test_exactly_when_it_has_run_out_and_not_before(self, world: World, work: TaskType) -> None:
        await world.tick()
        await world.schedule("k")
        task = await world.claim_one()
        world.clock.advance("4s")
        await world.tick()
        assert task.lease_until is not None
        world.clock.advance("4s")
        await world.tick()
        world.clock.set(task.lease_until - 1)
        assert (await world.tick()).reaped == []
        world.clock.set(task.lease_until)
        assert len((await world.tick()).reaped) == 1

    async def test_what_is_taken_back_keeps_its_place_in_the_line(self, world: World, work: TaskType) -> None:
        made = await world.created("victim")
        await world.claim_one(instance="doomed")
        world.clock.advance("1s")
        for number in range(3):
            await world.schedule(f"backlog{number}")
        await world.tick_past_lease()
        assert (await world.there("victim")).scheduled_at == made.scheduled_at
        assert (await world.claim_one()).key == "victim"

    @pytest.mark.parametrize("series", [False, True], ids=["once", "series"])
    async def test_a_living_instance_that_never_began_is_not_to_blame(
        self, world: World, work: TaskType, series: bool
    ) -> None:
        """The answer to its claim was stuck on the way, behind a handler that blocked its event loop."""
        if series:
            await world.series("k")
            world.clock.advance("1h")
        else:
            await world.schedule("k")
        claimed = await world.claim_one(instance="i2")
        (task,) = await world.tick_past_lease("i2")
        assert (task.status, task.crashes, task.errors, task.attempt) == (TaskStatus.PENDING, 0, 0, 0)
        (run,) = await world.runs()
        assert (run.status, run.reason, run.token) == (RunStatus.SKIPPED, "released", claimed.token)
        assert (await world.counts()).lost_total == 0
        assert (await world.settle(claimed)).answer is Answer.STALE
        await world.check_counts()

    async def test_a_living_instance_that_began_and_fell_silent_is(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        world.renew(await world.claim_one(instance="i2"))
        (task,) = await world.tick_past_lease("i2")
        assert task.crashes == 1

    async def test_a_dead_instance_that_had_not_renewed_yet_is(self, world: World, work: TaskType) -> None:
        """A poison pill kills its process before the first renewal."""
        await world.schedule("k")
        await world.tick("doomed")
        await world.claim_one(instance="doomed")
        (task,) = await world.tick_past_lease("i2")
        assert task.crashes == 1

    async def test_a_renewed_lease_is_left_alone(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        for _ in range(10):
            world.clock.advance("3s")
            world.renew(task)
            assert (await world.tick()).reaped == []
        assert (await world.settle(task)).answer is Answer.OK

    async def test_the_third_crash_is_poison(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        statuses = [(await world.crash("k")).status for _ in range(MAX_CRASHES)]
        assert statuses == [TaskStatus.PENDING, TaskStatus.PENDING, TaskStatus.FAILED]
        assert (await world.there("k")).reason == "poison"
        assert await world.claim() == []
        assert [run.status for run in await world.runs()] == [RunStatus.LOST] * MAX_CRASHES

    async def test_crashes_and_errors_are_counted_apart(self, world: World) -> None:
        await world.type(max_retries=1)
        await world.schedule("k")
        await world.crash("k")
        await world.crash("k")
        assert (await world.run(Transition.RETRY, after_ms=0)).status is TaskStatus.PENDING
        task = await world.there("k")
        assert (task.crashes, task.errors) == (2, 1)

    async def test_a_poisonous_fire_does_not_end_its_series(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        for _ in range(MAX_CRASHES):
            await world.crash("k")
        task = await world.there("k")
        assert made.next_fire is not None
        assert (task.status, task.next_fire) == (TaskStatus.PENDING, made.next_fire + HOUR)
        assert (task.crashes, task.reason) == (0, "poison")

    async def test_one_more_than_a_page(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key=f"k{number:03}") for number in range(REAP_PAGE + 1)]
        await world.store.schedule(news, now=world.now)
        assert len(await world.claim(REAP_PAGE + 1)) == REAP_PAGE + 1
        reaped = await world.tick_past_lease()
        world.clock.advance("1s")
        reaped += (await world.tick()).reaped
        assert sorted(task.key for task in reaped) == [new.key for new in news]
        await world.check_counts()


class TestOutage(Suite):
    async def _reaped(self, world: World, instance: str, *, sweeps: int, every: str) -> list[str]:
        reaped: list[str] = []
        for _ in range(sweeps):
            world.clock.advance(every)
            reaped += [task.key for task in (await world.tick(instance)).reaped]
        return reaped

    async def test_nobody_is_to_blame_for_an_outage(self, world: World, work: TaskType) -> None:
        """Thirty seconds in which nobody could sweep: nothing is reaped, every lease is extended, once."""
        await world.schedule("k")
        await world.tick()
        task = await world.claim_one()
        world.clock.advance("30s")
        after = await world.tick()
        assert (after.reaped, after.extended) == ([], 1)
        assert (await world.there("k")).lease_until == world.now + LEASE
        assert world.renew(task).answer is Answer.OK
        world.clock.advance("2s")
        assert (await world.tick()).extended == 0

    async def test_just_over_half_a_lease_is_an_outage(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.tick()
        await world.claim_one()
        world.clock.advance("5s")
        assert (await world.tick()).extended == 0
        world.clock.set(world.now + LEASE // 2 + 1)
        assert (await world.tick()).extended == 1

    async def test_the_extension_is_the_last(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.tick()
        await world.claim_one(instance="dead")
        world.clock.advance("30s")
        await world.tick("i2")
        assert await self._reaped(world, "i2", sweeps=6, every="2s") == ["k"]

    async def test_a_lone_survivor_that_is_always_late_takes_over(self, world: World, work: TaskType) -> None:
        """Every sweep comes more than half a lease after the last: a lease is extended once, not for ever."""
        await world.schedule("k")
        await world.tick("survivor")
        await world.claim_one(instance="dead")
        assert await self._reaped(world, "survivor", sweeps=5, every="6s") == ["k"]

    async def test_whoever_renews_is_extended_again_in_the_next_outage(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.tick()
        task = await world.claim_one()
        for _ in range(3):
            world.clock.advance("30s")
            after = await world.tick()
            assert (after.reaped, after.extended) == ([], 1)
            assert world.renew(task).answer is Answer.OK
            assert (await world.there("k")).lease_until == world.now + LEASE

    async def test_a_clock_that_steps_back_takes_the_leases_with_it(self, world: World, work: TaskType) -> None:
        """Otherwise a dead instance's lease would be good for as long as the clock stepped."""
        for key in ("a", "b"):
            await world.schedule(key)
        await world.tick("i2")
        world.renew(await world.claim_one(instance="dead"))
        by_hand = (await world.claimed(lease_ms=None)).tasks[0]
        world.clock.set(world.now - HOUR)
        assert (await world.tick("i2")).reaped == []
        assert (await world.there("a")).lease_until == world.now + LEASE
        assert by_hand.lease_until is not None
        assert (await world.there("b")).lease_until == by_hand.lease_until - HOUR
        assert [task.key for task in await world.tick_past_lease()] == ["a"]

    async def test_a_longer_lease_is_not_shortened(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        by_hand = (await world.claimed(lease_ms=None)).tasks[0]
        world.clock.advance("30s")
        assert (await world.tick()).extended == 0
        assert (await world.there("k")).lease_until == by_hand.lease_until

    async def test_a_clock_that_steps_back_reaps_nothing(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.tick()
        await world.claim_one()
        world.clock.set(world.now - HOUR)
        assert (await world.tick()).reaped == []
        assert await world.status("k") is TaskStatus.RUNNING

    async def test_the_very_first_tick_reaps_nothing(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.claim_one()
        world.clock.advance("1h")
        assert (await world.tick()).reaped == []


class TestTick(Suite):
    async def test_it_says_when_the_next_task_is_due(self, world: World, work: TaskType) -> None:
        await world.type("other")
        assert (await world.tick()).next_due_at is None
        await world.schedule("k", scheduled_at=world.now + HOUR)
        await world.schedule("k", "other", scheduled_at=world.now + SECOND)
        assert (await world.tick()).next_due_at == world.now + HOUR
        assert (await world.tick(types=(WORK, "other"))).next_due_at == world.now + SECOND

    async def test_it_is_a_sign_of_life(self, world: World) -> None:
        await world.tick("i1")
        world.clock.advance("3s")
        await world.tick("i2", types=("a", "b"))
        first, second = await world.store.instances()
        assert (first.beat.instance, first.seen_at) == ("i1", world.now - 3 * SECOND)
        assert (second.beat.instance, second.seen_at, second.beat.types) == ("i2", world.now, ("a", "b"))
        await world.store.leave("i1")
        await world.store.leave("never-seen")
        assert [instance.beat.instance for instance in await world.store.instances()] == ["i2"]

    async def test_one_that_died_without_a_goodbye_is_forgotten_after_an_hour(self, world: World) -> None:
        await world.tick("dead")
        world.clock.advance("59m")
        await world.store.prune(DAY, now=world.now)
        assert len(await world.store.instances()) == 1
        world.clock.advance("2m")
        await world.tick("alive")
        await world.store.prune(DAY, now=world.now)
        assert [instance.beat.instance for instance in await world.store.instances()] == ["alive"]
