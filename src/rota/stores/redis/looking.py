"""Looking into the store: pages of tasks and of run records. Reads only, and never the whole of anything at once.

Pages of tasks go by the lexical index of each type, in (type, key) order. A filter is applied to what is read, unless a
smaller index knows the answer: the tasks of one user, those that run, wait paused or are dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from rota.core.task import NO_PAST, Identity, RunRecord, Task, TaskStatus
from rota.errors import InvalidInput
from rota.keys import GLOBAL_KEY
from rota.stores.base import Counts, Page, RunQuery, Snapshot, TaskQuery, TypeRecord, page_of
from rota.stores.limits import check_cursor
from rota.stores.redis.codec import decode_run
from rota.stores.redis.keys import user_prefix
from rota.stores.redis.scripts import Scripts, decode_types, type_commands

__all__ = ["Looking"]

T = TypeVar("T")

CHUNK = 500
"""How many keys or rows are read in one go."""
SMALL = 10_000
"""An index that is at most this large is read whole and sorted, instead of reading every task of the type."""

_INDEXES = {
    TaskStatus.RUNNING: ("running",),
    TaskStatus.PAUSED: ("paused",),
    TaskStatus.FAILED: ("dead",),
    TaskStatus.COMPLETED: ("done",),
    TaskStatus.CANCELLED: ("done",),
}

RunKey = tuple[int, int, str]
"""The place of a run record among all: its stream id and its type."""
Row = tuple[RunKey, RunRecord]


class Looking:
    """What can be asked without changing anything."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._server = scripts.server
        self._keys = scripts.keys

    async def names(self) -> list[str]:
        """The names of all types."""
        return sorted(name.decode() for name in await self._server.command("SMEMBERS", self._keys.types))

    async def types(self, names: Sequence[str]) -> dict[str, TypeRecord]:
        """Those of some types that are there."""
        return decode_types(names, await self._server.many(type_commands(self._keys, names)))

    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        found: dict[Identity, Task | None] = {}
        parts = groupby(sorted(set(identities)), key=lambda identity: identity.task_type)
        for name, group in [(name, list(group)) for name, group in parts]:
            for start in range(0, len(group), CHUNK):
                part = group[start : start + CHUNK]
                loaded = await self._scripts.load(name, part)
                found.update((identity, each.entry.task) for identity, each in zip(part, loaded, strict=True))
        return [found[identity] for identity in identities]

    async def counts(self) -> dict[str, Counts]:
        names = await self.names()
        found = await self._server.many([("HGETALL", self._keys.of("counts", name)) for name in names])
        return {name: _counts(fields) for name, fields in zip(names, found, strict=True) if fields}

    # --- tasks ---

    async def find(self, query: TaskQuery) -> Page[Task]:
        after = None if query.cursor is None else check_cursor(query.cursor)
        tasks: list[Task] = []
        for name in await self._names_from(after, query.task_type):
            start = after.key if after is not None and after.task_type == name else None
            async for task in self._tasks(name, query, start):
                tasks.append(task)
                if len(tasks) > query.limit:
                    return page_of(tasks, query.limit, lambda task: str(task.identity))
        return page_of(tasks, query.limit, lambda task: str(task.identity))

    async def _names_from(self, after: Identity | None, only: str | None = None) -> list[str]:
        names = await self.names() if only is None else [only]
        return [name for name in names if after is None or name >= after.task_type]

    async def _tasks(self, name: str, query: TaskQuery, after: str | None) -> AsyncIterator[Task]:
        """Those of a type that match, in order of their keys."""
        async for keys in self._candidates(name, query, after):
            for task in await self.get([Identity(name, key) for key in keys]):
                if task is not None and _matches(task, query):
                    yield task

    async def _candidates(self, name: str, query: TaskQuery, after: str | None) -> AsyncIterator[list[str]]:
        chosen = await self._small_index(name, query)
        if chosen is None:
            async for chunk in self._range(name, "-" if after is None else f"({after}", "+"):
                yield chunk
            return
        keys = sorted(key for key in chosen if after is None or key > after)
        for start in range(0, len(keys), query.limit + 1):
            yield keys[start : start + query.limit + 1]

    async def _small_index(self, name: str, query: TaskQuery) -> set[str] | None:
        """The keys that come into question, where an index knows them; None if every task must be looked at."""
        if query.user_id is not None:
            return await self._of_user(name, query.user_id)
        if query.status is not None and query.status in _INDEXES:
            indexes = [self._keys.of(kind, name) for kind in _INDEXES[query.status]]
            if sum(await self._server.many([("ZCARD", key) for key in indexes])) <= SMALL:
                members = await self._server.many([("ZRANGE", key, 0, -1) for key in indexes])
                return {key.decode() for keys in members for key in keys}
        return None

    async def _of_user(self, name: str, user_id: str) -> set[str]:
        """User keys begin with the user; a task of a user under another key is listed by itself."""
        first = user_prefix(user_id)
        strays = await self._server.command("SMEMBERS", self._keys.of("user", name, user_id))
        found = {key.decode() for key in strays} | {first}
        # ";" follows ":" in the order of bytes: between them lies whatever begins with the user and a colon.
        async for chunk in self._range(name, f"[{first}:", f"({first};"):
            found.update(chunk)
        return found

    async def _range(self, name: str, start: str, stop: str) -> AsyncIterator[list[str]]:
        index = self._keys.of("keys", name)
        while True:
            found = await self._server.command("ZRANGEBYLEX", index, start, stop, "LIMIT", 0, CHUNK)
            if found:
                yield [key.decode() for key in found]
            if len(found) < CHUNK:
                return
            start = f"({found[-1].decode()}"

    # --- all that is known ---

    async def export(self, after: Identity | None, limit: int) -> Page[Snapshot]:
        found: list[Snapshot] = []
        for name in await self._names_from(after):
            start = f"({after.key}" if after is not None and after.task_type == name else "-"
            async for keys in self._range(name, start, "+"):
                found += await self._snapshots(name, keys)
                if len(found) > limit:
                    return page_of(found, limit, lambda snapshot: str(snapshot.identity))
        return page_of(found, limit, lambda snapshot: str(snapshot.identity))

    async def _snapshots(self, name: str, keys: Sequence[str]) -> list[Snapshot]:
        identities = [Identity(name, key) for key in keys]
        loaded = await self._scripts.load(name, identities)
        needs = await self._server.many([("HKEYS", self._keys.of("need", *identity)) for identity in identities])
        snapshots = [
            Snapshot(identity=identity, task=each.entry.task, past=each.entry.past, arrived=_arrived(need))
            for identity, each, need in zip(identities, loaded, needs, strict=True)
        ]
        return [each for each in snapshots if each.task is not None or each.past != NO_PAST or each.arrived]

    # --- runs ---

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        if query.run_id is not None:
            return Page(await self._run(query.run_id, query), None)
        before = None if query.cursor is None else _run_key(query.cursor)
        if query.cursor is not None and before is None:
            raise InvalidInput(f"The cursor {query.cursor!r} is none of ours. Take it from the last page, unchanged.")
        names = await self.names() if query.task_type is None else [query.task_type]
        found: list[RunRecord] = []
        logs = [_Log(self, name, query, before) for name in names]
        while len(found) <= query.limit:
            await asyncio.gather(*(log.fill() for log in logs))
            newest = max((log for log in logs if log.rows), key=lambda log: log.rows[0][0], default=None)
            if newest is None:
                break
            found.append(newest.rows.pop(0)[1])
        return page_of(found, query.limit, lambda run: run.run_id)

    async def _run(self, run_id: str, query: RunQuery) -> list[RunRecord]:
        key = _run_key(run_id)
        if key is None:
            return []
        stream_id, name = f"{key[0]}-{key[1]}", key[2]
        rows = await self._server.command("XRANGE", self._keys.of("runs", name), stream_id, stream_id)
        runs = [run for _, run in decode_rows(name, rows)]
        return [run for run in runs if _run_matches(run, query)]

    async def rows(self, name: str, query: RunQuery, before: RunKey | None) -> tuple[list[Row], bool]:
        """A chunk of a type's log, newest first, and whether that was the last one."""
        stop = "+" if before is None else _just_before(before, name)
        stream = self._keys.of("runs", name)
        found = await self._server.command("XREVRANGE", stream, stop, "-", "COUNT", CHUNK)
        rows = list(decode_rows(name, found))
        is_last = len(found) < CHUNK
        if is_last and query.key is not None:
            rows += await self._history(name, query.key, stop, {key for key, _ in rows})
        return rows, is_last

    async def _history(self, name: str, key: str, stop: str, known: set[RunKey]) -> list[Row]:
        """The rows of a recurring task that the log of its type has left behind."""
        oldest = min(known, default=None)
        first = stop if oldest is None else _just_before(oldest, name)
        found = await self._server.command("XREVRANGE", self._keys.of("history", name, key), first, "-")
        return list(decode_rows(name, found))


class _Log:
    """The matching rows of one type, read as far as they are needed."""

    def __init__(self, looking: Looking, name: str, query: RunQuery, before: RunKey | None) -> None:
        self.rows: list[Row] = []
        self._looking = looking
        self._name = name
        self._query = query
        self._before = before
        self._is_over = False

    async def fill(self) -> None:
        while not self.rows and not self._is_over:
            found, self._is_over = await self._looking.rows(self._name, self._query, self._before)
            if found:
                self._before = found[-1][0]
            self.rows = [row for row in found if _run_matches(row[1], self._query)]


def decode_rows(name: str, rows: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> Iterable[Row]:
    """Entries of a stream as run records, each with its place among all."""
    for stream_id, fields in rows:
        millis, _, number = stream_id.decode().partition("-")
        flat = [text for pair in fields.items() for text in pair]
        yield (int(millis), int(number), name), decode_run(name, f"{millis}-{number}-{name}", flat)


def _just_before(key: RunKey, name: str) -> str:
    """The newest stream id of a type's log that comes after a row in a list that is newest first."""
    millis, number, of = key
    if name < of:
        return f"{millis}-{number}"
    return f"({millis}-{number}"


def _run_key(run_id: str) -> RunKey | None:
    millis, _, rest = run_id.partition("-")
    number, _, name = rest.partition("-")
    if not (millis.isascii() and millis.isdigit() and number.isascii() and number.isdigit() and name):
        return None
    return (int(millis), int(number), name) if len(millis) < 19 and len(number) < 19 else None


def _matches(task: Task, query: TaskQuery) -> bool:
    return (
        (query.status is None or task.status is query.status)
        and (query.user_id is None or task.user_id == query.user_id)
        and (query.owner is None or task.owner == query.owner)
        and (not query.schedules or (task.trigger is not None and task.key != GLOBAL_KEY))
    )


def _run_matches(run: RunRecord, query: RunQuery) -> bool:
    return (
        (query.task_type is None or run.task_type == query.task_type)
        and (query.key is None or run.key == query.key)
        and (query.status is None or run.status is query.status)
        and (query.user_id is None or run.user_id == query.user_id)
    )


def _arrived(need: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(name.decode() for name in need if not name.startswith(b"seen:")))


def _counts(fields: dict[bytes, bytes]) -> Counts:
    known = {name: int(fields.get(name.encode(), 0)) for name in Counts.__struct_fields__}
    return Counts(**known)
