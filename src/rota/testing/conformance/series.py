"""The series: every nominal fire leaves a row or lies inside one range row (law 6)."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE, SECOND
from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import SETTLING, Suite, World, hourly, policy

__all__ = ["TestByHand", "TestEdited", "TestLimits", "TestMisfire", "TestNoSilentSkip", "TestOverlap", "TestSeries"]

Rows = list[tuple[str, str | None, int]]


async def rows(world: World, key: str = "k") -> Rows:
    return [(run.status, run.reason, run.fires) for run in await world.runs(key)]


class TestSeries(Suite):
    async def test_the_grid_is_kept_whatever_the_runs_do(self, world: World, work: TaskType) -> None:
        start = world.now
        await world.series("k")
        for hour in range(1, 6):
            world.clock.set(start + hour * HOUR + hour * MINUTE)
            task = await world.claim_one()
            assert task.fire_at == start + hour * HOUR
            world.clock.advance("10m")
            await world.settle(task)
            assert (await world.there("k")).next_fire == start + (hour + 1) * HOUR
        assert [run.fire_at for run in await world.runs()] == [start + hour * HOUR for hour in range(1, 6)]

    async def test_a_failed_fire_does_not_end_the_series(self, world: World) -> None:
        await world.type(max_retries=0)
        made = await world.series("k")
        world.clock.advance("1h")
        after = await world.run(Transition.RETRY, error="boom")
        assert made.next_fire is not None
        assert (after.status, after.next_fire, after.errors) == (TaskStatus.PENDING, made.next_fire + HOUR, 0)
        assert after.error == "boom"

    async def test_jitter_delays_the_run_and_not_the_fire(self, world: World, work: TaskType) -> None:
        made = await world.series("k", policy=policy(jitter_ms=10 * MINUTE))
        task = await world.claim_due("k")
        assert task.fire_at == made.next_fire
        await world.settle(task)
        after = await world.there("k")
        assert made.next_fire is not None
        assert after.next_fire == made.next_fire + HOUR
        assert after.scheduled_at - made.scheduled_at == HOUR


class TestMisfire(Suite):
    async def test_latest_runs_the_last_one_for_all(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("4h10m")
        task = await world.claim_one()
        assert made.next_fire is not None
        assert task.fire_at == made.next_fire + 3 * HOUR
        await world.settle(task)
        assert await rows(world) == [("coalesced", "misfire", 3), ("success", None, 1)]
        span = (await world.runs())[0]
        assert (span.fire_at, span.last_fire_at) == (made.next_fire, made.next_fire + 2 * HOUR)

    async def test_all_runs_one_after_another(self, world: World, work: TaskType) -> None:
        made = await world.series("k", policy=policy(misfire="all"))
        world.clock.advance("4h10m")
        fires: list[int | None] = []
        for _ in range(4):
            task = await world.claim_one()
            fires.append(task.fire_at)
            await world.settle(task)
        assert made.next_fire is not None
        assert fires == [made.next_fire + hour * HOUR for hour in range(4)]
        assert await world.claim() == []
        assert await rows(world) == [("success", None, 1)] * 4

    async def test_all_catches_up_with_24_at_most(self, world: World, work: TaskType) -> None:
        await world.series("k", policy=policy(misfire="all"))
        world.clock.advance("100h")
        runs = 0
        while tasks := await world.claim():
            await world.settle(tasks[0])
            runs += 1
        assert runs == 24
        assert (await rows(world))[0] == ("coalesced", "misfire", 76)
        assert sum(run.fires for run in await world.runs()) == 100

    async def test_skip_calls_the_others_skipped(self, world: World, work: TaskType) -> None:
        await world.series("k", policy=policy(misfire="skip"))
        world.clock.advance("3h")
        await world.run()
        assert await rows(world) == [("skipped", "misfire", 2), ("success", None, 1)]

    async def test_past_its_grace_nothing_runs(self, world: World, work: TaskType) -> None:
        made = await world.series("k", policy=policy(grace_ms=5 * MINUTE))
        world.clock.advance("3h6m")
        assert await world.claim() == []
        after = await world.there("k")
        assert made.next_fire is not None
        assert (after.status, after.next_fire) == (TaskStatus.PENDING, made.next_fire + 3 * HOUR)
        assert await rows(world) == [("skipped", "misfire", 3)]
        world.clock.advance("56m")
        assert (await world.claim_one()).fire_at == made.next_fire + 3 * HOUR

    async def test_a_skipped_fire_takes_no_slot_from_the_others(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.series(key, policy=policy(grace_ms=MINUTE))
        world.clock.advance("1h2m")
        await world.schedule("z")
        assert [task.key for task in await world.claim(1)] == ["z"]

    async def test_a_million_missed_fires_are_one_row(self, world: World, work: TaskType) -> None:
        await world.created("k", trigger=hourly(world.now, SECOND))
        world.clock.advance("12d")
        await world.run()
        assert sum(run.fires for run in await world.runs()) == 12 * 24 * 3_600


class TestOverlap(Suite):
    async def test_skip_accounts_for_the_fires_during_the_run(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        task = await world.claim_one()
        world.clock.advance("2h30m")
        await world.settle(task)
        assert made.next_fire is not None
        assert (await world.there("k")).next_fire == made.next_fire + 3 * HOUR
        assert await rows(world) == [("success", None, 1), ("skipped", "overlap", 2)]

    async def test_queue_keeps_one(self, world: World, work: TaskType) -> None:
        made = await world.series("k", policy=policy(overlap="queue"))
        world.clock.advance("1h")
        task = await world.claim_one()
        world.clock.advance("2h30m")
        await world.settle(task)
        assert made.next_fire is not None
        again = await world.claim_one()
        assert again.fire_at == made.next_fire + 2 * HOUR
        await world.settle(again)
        assert await world.claim() == []
        assert await rows(world) == [("success", None, 1), ("skipped", "overlap", 1), ("success", None, 1)]


class TestLimits(Suite):
    async def test_max_runs(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=2)
        statuses: list[TaskStatus] = []
        for _ in range(2):
            world.clock.advance("1h")
            statuses.append((await world.run()).status)
        assert statuses == [TaskStatus.PENDING, TaskStatus.COMPLETED]

    async def test_a_retried_fire_counts_once(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=2)
        world.clock.advance("1h")
        await world.run(Transition.RETRY, after_ms=0)
        assert (await world.run()).status is TaskStatus.PENDING

    async def test_the_last_fire_that_fails_is_a_dead_letter(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=1)
        world.clock.advance("1h")
        assert (await world.run(Transition.FAIL)).status is TaskStatus.FAILED

    async def test_a_series_ends_when_it_expires(self, world: World, work: TaskType) -> None:
        await world.series("k", expires_at=world.now + 90 * MINUTE)
        world.clock.advance("1h")
        after = await world.run()
        assert (after.status, after.next_fire) == (TaskStatus.COMPLETED, None)

    async def test_a_claim_ends_what_has_expired(self, world: World, work: TaskType) -> None:
        await world.series("k", expires_at=world.now + 90 * MINUTE)
        world.clock.advance("2h30m")
        assert await world.claim() == []
        after = await world.there("k")
        assert (after.status, after.reason) == (TaskStatus.COMPLETED, "expired")
        # The fires after its end are none of its own.
        assert await rows(world) == [("skipped", "expired", 1)]

    async def test_activity_during_the_last_run_is_followed_up_once(self, world: World, work: TaskType) -> None:
        await world.series("k", max_runs=1)
        world.clock.advance("1h")
        task = await world.claim_one()
        await world.touch("k")
        reply = await world.settle(task)
        assert reply.task is not None
        assert (reply.task.status, reply.task.scheduled_at) == (TaskStatus.PENDING, world.now + 30 * MINUTE)
        world.clock.advance("30m")
        assert (await world.run()).status is TaskStatus.COMPLETED
        assert sum(run.trigger_mode == "interval" for run in await world.runs()) == 1


class TestNoSilentSkip(Suite):
    @pytest.mark.parametrize("misfire", ["latest", "all", "skip"])
    @pytest.mark.parametrize("overlap", ["skip", "queue"])
    async def test_every_fire_is_accounted_for_once(
        self, world: World, work: TaskType, misfire: str, overlap: str
    ) -> None:
        """Late claims, long runs, retries, releases, a pause: the rows partition the fires."""
        start = world.now
        await world.series("k", policy=policy(misfire=misfire, overlap=overlap))
        plan: list[tuple[str, str, Transition]] = [
            ("1h", "5m", Transition.COMPLETE),
            ("3h10m", "10m", Transition.COMPLETE),
            ("1h", "2h20m", Transition.FAIL),
            ("20m", "1h", Transition.RETRY),
            ("10m", "3h", Transition.COMPLETE),
            ("5h", "30m", Transition.RELEASE),
            ("1m", "10m", Transition.COMPLETE),
        ]
        for late, took, transition in plan:
            world.clock.advance(late)
            for task in await world.claim():
                world.clock.advance(took)
                again = transition in (Transition.RETRY, Transition.RELEASE)
                await world.settle(task, transition, after_ms=0, reason="again" if again else None)
        await world.apply(Transition.PAUSE)
        world.clock.advance("4h")
        await world.apply(Transition.RESUME)
        world.clock.advance("1h")
        while tasks := await world.claim():
            await world.settle(tasks[0])
        await world.apply(Transition.CANCEL)
        seen: dict[int, int] = {}
        for run in await world.runs():
            assert run.fire_at is not None
            for number in range(run.fires):
                at = run.fire_at + number * HOUR
                seen[at] = seen.get(at, 0) + (run.reason != "again")
        fires = range(start + HOUR, world.now + 1, HOUR)
        assert sorted(seen) == list(fires)
        assert max(seen.values()) == 1


class TestEdited(Suite):
    """A series that is changed or stopped during a run: what it still owes then leaves its row."""

    @pytest.mark.parametrize(
        "transition", [Transition.COMPLETE, Transition.DISCARD, Transition.RELEASE, Transition.FAIL]
    )
    async def test_cancelled_the_fires_of_the_run_leave_a_row(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        task = await world.claim_one()
        world.clock.advance("2h10m")
        await world.apply(Transition.CANCEL)
        world.clock.advance("1h")
        await world.settle(task, transition)
        # Those that passed between the wish and the end, too: until then the series was there.
        ran, passed = await world.runs()
        assert made.next_fire is not None
        assert ran.fire_at == made.next_fire
        assert (passed.status, passed.reason, passed.fires) == ("skipped", "cancelled", 3)
        assert (passed.fire_at, passed.last_fire_at) == (made.next_fire + HOUR, made.next_fire + 3 * HOUR)

    async def test_cancelled_by_a_crash_they_do_so_too(self, world: World, work: TaskType) -> None:
        await world.created("k", trigger=hourly(world.now, 5 * SECOND))
        world.clock.advance("5s")
        await world.claim_one(instance="doomed")
        await world.apply(Transition.CANCEL)
        await world.tick_past_lease()
        (_, reason, fires) = (await rows(world))[1]
        assert (await world.status("k"), reason) == (TaskStatus.CANCELLED, "cancelled")
        assert fires >= 2

    async def test_cancelled_during_a_catch_up_what_is_owed_leaves_a_row(self, world: World, work: TaskType) -> None:
        await world.series("k", policy=policy(misfire="all"))
        world.clock.advance("4h10m")
        task = await world.claim_one()
        await world.apply(Transition.CANCEL)
        await world.settle(task)
        assert await rows(world) == [("success", None, 1), ("skipped", "cancelled", 3)]

    @pytest.mark.parametrize(("misfire", "status"), [("latest", "coalesced"), ("skip", "skipped")])
    async def test_a_catch_up_that_is_called_off_accounts_for_what_it_owed(
        self, world: World, work: TaskType, misfire: str, status: str
    ) -> None:
        made = await world.series("k", policy=policy(misfire="all"))
        world.clock.advance("4h10m")
        task = await world.claim_one()
        await world.update("k", policy=policy(misfire=misfire))
        await world.settle(task)
        await world.run()
        after = await world.there("k")
        assert made.next_fire is not None
        assert after.next_fire == made.next_fire + 4 * HOUR
        assert await rows(world) == [("success", None, 1), (status, "misfire", 2), ("success", None, 1)]

    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.RELEASE])
    async def test_a_new_trigger_during_a_manual_run_leaves_a_row_for_what_was_due(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        made = await world.series("k")
        world.clock.advance("3h10m")
        await world.apply(Transition.RUN_NOW)
        task = await world.claim_one()
        await world.update("k", trigger=hourly(world.now, 2 * HOUR))
        updated = (await world.runs())[0]
        assert (updated.status, updated.reason, updated.fires) == ("skipped", "updated", 3)
        assert (updated.fire_at, updated.trigger_mode) == (made.next_fire, "interval")
        await world.settle(task, transition)
        after = await world.there("k") if transition is Transition.COMPLETE else await world.run()
        assert after.next_fire == world.now + 2 * HOUR

    @pytest.mark.parametrize("transition", [Transition.RELEASE, Transition.RETRY, Transition.SNOOZE])
    async def test_a_new_trigger_does_not_catch_up_on_times_before_it(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        made = await world.series("k", policy=policy(misfire="all"))
        world.clock.advance("4h10m")
        task = await world.claim_one()
        await world.update("k", trigger=hourly(world.now, 20 * MINUTE))
        await world.settle(task, transition, after_ms=0)
        again = await world.claim_one()
        assert again.fire_at == made.next_fire
        world.clock.advance("50m")
        await world.settle(again)
        assert (await world.there("k")).next_fire == world.now + 10 * MINUTE
        assert [row for row in await rows(world) if row[1] in ("updated", "overlap")] == [
            ("skipped", "updated", 3),
            ("skipped", "overlap", 2),
        ]


class TestByHand(Suite):
    """A due time that somebody sets on a series is a run that was asked for: the series stays as it is."""

    @pytest.mark.parametrize("by", ["update", "schedule"])
    @pytest.mark.parametrize("transition", SETTLING)
    async def test_a_due_time_does_not_shift_the_series(
        self, world: World, work: TaskType, by: str, transition: Transition
    ) -> None:
        made = await world.series("k")
        due_at = world.now + 10 * MINUTE
        if by == "update":
            await world.update("k", scheduled_at=due_at)
        else:
            await world.schedule("k", scheduled_at=due_at, replace=True)
        waiting = await world.there("k")
        assert (waiting.scheduled_at, waiting.next_fire, waiting.fire_at) == (due_at, made.next_fire, None)
        task = await world.claim_due("k")
        assert (task.manual, task.fire_at) == (True, due_at)
        await world.settle(task, transition, after_ms=0)
        if (await world.there("k")).manual:
            await world.run()
        after = await world.there("k")
        assert (after.scheduled_at, after.next_fire, after.fires_run) == (made.scheduled_at, made.next_fire, 0)
        assert {(run.trigger_mode, run.fire_at) for run in await world.runs()} == {("manual", None)}

    async def test_fires_until_then_are_accounted_for_after_it(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        await world.update("k", scheduled_at=world.now + 150 * MINUTE)
        world.clock.advance("2h30m")
        await world.run()
        await world.run()
        assert made.next_fire is not None
        assert (await world.there("k")).next_fire == made.next_fire + 2 * HOUR
        assert await rows(world) == [("success", None, 1), ("coalesced", "misfire", 1), ("success", None, 1)]

    async def test_the_due_time_that_it_has_changes_nothing(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        await world.update("k", scheduled_at=made.scheduled_at)
        task = await world.claim_due("k")
        assert (task.manual, task.fire_at) == (False, made.next_fire)

    async def test_a_retry_that_waits_is_moved_and_keeps_its_fire(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        await world.run(Transition.RETRY, after_ms=20 * MINUTE)
        await world.update("k", scheduled_at=world.now + MINUTE)
        again = await world.claim_due("k")
        assert (again.manual, again.fire_at) == (False, made.next_fire)

    async def test_a_run_by_hand_that_waits_again_is_still_by_hand(self, world: World, work: TaskType) -> None:
        """Its own due time is no fire that a retry could belong to."""
        made = await world.series("k")
        await world.apply(Transition.RUN_NOW)
        await world.run(Transition.RETRY, after_ms=20 * MINUTE)
        await world.apply(Transition.RUN_NOW)
        assert (await world.run()).next_fire == made.next_fire
        assert {run.trigger_mode for run in await world.runs()} == {"manual"}

    async def test_paused_it_is_dropped_for_the_next_fire(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        await world.update("k", scheduled_at=world.now + MINUTE)
        await world.apply(Transition.PAUSE)
        await world.update("k", scheduled_at=world.now + 2 * MINUTE)
        await world.apply(Transition.RESUME)
        after = await world.there("k")
        assert (after.scheduled_at, after.next_fire, after.manual) == (made.scheduled_at, made.next_fire, False)
