"""Pages of tasks and of runs in an order that no index has.

No index is kept for the sake of a list: each would cost every run. A script looks at the tasks in question; if they are
many, each sorted set that leads to some of them gives its share. Of runs the newest are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from rota.core.task import Identity, RunRecord, Task, TaskStatus
from rota.stores.base import Page, RunQuery, RunSort, TaskQuery, TaskSort
from rota.stores.queries import LOOKED_AT
from rota.stores.redis.queries import FILTERED, INDEXES_OF, Queries, question_of
from rota.stores.redis.scripts import Scripts
from rota.stores.sorting import Place, place_of_cursor, place_of_run, run_place_of_cursor, shares, sorted_page

__all__ = ["SortedPages"]


class _Part(NamedTuple):
    """A sorted set that leads to some tasks of a type, and from which end it is read; or the keys themselves."""

    name: str
    key: str
    is_up: bool
    listed: tuple[str, ...] | None = None


class SortedPages:
    """The same questions as `Queries` answers, in another order."""

    def __init__(self, scripts: Scripts, queries: Queries) -> None:
        self._scripts = scripts
        self._server = scripts.server
        self._keys = scripts.keys
        self._queries = queries

    async def find(self, query: TaskQuery) -> Page[Task]:
        """Of those that are looked at the ones that match, sorted."""
        after = place_of_cursor(query)
        names = await self._queries.names_from(None, query.task_type)
        parts = [part for name in names for part in await self._parts(name, query)]
        sizes = await self._sizes(parts)
        given = shares(sizes, LOOKED_AT)
        # Two parts may lead to the same task.
        found: dict[Place, Identity] = {}
        for part, most in zip(parts, given, strict=True):
            found |= {place: place.identity for place in await self._places(part, most, query)}
        page = sorted_page(found.items(), after, query.limit)
        tasks = [task for task in await self._queries.get(page.items) if task is not None]
        return Page(tasks, page.cursor, None if given == sizes else sum(given))

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        """Of the newest that come into question those that match, sorted."""
        newest = await self._queries.runs(replace(query, sort=RunSort.NEWEST, cursor=None, limit=LOOKED_AT))
        found = ((place_of_run(run, query.sort), run) for run in newest.items)
        page = sorted_page(found, run_place_of_cursor(query.cursor), query.limit)
        return Page(page.items, page.cursor, None if newest.cursor is None else LOOKED_AT)

    async def _parts(self, name: str, query: TaskQuery) -> list[_Part]:
        """The sorted sets of a type that lead to what is asked."""
        of = self._keys.of
        if query.user_id is not None:
            return [_Part(name, of("keys", name), True, tuple(await self._queries.of_user(name, query.user_id)))]
        if not await self._queries.has_all_indexes():
            return [_Part(name, of("keys", name), True)]
        if query.owner is not None:
            return [_Part(name, of("owned", name, query.owner), True)]
        if query.schedules:
            return [_Part(name, of("schedules", name), True)]
        if query.failure is not None and query.status is TaskStatus.FAILED:
            return [_Part(name, of("failed", name, query.failure), False)]
        kinds = dict.fromkeys(kind for status in _wanted(query) for kind in INDEXES_OF[status])
        sets = [of(kind, name) for kind in kinds]
        if "queue" in kinds:
            lanes = await self._server.command("SMEMBERS", of("lanes", name))
            sets += [self._keys.lane(name, int(priority)) for priority in lanes]
        # What is due last was mostly made last, and what has ended last is purged last.
        return [_Part(name, key, query.sort is TaskSort.SOONEST) for key in sets]

    async def _sizes(self, parts: list[_Part]) -> list[int]:
        counted = await self._server.many([("ZCARD", part.key) for part in parts])
        return [
            int(size) if part.listed is None else len(part.listed) for part, size in zip(parts, counted, strict=True)
        ]

    async def _places(self, part: _Part, most: int, query: TaskQuery) -> list[Place]:
        """Where those of a part stand that match."""
        keys = await self._first_of(part, most)
        asked = {**question_of(query), "most": FILTERED, "value": query.sort.field}
        found: list[Place] = []
        for start in range(0, len(keys), FILTERED):
            filtered = await self._scripts.filter(part.name, {**asked, "keys": keys[start : start + FILTERED]})
            for key, value in zip(filtered.keys, filtered.values, strict=True):
                found.append(Place(-value if query.sort.is_descending else value, Identity(part.name, key)))
        return found

    async def _first_of(self, part: _Part, most: int) -> list[str]:
        if part.listed is not None:
            return sorted(part.listed)[:most]
        if not most:
            return []
        found = await self._server.command("ZRANGE" if part.is_up else "ZREVRANGE", part.key, 0, most - 1)
        return [key.decode() for key in found]


def _wanted(query: TaskQuery) -> Iterator[TaskStatus]:
    """The states that come into question."""
    for status in INDEXES_OF:
        if query.status in (None, status) and query.without is not status:
            yield status
