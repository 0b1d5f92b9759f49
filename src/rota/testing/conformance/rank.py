"""rank: priority that ages. rank = scheduled_at - priority x aging; the lowest runs first."""

from __future__ import annotations

from collections import Counter

from rota.clock import HOUR, MINUTE, SECOND, Millis
from rota.core.task import NewTask, Task, TaskStatus, Transition
from rota.core.task_type import RateLimit, TaskType
from rota.testing.conformance.world import WORK, Suite, World, hourly

__all__ = ["TestRank", "TestRankBetweenTypes"]

HIGH, LOW, OTHER = "high", "low", "other"


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


class TestRankBetweenTypes(Suite):
    """One limit for several types: the best rank of all says which priority is served; equals take turns."""

    async def test_the_higher_priority_goes_first_whatever_the_order(self, world: World) -> None:
        await pair(world)
        for number in range(3):
            await world.schedule(f"l{number}", LOW)
            await world.schedule(f"h{number}", HIGH)
        for order in ((LOW, HIGH), (HIGH, LOW), (LOW, HIGH)):
            (task,) = (await world.claimed(3, order, in_all=1)).tasks
            assert task.task_type == HIGH
        assert len((await world.claimed(3, (LOW, HIGH), in_all=3)).tasks) == 3

    async def test_who_has_waited_its_levels_goes_first(self, world: World) -> None:
        """Eight levels of 30 s: four minutes."""
        await pair(world)
        await world.schedule("new", HIGH)
        await world.schedule("old", LOW, scheduled_at=world.now - 4 * MINUTE - 1)
        await world.schedule("young", LOW, scheduled_at=world.now - 4 * MINUTE + 1)
        order = [(await world.claimed(3, (HIGH, LOW), in_all=1)).tasks[0].key for _ in range(3)]
        assert order == ["old", "new", "young"]

    async def test_each_type_says_what_its_levels_are_worth(self, world: World) -> None:
        await world.type(HIGH, priority=9, aging_ms=0)
        await world.type(LOW, priority=1, aging_ms=MINUTE)
        await world.schedule("h", HIGH, scheduled_at=world.now - 59 * SECOND)
        await world.schedule("l", LOW)
        assert keys(await take(world, 1, HIGH, LOW)) == ["l"]

    async def test_the_priority_of_a_task_counts_not_only_that_of_its_type(self, world: World) -> None:
        await pair(world)
        await world.schedule("h", HIGH)
        await world.schedule("urgent", LOW, priority=10)
        assert keys(await take(world, 1, HIGH, LOW)) == ["urgent"]

    async def test_a_long_queue_does_not_starve_a_type_of_equal_priority(self, world: World, work: TaskType) -> None:
        await world.type(OTHER)
        await many(world, WORK, 40, late=HOUR)
        await many(world, OTHER, 3, late=SECOND)
        assert tally(await take(world, 6, WORK, OTHER)) == {WORK: 3, OTHER: 3}
        assert tally(await take(world, 6, WORK, OTHER)) == {WORK: 6}

    async def test_equals_of_different_aging_take_turns_all_the_same(self, world: World, work: TaskType) -> None:
        await world.type(OTHER, aging_ms=HOUR)
        await many(world, WORK, 4)
        await many(world, OTHER, 4)
        assert tally(await take(world, 4, WORK, OTHER)) == {WORK: 2, OTHER: 2}

    async def test_among_equals_the_order_given_says_whose_turn_it_is(self, world: World, work: TaskType) -> None:
        await world.type(OTHER)
        await many(world, WORK, 9, late=HOUR)
        await many(world, OTHER, 9)
        assert tally(await take(world, 1, OTHER, WORK)) == {OTHER: 1}
        assert tally(await take(world, 3, WORK, OTHER)) == {WORK: 2, OTHER: 1}

    async def test_among_equals_whoever_runs_the_fewest_goes_first(self, world: World, work: TaskType) -> None:
        await world.type(OTHER)
        await many(world, WORK, 9)
        await many(world, OTHER, 9)
        claimed = await world.claimed(9, (WORK, OTHER), in_all=5, running={WORK: 3})
        assert tally(claimed.tasks) == {WORK: 1, OTHER: 4}

    async def test_a_type_starts_its_own_beyond_the_limit(self, world: World) -> None:
        await pair(world)
        await many(world, HIGH, 9)
        await many(world, LOW, 9)
        claimed = await world.claimed(9, (HIGH, LOW), in_all=3, own={LOW})
        assert tally(claimed.tasks) == {HIGH: 3, LOW: 1}
        assert tally((await world.claimed(9, (HIGH, LOW), in_all=0, own={LOW})).tasks) == {LOW: 1}
        assert (await world.claimed(9, (HIGH, LOW), in_all=0)).tasks == []

    async def test_no_type_gets_more_than_it_wants(self, world: World) -> None:
        await pair(world)
        await many(world, HIGH, 9)
        await many(world, LOW, 9)
        assert tally((await world.claimed(2, (HIGH, LOW), in_all=3)).tasks) == {HIGH: 2, LOW: 1}

    async def test_they_come_type_by_type_in_rank_order(self, world: World) -> None:
        await pair(world)
        for number, key in enumerate("ba"):
            await world.schedule(key, LOW, scheduled_at=world.now - 10 + number)
            await world.schedule(key, HIGH, scheduled_at=world.now - 10 + number)
        found = await take(world, 3, LOW, HIGH)
        assert [task.identity for task in found] == [(LOW, "b"), (HIGH, "b"), (HIGH, "a")]

    async def test_a_busy_serial_leaves_its_place_to_the_next_in_rank(self, world: World) -> None:
        await pair(world)
        for key in ("h0", "h1", "h2"):
            await world.schedule(key, HIGH, serial="s")
        await many(world, LOW, 3)
        assert tally(await take(world, 2, HIGH, LOW)) == {HIGH: 1, LOW: 1}
        assert (await world.there("h1", HIGH)).parked

    async def test_a_spent_rate_leaves_its_place_to_the_next_in_rank(self, world: World) -> None:
        await world.type(HIGH, priority=9, rate_limit=RateLimit(rate=0.1, burst=1))
        await world.type(LOW, priority=1)
        await many(world, HIGH, 3)
        await many(world, LOW, 3)
        claimed = await world.claimed(4, (HIGH, LOW), in_all=5)
        assert tally(claimed.tasks) == {HIGH: 1, LOW: 3}
        assert claimed.next_due_at == world.now + 10 * SECOND

    async def test_what_recurs_and_what_does_not_are_one_order(self, world: World) -> None:
        await pair(world)
        await world.schedule("series", LOW, trigger=hourly(world.now))
        world.clock.advance("1h")
        await world.schedule("h", HIGH)
        await world.schedule("late", HIGH, scheduled_at=world.now - 5 * MINUTE, expires_at=world.now + HOUR)
        order = [keys(await take(world, 1, LOW, HIGH))[0] for _ in range(3)]
        assert order == ["late", "h", "series"]

    async def test_excluded_ones_leave_their_place(self, world: World) -> None:
        await pair(world)
        made = await world.created("h", HIGH)
        await world.schedule("l", LOW)
        claimed = await world.claimed(1, (HIGH, LOW), in_all=1, exclude=frozenset({made.identity}))
        assert keys(claimed.tasks) == ["l"]
        assert await world.status("h", HIGH) is TaskStatus.PENDING

    async def test_a_type_that_is_off_is_in_nobodys_way(self, world: World) -> None:
        await pair(world)
        await world.schedule("h", HIGH)
        await world.schedule("l", LOW)
        await world.store.override_type(HIGH, {"frozen": True})
        assert keys(await take(world, 1, HIGH, "unknown", LOW)) == ["l"]

    async def test_it_says_when_to_ask_again(self, world: World) -> None:
        await pair(world)
        await world.schedule("h", HIGH)
        await world.schedule("l", LOW, scheduled_at=world.now + HOUR)
        assert (await world.claimed(2, (HIGH, LOW), in_all=2)).next_due_at == world.now + HOUR
        await world.schedule("l2", LOW)
        await world.schedule("h2", HIGH)
        assert (await world.claimed(2, (HIGH, LOW), in_all=1)).next_due_at == world.now, "one is due that found no room"

    async def test_it_names_who_has_nothing_to_start_and_not_who_was_outranked(self, world: World) -> None:
        await pair(world)
        await world.type(OTHER)
        await world.schedule("h", HIGH)
        await world.schedule("l", LOW)
        await world.schedule("o", OTHER, scheduled_at=world.now + 1)
        types = (OTHER, LOW, HIGH, "unknown")
        idle = [(await world.claimed(9, types, in_all=in_all)).idle for in_all in (1, 1, 9)]
        assert idle == [{OTHER, "unknown"}, {OTHER, HIGH, "unknown"}, set(types)]
        assert (await world.claimed(9, types, in_all=0)).idle == set(), "nobody was asked"

    async def test_nothing_of_a_lower_type_waits_longer_than_its_levels(self, world: World) -> None:
        """A steady stream of the higher type, one slot: the other runs after eight levels, four minutes."""
        await pair(world)
        await world.schedule("patient", LOW)
        waited = 0
        for number in range(100):
            await world.schedule(f"rush{number:03}", HIGH)
            (task,) = await take(world, 1, LOW, HIGH)
            await world.settle(task, Transition.COMPLETE)
            if task.key == "patient":
                break
            world.clock.advance("10s")
            waited += 10 * SECOND
        assert 4 * MINUTE - 10 * SECOND <= waited <= 4 * MINUTE + 10 * SECOND
        await world.check_counts(LOW)


async def pair(world: World) -> None:
    await world.type(HIGH, priority=9)
    await world.type(LOW, priority=1)


async def many(world: World, name: str, number: int, *, late: Millis = 0) -> None:
    due_at = world.now - late
    news = [NewTask(task_type=name, key=f"{each:03}", scheduled_at=due_at) for each in range(number)]
    await world.store.schedule(news, now=world.now)


async def take(world: World, in_all: int, *types: str) -> list[Task]:
    return (await world.claimed(in_all, types, in_all=in_all)).tasks


def keys(tasks: list[Task]) -> list[str]:
    return [task.key for task in tasks]


def tally(tasks: list[Task]) -> dict[str, int]:
    return dict(Counter(task.task_type for task in tasks))
