"""One event on many tasks: what was confirmed is what happens, and nothing beyond it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.api.calls import check_problem, dead_letters
from tests.api.stage import Stage, staged

from rota.access import Principal, Role
from rota.app.operator import Counted, Done, Operator
from rota.clock import Instant
from rota.core.outcome import Reply
from rota.core.task import Identity, Task, TaskStatus, Transition
from rota.stores.base import Page, Store, TaskQuery
from rota.stores.memory import MemoryStore
from rota.testing.faulty import FaultyStore


async def test_a_bulk_action_does_what_was_confirmed(stage: Stage) -> None:
    for number in range(5):
        await stage.app.schedule("job", key=f"k{number}", delay="1h")
    body: dict[str, Any] = {"event": "pause", "query": {"task_type": "job", "status": "pending"}}
    seen = (await stage.operator.post("/api/tasks/bulk", json={**body, "dry_run": True})).json()
    assert seen == {"matched": 5, "matched_is_all": True, "changed": 0, "refused": 0}
    await stage.app.schedule("job", key="late", delay="1h")
    problem = check_problem(
        await stage.operator.post("/api/tasks/bulk", json={**body, "expected": 5}), 409, "count_changed"
    )
    assert problem["matched"] == 6
    assert (await stage.app.counts())["job"].paused == 0
    done = (await stage.operator.post("/api/tasks/bulk", json={**body, "expected": 6})).json()
    assert done == {"matched": 6, "matched_is_all": True, "changed": 6, "refused": 0}
    assert (await stage.app.counts())["job"].paused == 6


class Meddling(FaultyStore):
    """A store in which somebody else does something before the first look, or after it."""

    def __init__(self, store: Store, after: int) -> None:
        super().__init__(store)
        self.meddle: Callable[[], Awaitable[object]] | None = None
        self._after = after

    async def find(self, query: TaskQuery) -> Page[Task]:
        if self._after == 0:
            await self._join()
        page = await super().find(query)
        if self._after == 1:
            await self._join()
        return page

    async def _join(self) -> None:
        if self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            await meddle()


@pytest.mark.parametrize(("after", "status", "paused"), [(0, 409, 0), (1, 200, 3)])
async def test_what_joins_in_between_is_not_touched(after: int, status: int, paused: int) -> None:
    """Between the count and the listing: nothing is done. Between the listing and the action: to the others alone."""
    store = Meddling(MemoryStore(), after)
    async with staged("memory://", store=store) as stage:
        for key in ("b", "c", "d"):
            await stage.app.schedule("job", key=key, delay="1h")
        store.meddle = lambda: stage.app.schedule("job", key="a", delay="1h")
        body = {"event": "pause", "query": {"task_type": "job", "status": "pending"}, "expected": 3}
        answer = await stage.operator.post("/api/tasks/bulk", json=body)
        assert answer.status_code == status, answer.text
        if status == 409:
            assert check_problem(answer, 409, "count_changed")["matched"] == 4
        assert (await stage.app.counts())["job"].paused == paused
        assert (await stage.viewer.get("/api/tasks/job/a")).json()["status"] == "pending"


class Counting(FaultyStore):
    """A store that notes how it was looked at, and what was changed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.cursors: list[str | None] = []
        self.changed = 0

    async def find(self, query: TaskQuery) -> Page[Task]:
        self.cursors.append(query.cursor)
        return await super().find(query)

    async def apply(
        self, transition: Transition, identities: Sequence[Identity], *, now: Instant | None = None
    ) -> list[Reply]:
        self.changed += len(identities)
        return await super().apply(transition, identities, now=now)

    def passes(self) -> int:
        """How often a listing was begun since this was asked last."""
        begun, self.cursors = self.cursors.count(None), []
        return begun


async def test_what_matches_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count is one pass over what matches, and so is a confirmed action, however many pages that are."""
    monkeypatch.setattr("rota.app.operator.MAX_PAGE", 10)
    store = Counting(MemoryStore())
    async with staged("memory://", store=store) as stage:
        for number in range(35):
            await stage.app.schedule("job", key=f"k{number}", delay="1h")
        body: dict[str, Any] = {"event": "pause", "query": {"task_type": "job", "status": "pending"}}
        await stage.operator.post("/api/tasks/bulk", json={**body, "dry_run": True})
        assert (len(store.cursors), store.passes(), store.changed) == (4, 1, 0)
        done = (await stage.operator.post("/api/tasks/bulk", json={**body, "expected": 35})).json()
        assert (done["matched"], done["changed"]) == (35, 35)
        assert (len(store.cursors), store.passes(), store.changed) == (4, 1, 35)
        body["event"], body["query"]["status"] = "resume", "paused"
        await stage.operator.post("/api/tasks/bulk", json=body)
        assert (store.passes(), store.changed) == (1, 70), "nobody has agreed to a number"
        check_problem(await stage.operator.post("/api/tasks/bulk", json={**body, "expected": 35}), 409, "count_changed")
        assert (store.passes(), store.changed) == (1, 70)
        operator = Operator(stage.app, Principal("p", "p", Role.OPERATOR, "cli"))
        query = TaskQuery(task_type="job", status=TaskStatus.PENDING)
        counted = await operator.count(query)
        assert (counted, store.passes()) == (Counted(35, True), 1)
        assert await operator.apply_all(Transition.CANCEL, query, agreed=counted) == Done(35, 0)
        assert store.passes() == 1


async def test_where_there_are_too_many_to_list_the_listing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.app.operator.MAX_PAGE", 2)
    monkeypatch.setattr("rota.app.operator.MAX_COUNTED", 3)
    store = Counting(MemoryStore())
    async with staged("memory://", store=store) as stage:
        for number in range(9):
            await stage.app.schedule("job", key=f"k{number}", delay="1h")
        body: dict[str, Any] = {"event": "pause", "query": {"search": "k"}}
        done = (await stage.operator.post("/api/tasks/bulk", json=body)).json()
        assert done == {"matched": 3, "matched_is_all": False, "changed": 9, "refused": 0}
        assert (len(store.cursors), store.passes()) == (5, 1)


async def test_what_is_not_in_that_state_any_more_is_refused_by_the_store() -> None:
    """Listed as failed, redriven by somebody else before it is purged: it is not removed."""
    store = Meddling(MemoryStore(), 1)
    async with staged("memory://", store=store) as stage:
        await dead_letters(stage, 3)
        store.meddle = lambda: stage.app.tasks.redrive("broken", "d1")
        done = (await stage.operator.post("/api/dead-letters/purge", json={"all": True, "expected": 3})).json()
        assert done == {"matched": 3, "matched_is_all": True, "changed": 2, "refused": 1}
        assert await stage.app.tasks.get("broken", "d1") is not None


async def test_no_more_than_was_agreed_to_where_there_are_too_many_to_list(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.app.operator.MAX_COUNTED", 3)
    for number in range(5):
        await stage.app.schedule("job", key=f"k{number}", delay="1h")
    pending: dict[str, Any] = {"event": "pause", "query": {"task_type": "job", "status": "pending"}}
    counted = (await stage.operator.post("/api/tasks/bulk", json={**pending, "dry_run": True})).json()
    assert (counted["matched"], counted["matched_is_all"]) == (5, True), "kept counters know"
    operator = Operator(stage.app, Principal("p", "p", Role.OPERATOR, "api"))
    query = TaskQuery(task_type="job", status=TaskStatus.PENDING)
    assert await operator.apply_all(Transition.PAUSE, query, agreed=Counted(4, True)) == Done(4, 0)
    done = (await stage.operator.post("/api/tasks/bulk", json={**pending, "expected": 1})).json()
    assert done["changed"] == 1
    some: dict[str, Any] = {"event": "resume", "query": {"search": "k"}}
    counted = (await stage.operator.post("/api/tasks/bulk", json={**some, "dry_run": True})).json()
    assert (counted["matched"], counted["matched_is_all"]) == (3, False)
    done = (await stage.operator.post("/api/tasks/bulk", json={**some, "expected": 3})).json()
    assert done["changed"] == 5, "more than 3 were agreed to"


async def test_a_bulk_action_on_named_tasks(stage: Stage) -> None:
    await stage.app.schedule("job", key="a", delay="1h")
    named = [{"task_type": "job", "key": "a"}, {"task_type": "job", "key": "a"}, {"task_type": "job", "key": "absent"}]
    body = {"event": "cancel", "identities": named}
    done = (await stage.operator.post("/api/tasks/bulk", json=body)).json()
    assert done == {"matched": 2, "matched_is_all": True, "changed": 1, "refused": 1}


async def test_dead_letters_are_redriven_and_purged(stage: Stage) -> None:
    await dead_letters(stage, 4)
    await stage.app.schedule("job", key="done")
    await stage.app.run_until_idle()
    assert len((await stage.viewer.get("/api/dead-letters")).json()["items"]) == 4
    one = {"identities": [{"task_type": "broken", "key": "d0"}, {"task_type": "job", "key": "done"}]}
    assert (await stage.operator.post("/api/dead-letters/purge", json=one)).json()["changed"] == 1
    assert await stage.app.tasks.get("job", "done") is not None, "only dead ones are removed"
    changed = await stage.operator.post("/api/dead-letters/redrive", json={"all": True, "expected": 4})
    assert check_problem(changed, 409, "count_changed")["matched"] == 3
    done = (await stage.operator.post("/api/dead-letters/redrive", json={"all": True, "expected": 3})).json()
    assert done == {"matched": 3, "matched_is_all": True, "changed": 3, "refused": 0}


async def test_naming_no_dead_letter_changes_nothing(stage: Stage) -> None:
    body = {"identities": [{"task_type": "job", "key": "absent"}]}
    done = (await stage.operator.post("/api/dead-letters/redrive", json=body)).json()
    assert done == {"matched": 0, "matched_is_all": True, "changed": 0, "refused": 0}
