"""update: pending, paused, running -> same, with new values and the next version."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer
from rota.core.task import Change, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidTrigger, LimitExceeded
from rota.stores.base import MAX_PAYLOAD_BYTES
from rota.testing.conformance.world import WORK, Suite, World, hourly, policy
from rota.triggers import Once, encode_trigger

__all__ = ["TestUpdate", "TestUpdateDuringARun"]


class TestUpdate(Suite):
    @pytest.mark.parametrize("paused", [False, True])
    async def test_only_what_is_named_changes(self, world: World, work: TaskType, paused: bool) -> None:
        before = await world.series("k", payload="old", max_runs=5, expires_at=world.now + 100 * HOUR)
        if paused:
            await world.apply(Transition.PAUSE)
        reply = await world.update("k", payload="new", priority=9)
        after = await world.there("k")
        assert reply == (Answer.OK, after)
        assert (after.payload, after.priority, after.version) == ("new", 9, before.version + 1)
        assert after.status is (TaskStatus.PAUSED if paused else TaskStatus.PENDING)
        for name in ("trigger", "policy", "max_runs", "expires_at", "scheduled_at", "next_fire"):
            assert getattr(after, name) == getattr(before, name), name

    async def test_none_clears_a_value(self, world: World, work: TaskType) -> None:
        await world.series("k", payload="p", max_runs=5, expires_at=world.now + HOUR)
        await world.update("k", payload=None, max_runs=None, expires_at=None)
        after = await world.there("k")
        assert (after.payload, after.max_runs, after.expires_at) == (None, None, None)

    async def test_a_new_due_time(self, world: World, work: TaskType) -> None:
        await world.schedule("k", scheduled_at=world.now + HOUR)
        await world.update("k", scheduled_at=world.now)
        assert len(await world.claim()) == 1

    async def test_a_new_trigger_starts_a_new_series(self, world: World, work: TaskType) -> None:
        await world.series("k")
        world.clock.advance("2h30m")
        await world.update("k", trigger=hourly(world.now, 3 * HOUR))
        after = await world.there("k")
        assert after.next_fire == after.scheduled_at == world.now + 3 * HOUR
        # The two fires of the old series that were due leave their row.
        assert [(row.status, row.reason, row.fires) for row in await world.runs()] == [("skipped", "updated", 2)]

    async def test_a_series_becomes_a_single_time(self, world: World, work: TaskType) -> None:
        await world.series("k")
        await world.update("k", trigger=encode_trigger(Once(world.now + MINUTE)))
        world.clock.advance("1m")
        assert (await world.run()).status is TaskStatus.COMPLETED

    async def test_a_new_priority_changes_the_lane(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        await world.schedule("b")
        await world.update("b", priority=10)
        assert (await world.claim_one()).key == "b"

    async def test_a_manual_run_that_waits_is_not_lost(self, world: World, work: TaskType) -> None:
        await world.series("k")
        await world.apply(Transition.PAUSE)
        await world.apply(Transition.RUN_NOW)
        await world.update("k", trigger=hourly(world.now, 2 * HOUR))
        task = await world.run()
        assert (task.status, task.next_fire) == (TaskStatus.PAUSED, world.now + 2 * HOUR)

    async def test_two_changes_of_one_task_apply_in_order(self, world: World, work: TaskType) -> None:
        made = await world.created("k")
        changes = [Change(task_type=WORK, key="k", payload=text) for text in ("1", "2")]
        replies = await world.store.update(changes, now=world.now)
        assert [reply.task.version for reply in replies if reply.task] == [made.version + 1, made.version + 2]
        assert (await world.there("k")).payload == "2"

    async def test_what_is_not_live_is_refused(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        done = await world.run()
        assert await world.update("k", payload="x") == (Answer.REFUSED, done)
        assert await world.update("nobody", payload="x") == (Answer.UNKNOWN, None)

    async def test_what_cannot_be_kept_is_refused(self, world: World, work: TaskType) -> None:
        made = await world.created("k")
        with pytest.raises(LimitExceeded):
            await world.update("k", payload="x" * (MAX_PAYLOAD_BYTES + 1))
        with pytest.raises(InvalidTrigger):
            await world.update("k", trigger="nonsense")
        assert await world.there("k") == made


class TestUpdateDuringARun(Suite):
    async def test_the_edit_wins(self, world: World, work: TaskType) -> None:
        """The run in progress must not write its old plan over the new trigger."""
        await world.series("k", payload="old")
        world.clock.advance("1h")
        task = await world.claim_one()
        world.clock.advance("10m")
        await world.update("k", trigger=hourly(world.now, 20 * MINUTE), payload="new")
        assert await world.status("k") is TaskStatus.RUNNING
        world.clock.advance("5m")
        await world.settle(task)
        after = await world.there("k")
        assert (after.status, after.payload) == (TaskStatus.PENDING, "new")
        assert after.next_fire == after.scheduled_at == world.now + 15 * MINUTE

    async def test_a_change_of_the_payload_alone_keeps_the_series(self, world: World, work: TaskType) -> None:
        made = await world.series("k")
        world.clock.advance("1h")
        task = await world.claim_one()
        await world.update("k", payload="new")
        await world.settle(task)
        after = await world.there("k")
        assert made.next_fire is not None
        assert (after.next_fire, after.payload) == (made.next_fire + HOUR, "new")

    async def test_a_single_time_becomes_a_series(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        await world.update("k", trigger=hourly(world.now))
        await world.settle(task)
        assert (await world.there("k")).next_fire == world.now + HOUR

    @pytest.mark.parametrize("transition", [Transition.RETRY, Transition.RELEASE, Transition.SNOOZE])
    async def test_a_single_time_becomes_a_series_and_is_tried_again_first(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await world.schedule("k")
        task = await world.claim_one()
        world.clock.advance("3h")
        await world.update("k", trigger=hourly(world.now - 30 * MINUTE))
        await world.settle(task, transition, after_ms=0)
        after = await world.run()
        assert (after.status, after.next_fire) == (TaskStatus.PENDING, world.now + 30 * MINUTE)
        assert await world.apply(Transition.PAUSE) == (Answer.OK, await world.there("k"))

    async def test_a_new_single_time_is_not_lost(self, world: World, work: TaskType) -> None:
        for made in (world.series("a"), world.created("b", scheduled_at=world.now + HOUR)):
            await made
        world.clock.advance("1h")
        for task in await world.claim(2):
            await world.update(task.key, trigger=encode_trigger(Once(world.now + MINUTE)))
            reply = await world.settle(task)
            assert reply.task is not None
            assert (reply.task.status, reply.task.scheduled_at) == (TaskStatus.PENDING, world.now + MINUTE)
        world.clock.advance("1m")
        assert [(await world.run()).status for _ in range(2)] == [TaskStatus.COMPLETED] * 2

    @pytest.mark.parametrize("transition", [Transition.RETRY, Transition.RELEASE, Transition.SNOOZE])
    async def test_a_retry_keeps_its_fire_and_then_the_new_series_goes_on(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        made = await world.series("k", policy=policy(misfire="latest"))
        world.clock.advance("1h")
        task = await world.claim_one()
        await world.update("k", trigger=hourly(world.now + 5 * MINUTE, 2 * HOUR))
        await world.settle(task, transition, after_ms=0)
        again = await world.claim_one()
        assert again.fire_at == made.next_fire
        await world.settle(again)
        assert (await world.there("k")).next_fire == world.now + 5 * MINUTE
