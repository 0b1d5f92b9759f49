"""find and runs in another order: sorted, in a time range, in pages, and honest about what was looked at."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.clock import HOUR, MINUTE, SECOND
from rota.core.task import NewTask, RunRecord, RunStatus, Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidInput
from rota.stores.base import RunQuery, RunSort, TaskQuery, TaskSort
from rota.testing.conformance.find import look_at_few
from rota.testing.conformance.world import WORK, Suite, World, hourly

__all__ = ["TestSortedRuns", "TestSortedTasks", "TestTimeRange"]


async def _all(world: World, query: TaskQuery) -> list[Task]:
    """All pages, one after the other."""
    found: list[Task] = []
    while True:
        page = await world.store.find(query)
        found += page.items
        if page.cursor is None:
            return found
        query = replace(query, cursor=page.cursor)


def _expected(tasks: list[Task], sort: TaskSort) -> list[str]:
    def value(task: Task) -> int:
        number: int = getattr(task, sort.field)
        return -number if sort.is_descending else number

    return [task.key for task in sorted(tasks, key=lambda task: (value(task), task.identity))]


class TestSortedTasks(Suite):
    async def _some(self, world: World) -> list[Task]:
        """Tasks in every state, changed and due at different times."""
        await world.type("other")
        for number in range(12):
            world.clock.advance("1m")
            at = world.now + (number * 7 % 12) * MINUTE
            task_type = "other" if number % 3 == 0 else WORK
            new = NewTask(task_type=task_type, key=f"k{number:02}", user_id=f"u{number % 2}", scheduled_at=at)
            await world.store.schedule([replace(new, owner="o" if number < 8 else None)], now=world.now)
        await world.created("series", trigger=hourly(world.now))
        world.clock.advance("1h")
        await world.run()
        await world.run(Transition.FAIL)
        await world.run(Transition.RETRY)
        await world.apply(Transition.CANCEL, "k11")
        world.clock.advance("1m")
        await world.apply(Transition.PAUSE, "k10")
        await world.claim(2)
        return await world.all_tasks(None)

    @pytest.mark.parametrize("sort", [sort for sort in TaskSort if sort is not TaskSort.KEY])
    async def test_pages_of_every_order(self, world: World, work: TaskType, sort: TaskSort) -> None:
        everything = await self._some(world)
        assert len({task.status for task in everything}) == len(TaskStatus)
        for limit in (1, 5, 50):
            found = await _all(world, TaskQuery(sort=sort, limit=limit))
            assert [task.key for task in found] == _expected(everything, sort)
        assert sorted(found, key=lambda task: task.identity) == everything

    async def test_an_order_goes_with_every_filter(self, world: World, work: TaskType) -> None:
        everything = await self._some(world)
        for sort in (TaskSort.NEWEST, TaskSort.SOONEST):

            async def keys(sort: TaskSort = sort, **query: object) -> list[str]:
                asked = replace(TaskQuery(sort=sort, limit=3), **query)
                return [task.key for task in await _all(world, asked)]

            for status in TaskStatus:
                matching = [task for task in everything if task.status is status]
                assert await keys(status=status) == _expected(matching, sort)
                of_type = [task for task in matching if task.task_type == WORK]
                assert await keys(status=status, task_type=WORK) == _expected(of_type, sort)
                others = [task for task in everything if task.status is not status]
                assert await keys(without=status) == _expected(others, sort)
            of_user = [task for task in everything if task.user_id == "u1"]
            assert await keys(user_id="u1") == _expected(of_user, sort)
            assert await keys(owner="o") == _expected([task for task in everything if task.owner == "o"], sort)
            assert await keys(search="k0") == _expected([task for task in everything if "k0" in task.key], sort)
            assert await keys(schedules=True) == ["series"]

    async def test_a_page_goes_on_where_the_last_one_ended(self, world: World, work: TaskType) -> None:
        """Whatever changes meanwhile, no task that stays as it is comes twice or never."""
        for number in range(6):
            world.clock.advance("1m")
            await world.schedule(f"k{number}")
        query = TaskQuery(task_type=WORK, sort=TaskSort.NEWEST, limit=2)
        first = await world.store.find(query)
        assert [task.key for task in first.items] == ["k5", "k4"]
        await world.apply(Transition.CANCEL, "k4")
        await world.apply(Transition.PURGE, "k4")
        world.clock.advance("1m")
        await world.schedule("k9")
        second = await world.store.find(replace(query, cursor=first.cursor))
        assert [task.key for task in second.items] == ["k3", "k2"]

    async def test_an_order_of_a_part_says_so(
        self, world: World, work: TaskType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(12):
            world.clock.advance("1m")
            await world.schedule(f"k{number:02}", user_id="u1")
        page = await world.store.find(TaskQuery(sort=TaskSort.NEWEST))
        assert (len(page.items), page.looked_at) == (12, None)
        look_at_few(monkeypatch, 8, filtered=3)
        for query in (TaskQuery(sort=TaskSort.NEWEST), TaskQuery(sort=TaskSort.SOONEST, status=TaskStatus.PENDING)):
            page = await world.store.find(query)
            assert page.looked_at is None or len(page.items) <= page.looked_at <= 8
            assert len(page.items) == (12 if page.looked_at is None else 8)
            assert [task.key for task in page.items] == _expected(page.items, query.sort)
        soonest = await world.store.find(TaskQuery(sort=TaskSort.SOONEST, status=TaskStatus.PENDING, limit=3))
        assert [task.key for task in soonest.items] == ["k00", "k01", "k02"]
        few = await world.store.find(TaskQuery(sort=TaskSort.NEWEST, status=TaskStatus.RUNNING))
        assert few == ([], None, None)

    async def test_a_cursor_of_another_order_is_refused(self, world: World, work: TaskType) -> None:
        for number in range(3):
            await world.schedule(f"k{number}")
        page = await world.store.find(TaskQuery(limit=1))
        with pytest.raises(InvalidInput, match="none of this order"):
            await world.store.find(TaskQuery(sort=TaskSort.NEWEST, cursor=page.cursor))


class TestSortedRuns(Suite):
    async def _some(self, world: World) -> list[RunRecord]:
        await world.type("other")
        for number in range(10):
            world.clock.advance("10m")
            task_type = "other" if number % 4 == 0 else WORK
            await world.schedule(f"k{number}", task_type, user_id=f"u{number % 2}")
            (task,) = await world.claim(1, [task_type])
            took_ms = SECOND * (1 + number * 3 % 7)
            world.clock.advance(f"{took_ms}ms")
            how = Transition.FAIL if number == 3 else Transition.COMPLETE
            await world.settle(task, how, duration_ms=took_ms)
        return await world.all_runs(RunQuery())

    @pytest.mark.parametrize("sort", [sort for sort in RunSort if sort is not RunSort.NEWEST])
    async def test_pages_of_every_order(self, world: World, work: TaskType, sort: RunSort) -> None:
        everything = await self._some(world)
        assert len({run.duration_ms for run in everything}) > 3

        def value(run: RunRecord) -> int:
            number: int = getattr(run, sort.field)
            return -number if sort.is_descending else number

        expected = [run.run_id for run in sorted(everything, key=value)]
        for limit in (1, 4, 50):
            found = await world.all_runs(RunQuery(sort=sort, limit=limit))
            assert [run.run_id for run in found] == expected
        of_user = await world.all_runs(RunQuery(sort=sort, user_id="u1", limit=2))
        assert [run.run_id for run in of_user] == [
            run.run_id for run in sorted(everything, key=value) if run.user_id == "u1"
        ]

    async def test_the_newest_are_sorted_and_it_is_said(
        self, world: World, work: TaskType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        everything = await self._some(world)
        look_at_few(monkeypatch, 4, filtered=2)
        page = await world.store.runs(RunQuery(sort=RunSort.LONGEST))
        if page.looked_at is not None:
            assert len(page.items) <= page.looked_at == 4
            everything = everything[: len(page.items)]
        assert {run.run_id for run in page.items} == {run.run_id for run in everything}
        assert [run.duration_ms for run in page.items] == sorted((run.duration_ms for run in everything), reverse=True)

    async def test_a_cursor_that_is_none_is_refused(self, world: World) -> None:
        with pytest.raises(InvalidInput):
            await world.store.runs(RunQuery(sort=RunSort.LONGEST, cursor="nonsense"))


class TestTimeRange(Suite):
    async def test_runs_that_ended_within_it(self, world: World, work: TaskType) -> None:
        ended: list[int] = []
        for number in range(8):
            world.clock.advance("1h")
            await world.schedule(f"k{number}")
            (task,) = await world.claim()
            world.clock.advance("2s")
            how = Transition.FAIL if number == 5 else Transition.COMPLETE
            await world.settle(task, how, duration_ms=2_000)
            ended.append(world.now)

        async def keys(**query: object) -> list[str]:
            return [run.key for run in await world.all_runs(replace(RunQuery(limit=2), **query))]

        assert await keys(since_at=ended[5]) == ["k7", "k6", "k5"]
        assert await keys(until_at=ended[2]) == ["k1", "k0"]
        assert await keys(since_at=ended[2], until_at=ended[4]) == ["k3", "k2"]
        assert await keys(since_at=ended[7] + 1) == []
        assert await keys(until_at=ended[0]) == []
        assert await keys(since_at=ended[0] - 100 * HOUR) == [f"k{number}" for number in reversed(range(8))]
        assert await keys(since_at=ended[3], status=RunStatus.ERROR) == ["k5"]
        assert await keys(since_at=ended[3], key="k4", task_type=WORK) == ["k4"]
        longest = await keys(since_at=ended[6], sort=RunSort.LONGEST)
        assert sorted(longest) == ["k6", "k7"]

    async def test_a_range_does_not_look_at_what_lies_outside(
        self, world: World, work: TaskType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the log has a thousand times as much behind or before it, one look is enough."""
        ended: list[int] = []
        for number in range(20):
            world.clock.advance("1h")
            await world.schedule(f"k{number:02}")
            await world.run()
            ended.append(world.now)
        look_at_few(monkeypatch, 8, filtered=4)
        page = await world.store.runs(RunQuery(since_at=ended[4], until_at=ended[7]))
        assert [run.key for run in page.items] == ["k06", "k05", "k04"]
        assert page.cursor is None

    async def test_tasks_that_changed_within_it(self, world: World, work: TaskType) -> None:
        changed: list[int] = []
        for number in range(6):
            world.clock.advance("1h")
            await world.schedule(f"k{number}", user_id="u1")
            changed.append(world.now)
        await world.apply(Transition.PAUSE, "k2")

        async def keys(**query: object) -> list[str]:
            asked = replace(TaskQuery(task_type=WORK, limit=2), **query)
            return [task.key for task in await _all(world, asked)]

        for sort in TaskSort:
            assert sorted(await keys(since_at=changed[4], sort=sort)) == ["k2", "k4", "k5"]
            assert sorted(await keys(until_at=changed[4], sort=sort)) == ["k0", "k1", "k3"]
            assert await keys(since_at=changed[3], until_at=changed[4], sort=sort) == ["k3"]
            assert await keys(since_at=changed[5] + 1, sort=sort) == []
            assert await keys(since_at=changed[5], status=TaskStatus.PAUSED, sort=sort) == ["k2"]
            assert await keys(since_at=changed[3], until_at=changed[4], user_id="u1", sort=sort) == ["k3"]
