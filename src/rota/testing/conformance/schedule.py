"""schedule: absent, completed, failed, cancelled -> pending."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.clock import HOUR, MINUTE
from rota.core.outcome import ScheduleOutcome
from rota.core.task import NewTask, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidInput, InvalidTrigger, LimitExceeded, UnknownTaskType
from rota.stores.base import MAX_PAYLOAD_BYTES
from rota.testing.conformance.world import WORK, Suite, World, hourly, policy
from rota.triggers import Cron, Once, encode_trigger

__all__ = ["TestSchedule", "TestScheduleLimits", "TestUpsert"]


class TestSchedule(Suite):
    async def test_a_new_task_is_pending_and_due_at_once(self, world: World, work: TaskType) -> None:
        answer = await world.schedule("k")
        assert answer.outcome is ScheduleOutcome.CREATED
        task = await world.there("k")
        assert answer.task == task
        assert (task.status, task.scheduled_at, task.created_at) == (TaskStatus.PENDING, world.now, world.now)

    async def test_everything_that_was_asked_for_is_kept(self, world: World, work: TaskType) -> None:
        given = NewTask(
            task_type=WORK,
            key="k",
            scheduled_at=world.now + HOUR,
            payload='{"text": "héllo ✓ 𝄞"}',
            priority=9,
            serial="s",
            permits=3,
            cost=2,
            owner="group-1",
            user_id="u",
            device_id="d",
            agent_id="a",
            max_runs=7,
            expires_at=world.now + 2 * HOUR,
        )
        await world.store.schedule([given], now=world.now)
        task = await world.there("k")
        for name in set(NewTask.__struct_fields__) - {"delay_ms", "owner_limit", "replace"}:
            assert getattr(task, name) == getattr(given, name), name

    async def test_a_live_identity_is_kept_as_it_is(self, world: World, work: TaskType) -> None:
        first = await world.created("k", payload="1")
        again = await world.schedule("k", payload="2")
        assert again == (ScheduleOutcome.EXISTS, first)
        assert await world.there("k") == first

    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.FAIL, Transition.DISCARD])
    async def test_a_finished_identity_can_be_made_again(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        await world.schedule("k")
        finished = await world.run(transition, error="boom")
        assert not finished.status.is_live
        again = await world.schedule("k", payload="new")
        assert again.outcome is ScheduleOutcome.CREATED
        task = await world.there("k")
        assert (task.status, task.payload, task.errors, task.attempt) == (TaskStatus.PENDING, "new", 0, 0)
        assert (task.finished_at, task.purge_at, task.error, task.reason) == (None, None, None, None)
        await world.check_counts()

    @pytest.mark.parametrize("kind", ["plain", "series"])
    async def test_what_is_made_again_was_last_changed_when_it_was_made(
        self, world: World, work: TaskType, kind: str
    ) -> None:
        """Also if all of its first life was within one millisecond."""
        await world.schedule("k")
        await world.run(Transition.COMPLETE)
        world.clock.advance(60)
        await world.schedule("k", trigger=hourly(world.now) if kind == "series" else None)
        task = await world.there("k")
        assert (task.created_at, task.updated_at) == (world.now, world.now)

    async def test_a_cancelled_identity_can_be_made_again(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.apply(Transition.CANCEL)
        assert (await world.schedule("k")).outcome is ScheduleOutcome.CREATED

    async def test_a_failed_one_leaves_the_dead_letters(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.run(Transition.FAIL)
        await world.schedule("k")
        assert await world.all_tasks(status=TaskStatus.FAILED) == []

    async def test_two_items_of_one_identity_apply_in_order(self, world: World, work: TaskType) -> None:
        one = NewTask(task_type=WORK, key="k", payload="1")
        two = NewTask(task_type=WORK, key="k", payload="2")
        three = NewTask(task_type=WORK, key="k", payload="3", replace=True)
        answers = await world.store.schedule([one, two, three], now=world.now)
        assert [answer.outcome for answer in answers] == [
            ScheduleOutcome.CREATED,
            ScheduleOutcome.EXISTS,
            ScheduleOutcome.UPDATED,
        ]
        assert (await world.there("k")).payload == "3"

    async def test_the_types_priority_is_the_default(self, world: World) -> None:
        await world.type(priority=8)
        assert (await world.created("a")).priority == 8
        assert (await world.created("b", priority=0)).priority == 0

    async def test_once_is_due_at_its_time(self, world: World, work: TaskType) -> None:
        task = await world.created("k", trigger=encode_trigger(Once(world.now + HOUR)))
        assert task.scheduled_at == world.now + HOUR
        assert task.next_fire is None

    async def test_a_delay_counts_from_the_stores_now(self, world: World, work: TaskType) -> None:
        assert (await world.created("later", delay_ms=250)).scheduled_at == world.now + 250
        task = await world.created("serial", delay_ms=500, serial="s", permits=2)
        assert (task.scheduled_at, task.serial, task.permits) == (world.now + 500, "s", 2)

    @pytest.mark.parametrize("given", [{"delay_ms": -1}, {"delay_ms": 1, "scheduled_at": 1}])
    async def test_a_delay_is_no_time_and_goes_with_none(
        self, world: World, work: TaskType, given: dict[str, int]
    ) -> None:
        with pytest.raises(InvalidInput, match="delay_ms"):
            await world.schedule("k", WORK, **given)

    async def test_a_series_is_due_at_its_next_fire(self, world: World, work: TaskType) -> None:
        task = await world.created("k", trigger=encode_trigger(Cron("30 9 * * *", "Europe/Rome")))
        # It is 10:00 in Rome.
        assert task.scheduled_at == task.next_fire == world.now + 24 * HOUR - 30 * MINUTE

    async def test_a_series_that_is_given_a_start_begins_there(self, world: World, work: TaskType) -> None:
        at_once = await world.created("a", trigger=hourly(world.now), scheduled_at=world.now)
        later = await world.created("b", trigger=hourly(world.now), scheduled_at=world.now + 90 * MINUTE)
        assert at_once.next_fire == world.now
        assert later.next_fire == world.now + 2 * HOUR

    async def test_jitter_is_the_same_for_one_key_and_below_the_next_fire(self, world: World, work: TaskType) -> None:
        spread = policy(jitter_ms=HOUR)
        first = await world.series("k", policy=spread)
        other = await world.series("other", policy=spread)
        assert first.next_fire == other.next_fire == world.now + HOUR
        assert world.now + HOUR <= first.scheduled_at < world.now + 2 * HOUR
        assert first.scheduled_at != other.scheduled_at
        await world.apply(Transition.CANCEL, "k")
        assert (await world.series("k", policy=spread)).scheduled_at == first.scheduled_at


class TestScheduleLimits(Suite):
    async def test_a_type_that_is_off_takes_nothing(self, world: World) -> None:
        await world.type(enabled=False)
        assert await world.schedule("k") == (ScheduleOutcome.DISABLED, None)
        assert await world.task("k") is None

    async def test_a_full_type_takes_no_more(self, world: World) -> None:
        await world.type(max_pending=2)
        outcomes = [(await world.schedule(key)).outcome for key in "abc"]
        assert outcomes == [ScheduleOutcome.CREATED, ScheduleOutcome.CREATED, ScheduleOutcome.FULL]
        assert await world.task("c") is None
        await world.claim_one()
        assert (await world.schedule("c")).outcome is ScheduleOutcome.CREATED

    async def test_a_full_type_counts_within_one_call(self, world: World) -> None:
        await world.type(max_pending=2)
        news = [NewTask(task_type=WORK, key=key) for key in "abc"]
        answers = await world.store.schedule(news, now=world.now)
        assert [answer.outcome for answer in answers].count(ScheduleOutcome.FULL) == 1

    async def test_an_owner_has_a_quota(self, world: World, work: TaskType) -> None:
        mine = NewTask(task_type=WORK, key="a", owner="me", owner_limit=2)
        answers = await world.store.schedule([replace(mine, key=key) for key in "abc"], now=world.now)
        assert [answer.outcome for answer in answers] == [
            ScheduleOutcome.CREATED,
            ScheduleOutcome.CREATED,
            ScheduleOutcome.QUOTA,
        ]
        assert (await world.schedule("d", owner="you", owner_limit=2)).outcome is ScheduleOutcome.CREATED
        await world.apply(Transition.CANCEL, "a")
        assert (await world.schedule("c", owner="me", owner_limit=2)).outcome is ScheduleOutcome.CREATED

    async def test_an_unknown_type_is_an_error_before_any_write(self, world: World, work: TaskType) -> None:
        news = [NewTask(task_type=WORK, key="k"), NewTask(task_type="nothing_here", key="k")]
        with pytest.raises(UnknownTaskType, match="nothing_here"):
            await world.store.schedule(news, now=world.now)
        assert await world.task("k") is None

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"payload": "x" * (MAX_PAYLOAD_BYTES + 1)}, LimitExceeded),
            ({"payload": "é" * (MAX_PAYLOAD_BYTES // 2 + 1)}, LimitExceeded),
            ({"payload": "a\0b"}, InvalidInput),
            ({"payload": "\ud800"}, InvalidInput),
            ({"key": ""}, InvalidInput),
            ({"key": "a\0b"}, InvalidInput),
            ({"key": "k" * 5_000}, LimitExceeded),
            ({"user_id": "u" * 256}, LimitExceeded),
            ({"owner": "o" * 256}, LimitExceeded),
            ({"priority": 11}, InvalidInput),
            ({"priority": -1}, InvalidInput),
            ({"permits": 0}, InvalidInput),
            ({"cost": 0}, InvalidInput),
            ({"max_runs": 0}, InvalidInput),
            ({"task_type": "Not A Name"}, InvalidInput),
            ({"trigger": "nonsense"}, InvalidTrigger),
            ({"trigger": '{"kind":"interval","every_ms":1,"anchor_at":0}'}, InvalidTrigger),
            ({"trigger": hourly(0), "policy": "nonsense"}, InvalidInput),
            ({"trigger": hourly(0), "policy": '{"misfire":"sometimes"}'}, InvalidInput),
        ],
    )
    async def test_what_cannot_be_kept_is_refused(
        self, world: World, work: TaskType, fields: dict[str, object], error: type[Exception]
    ) -> None:
        new = replace(NewTask(task_type=WORK, key="k"), **fields)
        with pytest.raises(error):
            await world.store.schedule([new], now=world.now)
        assert await world.all_tasks(None) == []

    async def test_the_largest_payload_and_key_fit(self, world: World, work: TaskType) -> None:
        key = "".join(chr(33 + (i * i) % 90) for i in range(2_400))
        task = await world.created(key, payload="x" * MAX_PAYLOAD_BYTES)
        assert await world.there(key) == task

    async def test_a_cost_over_the_capacity_is_refused(self, world: World) -> None:
        from rota.core.task_type import RateLimit

        await world.type(rate_limit=RateLimit(rate=1.0, burst=5))
        with pytest.raises(LimitExceeded, match="5"):
            await world.schedule("k", cost=6)
        assert await world.task("k") is None


class TestUpsert(Suite):
    async def test_replace_makes_what_is_not_there(self, world: World, work: TaskType) -> None:
        assert (await world.schedule("k", replace=True)).outcome is ScheduleOutcome.CREATED

    async def test_replace_changes_what_is_there(self, world: World, work: TaskType) -> None:
        before = await world.series("k", payload="old")
        answer = await world.schedule("k", payload="new", trigger=before.trigger, priority=7, replace=True)
        assert answer.outcome is ScheduleOutcome.UPDATED
        task = await world.there("k")
        assert (task.payload, task.priority, task.version) == ("new", 7, before.version + 1)
        assert (task.next_fire, task.scheduled_at) == (before.next_fire, before.scheduled_at)

    async def test_the_same_again_changes_nothing(self, world: World, work: TaskType) -> None:
        before = await world.series("k", payload="p", max_runs=3)
        again = await world.schedule("k", payload="p", trigger=before.trigger, max_runs=3, replace=True)
        assert again == (ScheduleOutcome.EXISTS, before)

    async def test_a_new_trigger_starts_a_new_series(self, world: World, work: TaskType) -> None:
        await world.series("k")
        trigger = hourly(world.now, 2 * HOUR)
        answer = await world.schedule("k", trigger=trigger, replace=True)
        assert answer.task is not None
        assert answer.task.next_fire == world.now + 2 * HOUR

    async def test_replace_does_not_resume_a_paused_one(self, world: World, work: TaskType) -> None:
        before = await world.series("k")
        await world.apply(Transition.PAUSE)
        await world.schedule("k", trigger=before.trigger, payload="new", replace=True)
        assert await world.status("k") is TaskStatus.PAUSED
