"""rank: priority that ages. rank = scheduled_at - priority x aging; the lowest runs first."""

from __future__ import annotations

from rota.clock import MINUTE, SECOND
from rota.core.task import NewTask
from rota.core.task_type import TaskType
from rota.testing.conformance.world import WORK, Suite, World

__all__ = ["TestRank"]


class TestRank(Suite):
    async def test_the_higher_priority_goes_first(self, world: World, work: TaskType) -> None:
        for key, priority in (("low", 0), ("high", 10), ("normal", 5)):
            await world.schedule(key, priority=priority)
        assert [task.key for task in await world.claim(3)] == ["high", "normal", "low"]

    async def test_one_level_is_worth_thirty_seconds_of_waiting(self, world: World, work: TaskType) -> None:
        await world.schedule("old", priority=4, scheduled_at=world.now - 31 * SECOND)
        await world.schedule("new", priority=5)
        await world.schedule("young", priority=4, scheduled_at=world.now - 29 * SECOND)
        assert [task.key for task in await world.claim(3)] == ["old", "new", "young"]

    async def test_ties_go_to_the_earlier_then_to_the_key(self, world: World, work: TaskType) -> None:
        await world.schedule("z", priority=4, scheduled_at=world.now - 30 * SECOND)
        await world.schedule("b", priority=5)
        await world.schedule("a", priority=5)
        assert [task.key for task in await world.claim(3)] == ["z", "a", "b"]

    async def test_the_type_says_what_a_level_is_worth(self, world: World) -> None:
        await world.type(aging_ms=0)
        await world.schedule("first", priority=0, scheduled_at=world.now - 1)
        await world.schedule("second", priority=10)
        assert [task.key for task in await world.claim(2)] == ["first", "second"]

    async def test_what_is_not_due_does_not_count_however_high(self, world: World, work: TaskType) -> None:
        await world.schedule("later", priority=10, scheduled_at=world.now + 1)
        await world.schedule("now", priority=0)
        assert [task.key for task in await world.claim(1)] == ["now"]

    async def test_nothing_waits_longer_than_ten_levels(self, world: World, work: TaskType) -> None:
        """A steady stream of the highest priority, one slot: the lowest runs after ten levels, five minutes."""
        await world.schedule("patient", priority=0)
        waited = 0
        for number in range(100):
            await world.schedule(f"rush{number:03}", priority=10)
            task = await world.claim_one()
            await world.settle(task)
            if task.key == "patient":
                break
            world.clock.advance("10s")
            waited += 10 * SECOND
        assert waited <= 10 * 30 * SECOND + 10 * SECOND

    async def test_many_lanes_merge_exactly(self, world: World, work: TaskType) -> None:
        news = [
            NewTask(
                task_type=WORK,
                key=f"k{number:03}",
                priority=number * 7 % 11,
                scheduled_at=world.now - number * 13_577 % (5 * MINUTE),
            )
            for number in range(100)
        ]
        await world.store.schedule(news, now=world.now)
        expected = sorted(
            news,
            key=lambda new: ((new.scheduled_at or 0) - (new.priority or 0) * 30 * SECOND, new.scheduled_at, new.key),
        )
        claimed: list[str] = []
        while tasks := await world.claim(7):
            claimed += [task.key for task in tasks]
        assert claimed == [new.key for new in expected]
