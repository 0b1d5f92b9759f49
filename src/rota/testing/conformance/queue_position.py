"""next_due_by_type and queue_position: what decides when a task runs, looked up without changing anything."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, MINUTE, SECOND
from rota.core.rank import rank
from rota.core.task import Identity, Task, TaskStatus, Transition
from rota.core.task_type import RateLimit, TaskType, TriggerMode
from rota.errors import UnknownTaskType
from rota.stores.base import QueuePosition
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestNextDueByType", "TestQueuePosition"]


class TestNextDueByType(Suite):
    async def test_the_first_due_time_of_each_type(self, world: World, work: TaskType) -> None:
        await world.type("other")
        await world.type("idle")
        assert await world.store.next_due_by_type() == {}
        await world.schedule("a", scheduled_at=world.now + HOUR, priority=9)
        await world.schedule("b", scheduled_at=world.now + MINUTE, priority=0)
        await world.schedule("c", scheduled_at=world.now + 2 * HOUR)
        await world.schedule("d", "other", scheduled_at=world.now - HOUR)
        assert await world.store.next_due_by_type() == {WORK: world.now + MINUTE, "other": world.now - HOUR}

    async def test_only_what_waits_counts(self, world: World, work: TaskType) -> None:
        await world.schedule("a")
        await world.claim_one()
        await world.schedule("b", scheduled_at=world.now + MINUTE)
        await world.apply(Transition.PAUSE, "b")
        assert await world.store.next_due_by_type() == {}

    async def test_what_is_parked_waits_too(self, world: World, work: TaskType) -> None:
        start = world.now
        await world.schedule("a", serial="s")
        await world.claim_one()
        world.clock.advance("1m")
        # The parked one with the lower rank is due later.
        await world.schedule("late", serial="s", priority=10)
        await world.schedule("early", serial="s", priority=0, scheduled_at=start + SECOND)
        assert await world.claim(5) == []
        assert {task.key: task.parked for task in await world.all_tasks()} == {"a": False, "late": True, "early": True}
        assert await world.store.next_due_by_type() == {WORK: start + SECOND}
        await world.apply(Transition.CANCEL, "early")
        assert await world.store.next_due_by_type() == {WORK: world.now}


class TestQueuePosition(Suite):
    async def _position(self, world: World, key: str = "k") -> QueuePosition:
        return await world.store.queue_position(Identity(WORK, key), now=world.now)

    async def test_of_nothing(self, world: World, work: TaskType) -> None:
        position = await self._position(world)
        assert (position.task, position.ahead, position.running, position.tokens) == (None, 0, 0, None)
        assert position.now == world.now
        assert position.record.task_type == work

    async def test_an_unknown_type_is_an_error(self, world: World, work: TaskType) -> None:
        with pytest.raises(UnknownTaskType, match=r"nothing_here.*work"):
            await world.store.queue_position(Identity("nothing_here", "k"))

    async def test_the_past_of_an_identity_without_a_task(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.run(Transition.FAIL)
        await world.apply(Transition.PURGE)
        position = await self._position(world)
        assert position.task is None
        assert (position.past.fail_count, position.past.last_exec_at) == (1, world.now)

    async def test_what_runs(self, world: World, work: TaskType) -> None:
        for key in "abc":
            await world.schedule(key, serial="s", permits=2)
        await world.schedule("d")
        await world.claim(5)
        position = await self._position(world, "c")
        assert (position.running, position.serial_running) == (3, 2)
        assert position.task is not None
        assert position.task.parked
        assert (await self._position(world, "d")).serial_running == 0

    async def test_nothing_is_changed(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=1, burst=5))
        await world.schedule("k")
        before = await world.task("k")
        assert [await self._position(world) for _ in range(2)] == [await self._position(world)] * 2
        assert await world.task("k") == before
        assert (await world.claim_one()).key == "k"

    async def test_the_bucket_as_it_is_now(self, world: World) -> None:
        await world.type(rate_limit=RateLimit(rate=0.5, burst=5))
        assert (await self._position(world)).tokens == 5
        for key in "abc":
            await world.schedule(key)
        await world.claim(3)
        assert (await self._position(world)).tokens == pytest.approx(2)
        world.clock.advance("2s")
        assert (await self._position(world)).tokens == pytest.approx(3)

    async def test_both_buckets_and_what_they_owe(self, world: World) -> None:
        await world.type(start_limit=RateLimit(rate=1, burst=3))
        position = await self._position(world)
        assert (position.tokens, position.start_tokens) == (None, 3)
        await world.type(rate_limit=RateLimit(rate=0.5, burst=5), start_limit=RateLimit(rate=1, burst=3))
        await world.schedule("a", cost=2)
        await world.claim(1)
        await world.store.take("type:work", 7, rate=0.5, burst=5, owe=True, now=world.now)
        position = await self._position(world)
        assert (position.tokens, position.start_tokens) == (pytest.approx(-4), pytest.approx(2))

    async def test_what_has_arrived(self, world: World) -> None:
        for name in ("first", "second"):
            await world.type(name)
        await world.type(trigger_mode=TriggerMode.AFTER, after=("first", "second"))
        await world.schedule("k", "second")
        await world.run(task_type="second")
        await world.pump()
        position = await self._position(world)
        assert (position.task, position.arrived) == (None, ("second",))

    @pytest.mark.parametrize("aging_ms", [30 * SECOND, 0])
    async def test_those_before_it_by_rank(self, world: World, aging_ms: int) -> None:
        """Counted as `core/rank.py` sorts them, with every tie there is."""
        await world.type(aging_ms=aging_ms)
        start = world.now
        for priority in (0, 4, 5, 6, 10):
            for late in (0, 0, 30, 60, 61):
                key = f"{'zayb'[late % 4]}{priority}{late}{len(await world.all_tasks())}"
                await world.schedule(key, priority=priority, scheduled_at=start + late * SECOND)
        world.clock.advance("60s")
        tasks = await world.all_tasks(limit=1_000)
        due = [task for task in tasks if task.scheduled_at <= world.now]
        for task in tasks:
            before = sum(rank(other, aging_ms) < rank(task, aging_ms) for other in due)
            assert (await self._position(world, task.key)).ahead == before, task

    async def test_of_those_parked_only_its_own_serial_counts(self, world: World, work: TaskType) -> None:
        for serial in ("s", "t"):
            await world.schedule(f"holder-{serial}", serial=serial)
        assert len(await world.claim(5)) == 2
        for key in ("s1", "s2", "t1", "s3"):
            world.clock.advance("1s")
            await world.schedule(key, serial=key[0])
        assert await world.claim(10) == []
        parked = await world.all_tasks(status=TaskStatus.PENDING)
        assert all(task.parked for task in parked)
        assert {task.key: await self._ahead(world, task) for task in parked} == {"s1": 0, "s2": 1, "s3": 2, "t1": 0}
        await world.schedule("free", scheduled_at=world.now - HOUR)
        assert await self._ahead(world, await world.there("s3")) == 3
        assert await self._ahead(world, await world.there("free")) == 0

    async def _ahead(self, world: World, task: Task) -> int:
        return (await self._position(world, task.key)).ahead
