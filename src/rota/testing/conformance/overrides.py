"""What an operator sets over the configuration of a type, for all instances and over restarts."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE, SECOND
from rota.core.outcome import Answer, ScheduleOutcome, TouchOutcome
from rota.core.task import TaskStatus, Transition
from rota.core.task_type import RateLimit, TaskType
from rota.errors import InvalidInput, LimitExceeded
from rota.stores.base import Overrides
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestDraining", "TestFrozen", "TestLimits", "TestOverrides"]


class TestOverrides(Suite):
    async def test_what_is_not_named_stays(self, world: World, work: TaskType) -> None:
        await world.store.override_type(WORK, {"max_pending": 7, "frozen": True})
        record = await world.store.override_type(WORK, {"frozen": None, "concurrency": 3})
        assert record.overrides == Overrides(max_pending=7, concurrency=3)
        assert await world.store.list_types() == [record]
        assert (await world.store.put_types([work]))[0] == record

    async def test_the_effective_settings(self, world: World, work: TaskType) -> None:
        limits = {"rate_limit": {"rate": 2, "burst": 4}, "start_limit": {"rate": 3}}
        record = await world.store.override_type(WORK, {"concurrency": 2, "max_pending": 5, **limits})
        effective = record.effective
        assert (effective.concurrency, effective.max_pending) == (2, 5)
        assert (effective.rate_limit, effective.start_limit) == (RateLimit(rate=2.0, burst=4), RateLimit(rate=3.0))
        assert record.task_type == work

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"frozzen": True}, "Did you mean 'frozen'"),
            ({"interval_ms": 5}, "Use one of"),
            ({"concurrency": 0}, "1 to 10000"),
            ({"max_pending": 0}, "1 to"),
            ({"concurrency": "many"}, "concurrency"),
            ({"concurrency": True}, "concurrency"),
            ({"enabled": "no"}, "enabled"),
            ({"rate_limit": {"rate": 0, "burst": 1}}, "above 0"),
            ({"rate_limit": {"rate": 1, "burst": 0}}, "burst"),
            ({"rate_limit": 5}, "rate_limit"),
            ({"start_limit": {"rate": 1, "burst": 0}}, "start_limit.burst"),
            ({"slots": "own"}, "slots"),
        ],
    )
    async def test_what_cannot_be_is_refused(
        self, world: World, work: TaskType, changes: dict[str, object], words: str
    ) -> None:
        with pytest.raises(InvalidInput, match=words):
            await world.store.override_type(WORK, {"frozen": True, **changes})
        assert (await world.store.list_types())[0].overrides == Overrides()


class TestFrozen(Suite):
    async def test_what_comes_is_taken_on_and_waits(self, world: World, work: TaskType) -> None:
        await world.store.override_type(WORK, {"frozen": True})
        assert (await world.schedule("a")).outcome is ScheduleOutcome.CREATED
        assert (await world.touch("b")).outcome is TouchOutcome.CREATED
        assert (await world.claimed(5)).tasks == []
        assert (await world.claimed(5)).next_due_at is None
        assert (await world.tick()).next_due_at is None
        await world.store.override_type(WORK, {"frozen": None})
        assert [task.key for task in await world.claim(5)] == ["a"]

    async def test_a_run_by_hand_waits_too(self, world: World, work: TaskType) -> None:
        await world.schedule("a", scheduled_at=world.now + HOUR)
        await world.store.override_type(WORK, {"frozen": True})
        assert (await world.apply(Transition.RUN_NOW, "a")).answer is Answer.OK
        assert await world.claim() == []
        await world.store.override_type(WORK, {"frozen": False})
        assert (await world.claim_one()).manual

    async def test_what_runs_goes_on(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        running = await world.claim_one()
        await world.store.override_type(WORK, {"frozen": True})
        assert world.renew(running).answer is Answer.OK
        assert (await world.settle(running)).answer is Answer.OK
        assert await world.status("a") is TaskStatus.COMPLETED

    async def test_thawing_wakes_whoever_waits(self, world: World, work: TaskType) -> None:
        await world.store.override_type(WORK, {"frozen": True})
        await world.schedule("a")
        await world.store.wait(1)
        await world.store.override_type(WORK, {"frozen": None})
        assert await world.store.wait(MINUTE)


class TestDraining(Suite):
    async def test_nothing_new_is_taken_on(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        await world.store.override_type(WORK, {"draining": True})
        assert (await world.schedule("b")).outcome is ScheduleOutcome.DISABLED
        assert (await world.series_outcome("c")) is ScheduleOutcome.DISABLED
        assert (await world.touch("d")).outcome is TouchOutcome.DISABLED
        assert (await world.schedule("a")).outcome is ScheduleOutcome.EXISTS
        assert (await world.run()).status is TaskStatus.COMPLETED

    async def test_retries_and_series_go_on(self, world: World, work: TaskType) -> None:
        await world.series("s")
        await world.schedule("a")
        await world.store.override_type(WORK, {"draining": True})
        await world.run(Transition.RETRY)
        await world.claim_due("a")
        world.clock.advance("1h")
        again = await world.run()
        assert (again.key, again.status) == ("s", TaskStatus.PENDING)

    async def test_frozen_and_draining_at_once_is_nothing_at_all(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        record = await world.store.override_type(WORK, {"draining": True, "frozen": True})
        assert (record.enabled, record.accepts, record.runs) == (True, False, False)
        assert (await world.schedule("b")).outcome is ScheduleOutcome.DISABLED
        assert await world.claim() == []


class TestLimits(Suite):
    async def test_max_pending(self, world: World, work: TaskType) -> None:
        await world.store.override_type(WORK, {"max_pending": 1})
        await world.schedule("a")
        assert (await world.schedule("b")).outcome is ScheduleOutcome.FULL
        assert (await world.touch("b")).outcome is TouchOutcome.FULL
        assert (await world.series_outcome("b")) is ScheduleOutcome.FULL
        await world.store.override_type(WORK, {"max_pending": None})
        assert (await world.schedule("b")).outcome is ScheduleOutcome.CREATED

    async def test_a_rate_limit_where_there_was_none(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.schedule(key)
        await world.series("s", trigger=None, scheduled_at=world.now, expires_at=world.now + HOUR)
        await world.store.override_type(WORK, {"rate_limit": {"rate": 0.5, "burst": 2}})
        claimed = await world.claimed(5)
        assert len(claimed.tasks) == 2
        assert claimed.next_due_at == world.now + 2 * SECOND
        with pytest.raises(LimitExceeded, match="burst"):
            await world.schedule("dear", cost=3)
        await world.store.override_type(WORK, {"rate_limit": None})
        assert len(await world.claim(5)) == 2

    async def test_another_rate_limit(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=0.001, burst=1))
        for key in "abc":
            await world.schedule(key)
        assert len(await world.claim(5)) == 1
        await world.store.override_type(WORK, {"rate_limit": {"rate": 1000, "burst": 5}})
        world.clock.advance("1s")
        assert len(await world.claim(5)) == 2

    async def test_a_start_limit_where_there_was_none(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.schedule(key)
        await world.series("s", trigger=None, scheduled_at=world.now, expires_at=world.now + HOUR)
        await world.store.override_type(WORK, {"start_limit": {"rate": 0.5, "burst": 2}})
        claimed = await world.claimed(5)
        assert (len(claimed.tasks), claimed.next_due_at) == (2, world.now + 2 * SECOND)
        await world.schedule("dear", cost=3)
        await world.store.override_type(WORK, {"start_limit": None})
        assert len(await world.claim(5)) == 3
