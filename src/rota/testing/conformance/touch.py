"""touch: a user was active. The checks of `rota.core.activity`, in their order."""

from __future__ import annotations

import pytest

from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.core.outcome import TouchOutcome
from rota.core.task import Activity, Identity, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import UnknownTaskType
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestActivityDuringARun", "TestBreaker", "TestCooldown", "TestDebounce", "TestTouch"]

INTERVAL = 30 * MINUTE


class TestTouch(Suite):
    async def test_the_first_activity_makes_a_task_due_after_the_interval(self, world: World, work: TaskType) -> None:
        answer = await world.touch("k", device_id="phone", agent_id="a1")
        assert answer == (TouchOutcome.CREATED, world.now + INTERVAL, 0)
        task = await world.there("k")
        assert (task.user_id, task.device_id, task.agent_id) == ("u1", "phone", "a1")
        assert (task.first_activity_at, task.last_activity_at) == (world.now, world.now)
        assert task.scheduled_at == world.now + INTERVAL

    async def test_delay_counts_from_the_first_activity(self, world: World, work: TaskType) -> None:
        due_at = (await world.touch("k")).scheduled_at
        for number in range(1, 4):
            world.clock.advance("5m")
            assert await world.touch("k") == (TouchOutcome.COALESCED, due_at, number)
        assert (await world.there("k")).last_activity_at == world.now
        assert (await world.counts()).coalesced_total == 3

    async def test_a_paused_task_counts_as_live(self, world: World, work: TaskType) -> None:
        await world.touch("k")
        await world.apply(Transition.PAUSE)
        assert (await world.touch("k")).outcome is TouchOutcome.COALESCED
        assert await world.status("k") is TaskStatus.PAUSED

    async def test_a_type_that_is_off_is_asked_first(self, world: World, work: TaskType) -> None:
        await world.touch("k")
        await world.store.override_type(WORK, {"enabled": False})
        before = await world.there("k")
        assert await world.touch("k") == (TouchOutcome.DISABLED, None, 0)
        assert await world.there("k") == before

    async def test_a_full_type_takes_no_more(self, world: World) -> None:
        await world.type(max_pending=1)
        await world.touch("a")
        assert await world.touch("b") == (TouchOutcome.FULL, None, 0)
        assert await world.task("b") is None
        assert (await world.touch("a")).outcome is TouchOutcome.COALESCED

    async def test_an_unknown_type_is_an_error(self, world: World) -> None:
        with pytest.raises(UnknownTaskType, match="nothing_here"):
            await world.touch("k", "nothing_here")

    async def test_two_activities_of_one_user_in_one_call_are_one_task(self, world: World, work: TaskType) -> None:
        activity = Activity(task_type=WORK, key="k", user_id="u1")
        answers = await world.store.touch([activity, activity], now=world.now)
        assert [answer.outcome for answer in answers] == [TouchOutcome.CREATED, TouchOutcome.COALESCED]

    async def test_a_spooled_activity_that_a_run_has_seen_makes_nothing(self, world: World, work: TaskType) -> None:
        happened_at = world.now
        world.clock.advance("1m")
        await world.touch("k")
        await world.claim_due("k")
        assert (await world.touch("k", at=happened_at)).outcome is TouchOutcome.COALESCED
        assert not (await world.there("k")).dirty
        await world.settle(await world.there("k"))
        world.clock.advance("5h")
        assert await world.touch("k", at=happened_at) == (TouchOutcome.COALESCED, None, 0)
        assert (await world.touch("k", at=world.now)).outcome is TouchOutcome.CREATED


class TestCooldown(Suite):
    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.FAIL])
    async def test_skip_takes_nothing_for_one_interval(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await world.schedule("k")
        await world.run(transition)
        world.clock.advance(1799)
        assert await world.touch("k") == (TouchOutcome.COOLDOWN, None, 0)
        assert not (await world.there("k")).status.is_live
        world.clock.advance(1)
        assert await world.touch("k") == (TouchOutcome.CREATED, world.now + INTERVAL, 0)

    async def test_defer_keeps_it_for_one_interval_after_the_run(self, world: World) -> None:
        await world.type(cooldown="defer")
        await world.schedule("k")
        await world.run()
        ran_at = world.now
        world.clock.advance("10m")
        assert await world.touch("k") == (TouchOutcome.DEFERRED, ran_at + INTERVAL, 0)
        world.clock.advance("20m")
        assert (await world.claim_one()).key == "k"

    async def test_what_counts_nowhere_starts_no_cooldown(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.run(Transition.RELEASE)
        await world.apply(Transition.CANCEL)
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED

    async def test_purge_keeps_the_cooldown(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.run()
        await world.apply(Transition.PURGE)
        assert await world.task("k") is None
        assert (await world.touch("k")).outcome is TouchOutcome.COOLDOWN

    async def test_a_cooldown_outlives_a_day(self, world: World) -> None:
        await world.type(interval_ms=2 * DAY)
        await world.schedule("k")
        await world.run()
        world.clock.advance("36h")
        pruned = await world.prune()
        assert (pruned.purged, pruned.forgotten) == (1, 0)
        assert (await world.touch("k")).outcome is TouchOutcome.COOLDOWN
        world.clock.advance("12h")
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED


class TestDebounce(Suite):
    async def test_each_activity_moves_it(self, world: World) -> None:
        await world.type(mode="debounce", interval_ms=MINUTE)
        await world.touch("k")
        world.clock.advance(40)
        assert await world.touch("k") == (TouchOutcome.COALESCED, world.now + MINUTE, 1)
        world.clock.advance(40)
        assert await world.claim() == []
        world.clock.advance(20)
        assert len(await world.claim()) == 1

    async def test_never_past_max_wait(self, world: World) -> None:
        await world.type(mode="debounce", interval_ms=MINUTE, max_wait_ms=150 * SECOND)
        first_at = world.now
        await world.touch("k")
        for _ in range(5):
            world.clock.advance(29)
            await world.touch("k")
        assert (await world.there("k")).scheduled_at == first_at + 150 * SECOND

    async def test_max_wait_is_four_intervals_by_default(self, world: World) -> None:
        await world.type(mode="debounce", interval_ms=MINUTE)
        first_at = world.now
        for _ in range(10):
            await world.touch("k")
            world.clock.advance(25)
        assert (await world.there("k")).scheduled_at == first_at + 4 * MINUTE

    async def test_a_retry_is_not_moved(self, world: World) -> None:
        await world.type(mode="debounce", interval_ms=MINUTE)
        await world.touch("k")
        world.clock.advance("1m")
        waiting = await world.run(Transition.RETRY, after_ms=5 * SECOND)
        await world.touch("k")
        assert (await world.there("k")).scheduled_at == waiting.scheduled_at


class TestActivityDuringARun(Suite):
    async def _running_and_touched(self, world: World) -> None:
        await world.touch("k")
        await world.claim_due("k")
        for _ in range(3):
            assert (await world.touch("k")).outcome is TouchOutcome.COALESCED
        assert (await world.there("k")).dirty

    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.DISCARD, Transition.FAIL])
    async def test_exactly_one_follow_up(self, world: World, work: TaskType, transition: Transition) -> None:
        await self._running_and_touched(world)
        reply = await world.settle(await world.there("k"), transition)
        task = reply.task
        assert task is not None
        assert (task.status, task.dirty, task.scheduled_at) == (TaskStatus.PENDING, False, world.now + INTERVAL)
        assert (task.errors, task.crashes, task.attempt) == (0, 0, 0)
        world.clock.advance("30m")
        assert (await world.run()).status is TaskStatus.COMPLETED
        world.clock.advance("5h")
        assert await world.claim() == []

    @pytest.mark.parametrize("transition", [Transition.RETRY, Transition.RELEASE, Transition.SNOOZE])
    async def test_a_run_that_is_repeated_anyway_is_the_follow_up(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await self._running_and_touched(world)
        reply = await world.settle(await world.there("k"), transition, after_ms=0)
        assert reply.task is not None
        assert (reply.task.status, reply.task.dirty) == (TaskStatus.PENDING, False)
        assert (await world.run()).status is TaskStatus.COMPLETED
        world.clock.advance("5h")
        assert await world.claim() == []

    async def test_also_when_the_last_retry_fails(self, world: World) -> None:
        await world.type(max_retries=1)
        await world.touch("k")
        world.clock.advance("30m")
        await world.run(Transition.RETRY, after_ms=0)
        await world.claim_one()
        await world.touch("k")
        reply = await world.settle(await world.there("k"), Transition.RETRY)
        assert reply.task is not None
        # One task has ended failed, and max_retries is 1: the breaker is open, so there is no follow-up.
        assert reply.task.status is TaskStatus.FAILED

    async def test_a_final_failure_below_the_breaker_has_its_follow_up(self, world: World) -> None:
        await world.type(max_retries=2)
        await self._running_and_touched(world)
        reply = await world.settle(await world.there("k"), Transition.FAIL)
        assert reply.task is not None
        assert reply.task.status is TaskStatus.PENDING
        assert [run.status for run in await world.runs()] == ["error"]

    async def test_the_follow_up_comes_whatever_the_cooldown(self, world: World) -> None:
        await world.type(interval_ms=10 * MINUTE, cooldown="skip")
        await self._running_and_touched(world)
        world.clock.advance("1m")
        await world.settle(await world.there("k"))
        world.clock.advance("10m")
        assert len(await world.claim()) == 1

    async def test_on_busy_ignore_makes_no_follow_up(self, world: World) -> None:
        await world.type(on_busy="ignore")
        await world.touch("k")
        await world.claim_due("k")
        assert (await world.touch("k")).outcome is TouchOutcome.COALESCED
        running = await world.there("k")
        assert not running.dirty
        reply = await world.settle(running)
        assert reply.task is not None
        assert reply.task.status is TaskStatus.COMPLETED


class TestBreaker(Suite):
    async def _fail(self, world: World) -> None:
        await world.claim_due("k")
        await world.settle(await world.there("k"), Transition.FAIL)

    async def _open(self, world: World, failures: int = 2) -> None:
        for _ in range(failures):
            assert (await world.touch("k")).outcome is TouchOutcome.CREATED
            await self._fail(world)
            world.clock.advance("30m")

    async def test_it_opens_lets_one_through_and_blocks_again(self, world: World) -> None:
        await world.type(max_retries=2)
        await self._open(world)
        assert await world.touch("k") == (TouchOutcome.BLOCKED, None, 0)
        world.clock.advance("23h29m")
        assert (await world.touch("k")).outcome is TouchOutcome.BLOCKED
        world.clock.advance("1m")
        await world.prune()
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED
        assert (await world.touch("k")).outcome is TouchOutcome.COALESCED
        await self._fail(world)
        world.clock.advance("30m")
        assert (await world.touch("k")).outcome is TouchOutcome.BLOCKED

    async def test_the_one_that_is_let_through_closes_it_by_success(self, world: World) -> None:
        await world.type(max_retries=2)
        await self._open(world)
        world.clock.advance("24h")
        await world.touch("k")
        await world.claim_due("k")
        await world.settle(await world.there("k"))
        world.clock.advance("30m")
        await self._open(world, failures=1)
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED

    async def test_attempts_do_not_count_only_tasks_that_ended_failed(self, world: World) -> None:
        await world.type(max_retries=2)
        await world.touch("k")
        world.clock.advance("30m")
        for _ in range(2):
            await world.run(Transition.RETRY, after_ms=0)
        await world.run(Transition.COMPLETE)
        world.clock.advance("30m")
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED

    async def test_it_is_open_for_as_long_as_the_type_says(self, world: World) -> None:
        await world.type(max_retries=2, interval_ms=12 * HOUR)
        failed_at = world.now
        for _ in range(2):
            assert (await world.touch("k")).outcome is TouchOutcome.CREATED
            await self._fail(world)
            failed_at = world.now
            world.clock.advance("12h")
        world.clock.set(failed_at + 48 * HOUR - 1)
        assert (await world.touch("k")).outcome is TouchOutcome.BLOCKED
        world.clock.set(failed_at + 48 * HOUR)
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED

    async def test_it_survives_the_purge_of_the_task(self, world: World) -> None:
        await world.type(max_retries=2, dead_ttl_ms=MINUTE)
        await self._open(world)
        assert (await world.prune()).purged == 1
        assert (await world.touch("k")).outcome is TouchOutcome.BLOCKED

    async def test_an_operator_resets_it(self, world: World) -> None:
        await world.type(max_retries=2)
        await self._open(world)
        await world.store.reset_breaker([Identity(WORK, "k")])
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED

    async def test_redrive_closes_it(self, world: World) -> None:
        await world.type(max_retries=2)
        await self._open(world)
        await world.apply(Transition.REDRIVE)
        await world.run()
        world.clock.advance("30m")
        assert (await world.touch("k")).outcome is TouchOutcome.CREATED

    async def test_activity_during_a_run_that_opens_it_is_not_followed_up(self, world: World) -> None:
        await world.type(max_retries=1)
        await world.touch("k")
        await world.claim_due("k")
        await world.touch("k")
        reply = await world.settle(await world.there("k"), Transition.FAIL)
        assert reply.task is not None
        assert reply.task.status is TaskStatus.FAILED
