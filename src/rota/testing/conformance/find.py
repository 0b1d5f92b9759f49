"""find and runs: keyset pages, complete and stable while others insert."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.core.task import Identity, NewTask, RunRecord, RunStatus, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.errors import LimitExceeded
from rota.keys import GLOBAL_KEY
from rota.stores.base import MAX_PAGE, RunQuery, TaskQuery
from rota.testing.conformance.world import WORK, Suite, World, hourly

__all__ = ["TestFind", "TestKeys", "TestRuns"]


class TestFind(Suite):
    async def _make(self, world: World, count: int) -> list[str]:
        news = [NewTask(task_type=WORK, key=f"k{number:03}") for number in range(count)]
        await world.store.schedule(news, now=world.now)
        return [new.key for new in news]

    async def test_pages_in_order_of_type_and_key(self, world: World, work: TaskType) -> None:
        await world.type("another")
        keys = await self._make(world, 25)
        await world.schedule("zzz", "another")
        found = await world.all_tasks(None, limit=10)
        assert [task.identity for task in found] == [
            Identity("another", "zzz"),
            *(Identity(WORK, key) for key in keys),
        ]

    async def test_the_last_page_has_no_cursor(self, world: World, work: TaskType) -> None:
        await self._make(world, 10)
        assert (await world.store.find(TaskQuery(task_type=WORK, limit=10))).cursor is None
        assert (await world.store.find(TaskQuery(task_type=WORK, limit=9))).cursor is not None
        assert await world.store.find(TaskQuery(task_type="another")) == ([], None, None)

    async def test_many_queries_are_answered_as_each_by_itself(self, world: World, work: TaskType) -> None:
        await self._make(world, 5)
        of_ann = NewTask(task_type=WORK, key="x1", owner="ann")
        of_bob = NewTask(task_type=WORK, key="x2", owner="bob", trigger=hourly(world.now))
        await world.store.schedule([of_ann, of_bob], now=world.now)
        asked = [
            TaskQuery(task_type=WORK, owner="bob"),
            TaskQuery(task_type=WORK, limit=3),
            TaskQuery(owner="nobody"),
            TaskQuery(task_type=WORK, owner="ann", schedules=True),
            TaskQuery(task_type=WORK, limit=3, cursor=str(Identity(WORK, "k002"))),
        ]
        pages = await world.store.find_many(asked)
        assert pages == [await world.store.find(query) for query in asked]
        assert [[task.key for task in page.items] for page in pages] == [
            ["x2"],
            ["k000", "k001", "k002"],
            [],
            [],
            ["k003", "k004", "x1"],
        ]
        assert await world.store.find_many([]) == []

    async def test_pages_are_stable_while_others_insert(self, world: World, work: TaskType) -> None:
        keys = await self._make(world, 30)
        query = TaskQuery(task_type=WORK, limit=7)
        seen: list[str] = []
        number = 0
        while True:
            page = await world.store.find(query)
            seen += [task.key for task in page.items]
            for place in ("a", "k000x", "k014x", "z"):
                number += 1
                await world.schedule(f"{place}{number}")
            if page.cursor is None or len(seen) > 200:
                break
            query = replace(query, cursor=page.cursor)
        assert len(set(seen)) == len(seen)
        assert set(keys) <= set(seen)

    async def test_a_cursor_outlives_the_task_it_names(self, world: World, work: TaskType) -> None:
        keys = await self._make(world, 6)
        page = await world.store.find(TaskQuery(task_type=WORK, limit=3))
        await world.apply(Transition.CANCEL, keys[2])
        await world.apply(Transition.PURGE, keys[2])
        rest = await world.store.find(TaskQuery(task_type=WORK, limit=3, cursor=page.cursor))
        assert [task.key for task in rest.items] == keys[3:]

    async def test_filters(self, world: World, work: TaskType) -> None:
        await world.schedule("a", user_id="u1", owner="g1")
        await world.schedule("b", user_id="u2", owner="g1")
        await world.schedule("c", user_id="u1", owner="g2")
        await world.apply(Transition.PAUSE, "c")

        async def keys(**query: object) -> list[str]:
            asked = replace(TaskQuery(task_type=WORK), **query)
            return [task.key for task in (await world.store.find(asked)).items]

        assert await keys(user_id="u1") == ["a", "c"]
        assert await keys(owner="g1") == ["a", "b"]
        assert await keys(status=TaskStatus.PAUSED) == ["c"]
        assert await keys(user_id="u1", status=TaskStatus.PENDING) == ["a"]
        assert await keys(owner="g3") == []

    @pytest.mark.parametrize("limit", [0, -1, MAX_PAGE + 1])
    async def test_a_page_has_a_limit(self, world: World, limit: int) -> None:
        with pytest.raises(LimitExceeded):
            await world.store.find(TaskQuery(limit=limit))
        with pytest.raises(LimitExceeded):
            await world.store.runs(RunQuery(limit=limit))

    async def test_search_and_without(self, world: World, work: TaskType) -> None:
        for key, user_id in (("alpha", None), ("Beta", "u%1"), ("be_ta", "alphabet"), ("100%", "日本")):
            await world.schedule(key, user_id=user_id)
        await world.apply(Transition.CANCEL, "alpha")

        async def keys(**query: object) -> list[str]:
            return sorted(task.key for task in await world.all_tasks(WORK, 2, **query))

        assert await keys(search="alpha") == ["alpha", "be_ta"]
        assert await keys(search="eta") == ["Beta"]
        assert await keys(search="beta") == []
        assert await keys(search="%") == ["100%", "Beta"]
        assert await keys(search="_") == ["be_ta"]
        assert await keys(search="本") == ["100%"]
        assert await keys(search="*") == await keys(search="'") == []
        assert await keys(search="a", without=TaskStatus.CANCELLED) == ["Beta", "be_ta"]
        assert await keys(without=TaskStatus.PENDING) == ["alpha"]
        assert await keys(search="alpha", status=TaskStatus.PENDING) == ["be_ta"]

    async def test_every_owned_task_is_found_whatever_its_state(self, world: World, work: TaskType) -> None:
        for key in "abcd":
            await world.schedule(key, owner="g1")
        await world.series("s", owner="g1")
        await world.schedule("other", owner="g11")
        await world.run()
        await world.run(Transition.FAIL)
        await world.apply(Transition.CANCEL, "c")
        assert [task.key for task in await world.all_tasks(owner="g1", limit=2)] == ["a", "b", "c", "d", "s"]
        assert [task.key for task in await world.all_tasks(owner="g1", schedules=True)] == ["s"]
        # A finished one that is made again belongs to whoever made it.
        await world.schedule("a", owner="g11")
        await world.schedule("b")
        await world.apply(Transition.CANCEL, "s")
        await world.schedule("s", owner="g1")
        assert [task.key for task in await world.all_tasks(owner="g1")] == ["c", "d", "s"]
        assert [task.key for task in await world.all_tasks(owner="g11")] == ["a", "other"]
        assert await world.all_tasks(schedules=True) == []

    async def test_a_page_looks_at_so_many_and_no_more(
        self, world: World, work: TaskType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However few match, the pages together hold all that do, once and in order."""
        look_at_few(monkeypatch, 7, filtered=3)
        await world.type("other")
        for number in range(30):
            await world.schedule(f"{number:02}", "other" if number % 4 else WORK, user_id=f"u{number}", owner="o")
        await world.run()
        await world.apply(Transition.CANCEL, "13", "other")
        everything = await world.all_tasks(None, limit=1_000)
        assert len(everything) == 30
        for limit in (1, 5, 50):
            rare = await world.all_tasks(None, limit=limit, search="u29")
            assert [task.key for task in rare] == ["29"]
            pending = await world.all_tasks(None, limit=limit, status=TaskStatus.PENDING, owner="o")
            assert pending == [task for task in everything if task.status is TaskStatus.PENDING]
            assert await world.all_tasks(None, limit=limit, status=TaskStatus.PENDING) == pending
            assert await world.all_tasks(None, limit=limit) == everything
            assert await world.all_tasks(None, limit=limit, owner="o") == everything
        page = await world.store.find(TaskQuery(search="nothing like it"))
        assert page.items == []

    async def test_get_answers_in_order(self, world: World, work: TaskType) -> None:
        made = {key: await world.created(key) for key in "ab"}
        asked = [Identity(WORK, "b"), Identity(WORK, "x"), Identity(WORK, "a"), Identity("unknown", "a")]
        assert await world.store.get(asked) == [made["b"], None, made["a"], None]
        assert await world.store.get([]) == []


def look_at_few(monkeypatch: pytest.MonkeyPatch, most: int, *, filtered: int) -> None:
    """A page of any store that filters looks at so many tasks or runs at the most."""
    for module in ("sql", "redis"):
        monkeypatch.setattr(f"rota.stores.{module}.queries.LOOKED_AT", most)
        monkeypatch.setattr(f"rota.stores.{module}.sorted_pages.LOOKED_AT", most)
    monkeypatch.setattr("rota.stores.redis.queries.FILTERED", filtered)


class TestKeys(Suite):
    KEYS = (
        "a:b:c",
        "a%3Ab",
        "100%",
        "%global",
        "a/b",
        "/",
        "a\\b",
        "'; DROP TABLE scheduled_tasks; --",
        'quote"s',
        "_%_",
        " spaces around ",
        "tab\tnewline\n",
        "é",
        "e\u0301",
        "日本語",
        "😀" * 60,
        "x" * 255,
        "%3A" * 85 + ":" + "ü" * 255,
        "A",
        "a",
    )

    async def test_every_key_is_kept_apart_and_given_back(self, world: World, work: TaskType) -> None:
        for key in self.KEYS:
            await world.schedule(key, payload=key, user_id=key[:255])
        found = await world.all_tasks(limit=3)
        assert sorted(task.key for task in found) == sorted(self.KEYS)
        assert all(task.payload == task.key and task.user_id == task.key[:255] for task in found)

    async def test_the_order_is_the_same_everywhere(self, world: World, work: TaskType) -> None:
        """By code point, not by the rules of some language: a cursor must mean the same to every store."""
        for key in self.KEYS:
            await world.schedule(key)
        assert [task.key for task in await world.all_tasks(limit=4)] == sorted(self.KEYS)
        assert [task.key for task in await world.claim(50)] == sorted(self.KEYS)

    async def test_every_key_can_run(self, world: World, work: TaskType) -> None:
        for key in self.KEYS:
            await world.schedule(key)
            task = await world.run()
            assert (task.key, task.status) == (key, TaskStatus.COMPLETED)
            (run,) = await world.runs(key)
            assert run.key == key

    async def test_schedules_alone(self, world: World, work: TaskType) -> None:
        """A schedule has a trigger of its own; the global task of a periodic type is none."""
        await world.schedule("plain")
        await world.series("weekly")
        await world.series(GLOBAL_KEY)
        page = await world.store.find(TaskQuery(schedules=True))
        assert [task.key for task in page.items] == ["weekly"]


class TestRuns(Suite):
    async def _runs(self, world: World, count: int) -> None:
        await world.created("k", trigger=hourly(world.now), user_id="u1")
        for _ in range(count):
            world.clock.advance("1h")
            await world.run()

    async def test_newest_first_in_pages(self, world: World, work: TaskType) -> None:
        await self._runs(world, 7)
        page = await world.store.runs(RunQuery(task_type=WORK, limit=3))
        assert [run.started_at for run in page.items] == sorted((run.started_at for run in page.items), reverse=True)
        assert page.items[0].started_at == world.now
        runs = await world.runs(limit=3)
        assert len(runs) == len({run.run_id for run in runs}) == 7

    async def test_pages_are_stable_while_runs_end(self, world: World, work: TaskType) -> None:
        await self._runs(world, 6)
        first = await world.store.runs(RunQuery(limit=4))
        world.clock.advance("1h")
        await world.run()
        second = await world.store.runs(RunQuery(limit=4, cursor=first.cursor))
        ids = [run.run_id for run in first.items + second.items]
        assert len(ids) == len(set(ids)) == 6

    async def test_a_page_looks_at_so_many_and_no_more(
        self, world: World, work: TaskType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look_at_few(monkeypatch, 5, filtered=2)
        await world.type("other")
        for number in range(24):
            task_type = "other" if number % 3 == 0 else WORK
            await world.schedule(f"{number:02}", task_type, user_id=f"u{number % 5}")
            await world.run(Transition.FAIL if number == 1 else Transition.COMPLETE, task_type)

        async def all_runs(limit: int, **query: object) -> list[RunRecord]:
            return await world.all_runs(replace(RunQuery(limit=limit), **query))

        everything = await all_runs(1_000)
        assert [run.key for run in everything] == [f"{number:02}" for number in reversed(range(24))]
        for limit in (1, 4, 50):
            assert await all_runs(limit) == everything
            assert [run.key for run in await all_runs(limit, status=RunStatus.ERROR)] == ["01"]
            assert [run.key for run in await all_runs(limit, key="00")] == ["00"]
            assert await all_runs(limit, user_id="u2") == [run for run in everything if run.user_id == "u2"]
            assert await all_runs(limit, task_type="other") == [run for run in everything if run.task_type == "other"]
            assert await all_runs(limit, user_id="nobody") == []

    async def test_filters(self, world: World, work: TaskType) -> None:
        await self._runs(world, 2)
        await world.schedule("other")
        await world.run(Transition.FAIL)

        async def found(**query: object) -> int:
            return len((await world.store.runs(replace(RunQuery(), **query))).items)

        assert await found() == 3
        assert await found(key="k") == await found(user_id="u1") == 2
        assert await found(status=RunStatus.ERROR) == 1
        assert await found(task_type="unknown") == 0
        newest = (await world.store.runs(RunQuery(limit=1))).items[0]
        assert (await world.store.runs(RunQuery(run_id=newest.run_id))).items == [newest]
        assert await found(run_id="999999999") == 0
