"""Looking into the store: pages of tasks and of run records. Reads only, and never the whole of anything at once.

Pages of tasks go by a lexical index of each type, in (type, key) order: of all keys, of one owner's, of schedules.
Where an index in another order is small (those that run, wait or are over), it is read whole and sorted instead. A
script looks at the tasks in question and names those that match; a page ends after so many looks, however few did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from rota.clock import Instant
from rota.core.failure import decode_failure_group
from rota.core.history import Resolution, Slice, decode_slice
from rota.core.task import NO_PAST, Entry, Identity, RunRecord, Task, TaskStatus
from rota.errors import InvalidInput
from rota.keys import GLOBAL_KEY, encoded
from rota.stores.base import (
    MAX_PAGE,
    MOST_COUNTED,
    Counts,
    Failures,
    Page,
    QueuePosition,
    RunQuery,
    RunRef,
    Snapshot,
    TaskQuery,
    TypeRecord,
    page_of,
)
from rota.stores.limits import check_cursor
from rota.stores.queries import LOOKED_AT, unknown_type
from rota.stores.redis import first_layout
from rota.stores.redis.codec import ROW, decode_entry, decode_run
from rota.stores.redis.index import INDEXES
from rota.stores.redis.scripts import Filtered, Scripts, decode_types, type_commands
from rota.stores.users import belongs_to

__all__ = ["FILTERED", "INDEXES_OF", "Queries", "question_of"]

T = TypeVar("T")

CHUNK = 500
"""How many keys or rows are read in one go."""
FILTERED = 1_000
"""How many tasks or rows one script looks at: few enough that nobody notices it."""
_ASKED_OF_TASKS = ("status", "without", "user_id", "owner", "search", "failure")
_ASKED_OF_RUNS = ("key", "user_id", "status", "failure")

INDEXES_OF = {
    TaskStatus.PENDING: ("queue", "parked"),
    TaskStatus.RUNNING: ("running",),
    TaskStatus.PAUSED: ("paused",),
    TaskStatus.FAILED: ("dead",),
    TaskStatus.COMPLETED: ("done",),
    TaskStatus.CANCELLED: ("done",),
}

_ROW = ROW.encode()
_OUT_OF_ORDER_MS = 60_000
"""By how much a row may be older than one before it: a clock may be set."""

RunKey = tuple[int, int, str]
"""The place of a run record among all: its stream id and its type."""
Row = tuple[RunKey, RunRecord]


class Queries:
    """What can be asked without changing anything."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._server = scripts.server
        self._keys = scripts.keys
        self._are_complete = False

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
        page = _Gathered(query, by_index=await self.has_all_indexes())
        for name in await self.names_from(after, query.task_type):
            start = after.key if after is not None and after.task_type == name else None
            await self._gather(name, page, start)
            if page.is_full or page.is_tired:
                break
        return page.page()

    async def has_all_indexes(self) -> bool:
        """Whether every task stands in every index: not yet, where an older version wrote it and nobody has looked."""
        if not self._are_complete:
            found = await self._server.command("HGET", self._keys.meta, "indexes")
            self._are_complete = found is not None and found.isdigit() and int(found) >= INDEXES
        return self._are_complete

    async def names_from(self, after: Identity | None, only: str | None = None) -> list[str]:
        names = await self.names() if only is None else [only]
        return [name for name in names if after is None or name >= after.task_type]

    async def _gather(self, name: str, page: _Gathered, after: str | None) -> None:
        """Those of a type that match, in order of their keys, as far as this page looks."""
        known = await self._small_index(name, page.query)
        listed = None if known is None else sorted(key for key in known if after is None or key > after)
        while listed != []:
            count = min(FILTERED, LOOKED_AT - page.looked_at)
            part = None if listed is None else listed[:count]
            filtered = await self._scripts.filter(name, page.question(part, after, count))
            tasks = await self.get([Identity(name, key) for key in filtered.keys])
            page.add(name, filtered, [task for task in tasks if task is not None])
            if page.is_full or page.is_tired or filtered.looked_at < count:
                return
            after = filtered.last
            listed = None if listed is None else listed[count:]

    async def _small_index(self, name: str, query: TaskQuery) -> set[str] | None:
        """The keys that come into question, where an index knows them; None if tasks are looked at in their order."""
        if query.user_id is not None:
            return await self.of_user(name, query.user_id)
        if query.status is None or query.owner is not None or not await self.has_all_indexes():
            return None
        indexes = [self._keys.of(kind, name) for kind in INDEXES_OF[query.status]]
        if query.status is TaskStatus.FAILED and query.failure is not None:
            indexes = [self._keys.of("failed", name, query.failure)]
        if query.status is TaskStatus.PENDING:
            lanes = await self._server.command("SMEMBERS", self._keys.of("lanes", name))
            indexes += [self._keys.lane(name, int(priority)) for priority in lanes]
        if sum(await self._server.many([("ZCARD", key) for key in indexes])) > LOOKED_AT:
            return None
        members = await self._server.many([("ZRANGE", key, 0, -1) for key in indexes])
        return {key.decode() for keys in members for key in keys}

    async def of_user(self, name: str, user_id: str) -> set[str]:
        """User keys begin with the user; a task of a user under another key is listed by itself."""
        first = encoded(user_id)
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
        for name in await self.names_from(after):
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

    # --- one user's data ---

    async def known_of(self, user_id: str, after: Identity | None, limit: int) -> Page[Snapshot]:
        """A page of what is known of a user's identities."""
        found: list[Snapshot] = []
        for name in await self.names_from(after):
            keys = await self.of_user(name, user_id)
            behind = sorted(key for key in keys if after is None or Identity(name, key) > after)
            for start in range(0, len(behind), CHUNK):
                snapshots = await self._snapshots(name, behind[start : start + CHUNK])
                found += [each for each in snapshots if belongs_to(user_id, each.identity, Entry(each.task, each.past))]
                if len(found) > limit:
                    return page_of(found, limit, lambda snapshot: str(snapshot.identity))
        return page_of(found, limit, lambda snapshot: str(snapshot.identity))

    # --- when it runs, and what ran ---

    async def next_due_by_type(self) -> dict[str, Instant]:
        names = await self.names()
        used = await self._server.many([("SMEMBERS", self._keys.of("lanes", name)) for name in names])
        asked = [
            (name, index)
            for name, priorities in zip(names, used, strict=True)
            for index in (
                self._keys.of("queue", name),
                self._keys.of("parked", name),
                *(self._keys.lane(name, int(priority)) for priority in priorities),
            )
        ]
        found = await self._server.many([("ZRANGE", index, 0, 0, "WITHSCORES") for _, index in asked])
        firsts = [(name, int(float(flat[1]))) for (name, _), flat in zip(asked, found, strict=True) if flat]
        # The earliest comes last, and stays.
        return dict(sorted(firsts, key=lambda first: first[1], reverse=True))

    async def queue_position(self, identity: Identity, now: Instant | None) -> QueuePosition:
        record = (await self.types([identity.task_type])).get(identity.task_type)
        found = await self._scripts.queue_position(identity, now)
        if record is None or found is None:
            raise unknown_type(identity.task_type, await self.names())
        at, record_of_task, payload, ahead, running, held, tokens, start_tokens, arrived = found
        task, past = decode_entry(identity, record_of_task, payload)
        return QueuePosition(
            record=record,
            task=task,
            past=past,
            now=int(at),
            ahead=int(ahead),
            running=int(running),
            serial_running=int(held),
            tokens=float(tokens) if tokens else None,
            start_tokens=float(start_tokens) if start_tokens else None,
            arrived=tuple(sorted(name.decode() for name in arrived)),
        )

    async def history(
        self, resolution: Resolution, since_at: Instant, until_at: Instant | None, task_type: str | None
    ) -> list[Slice]:
        names = await self.names() if task_type is None else [task_type]
        until = "+inf" if until_at is None else f"({until_at}"
        found = await self._server.many(
            [("ZRANGEBYSCORE", self._keys.of("slices", name, resolution.value), since_at, until) for name in names]
        )
        slices = [decode_slice(text) for texts in found for text in texts]
        return sorted(slices, key=lambda each: each.key)

    # --- what runs have left, and groups of failures ---

    async def details(self, runs: Sequence[RunRef]) -> list[str | None]:
        found = await self._server.many([("HGET", self._keys.of("details", *run.identity), run.token) for run in runs])
        return [None if details is None else details.decode() for details in found]

    async def failures(self, task_type: str | None, failure_id: str | None) -> list[Failures]:
        names = await self.names() if task_type is None else [task_type]
        found = await self._server.many([("HGETALL", self._keys.of("failures", name)) for name in names])
        groups = [decode_failure_group(text) for groups in found for text in groups.values()]
        groups = [group for group in groups if failure_id in (None, group.id)]
        groups.sort(key=lambda group: (-group.last_at, group.key))
        shown = groups[:MAX_PAGE]
        dead = await self._server.many([("ZCARD", self._keys.of("failed", *group.key)) for group in shown])
        return [Failures(group, min(MOST_COUNTED, int(count))) for group, count in zip(shown, dead, strict=True)]

    # --- runs ---

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        if query.run_id is not None:
            return Page(await self._run(query.run_id, query), None)
        before = None if query.cursor is None else _run_key(query.cursor)
        if query.cursor is not None and before is None:
            raise InvalidInput(f"The cursor {query.cursor!r} is none of ours. Take it from the last page, unchanged.")
        names = await self.names() if query.task_type is None else [query.task_type]
        logs = [_Log(self, name, query, before) for name in names]
        looked_at = 0
        found: list[RunRecord] = []
        while len(found) <= query.limit:
            # Every log that is not over must show its next row before the newest of all is known.
            dry = [log for log in logs if log.is_dry]
            if dry and looked_at >= LOOKED_AT:
                return _cut_short(found, logs, query.limit)
            if dry:
                looked_at += sum(await asyncio.gather(*(log.fill() for log in dry)))
                continue
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

    async def rows(self, name: str, query: RunQuery, before: RunKey | None) -> Rows:
        """A part of a type's log, newest first: what of it matches."""
        stop = "+" if before is None else _just_before(before, name)
        asked = {part: str(value) for part in _ASKED_OF_RUNS if (value := getattr(query, part)) is not None}
        given = {**asked, "asked": len(asked), "stop": stop, "count": FILTERED, "most": query.limit + 1}
        given |= {**range_of(query), "slack": _OUT_OF_ORDER_MS}
        looked_at, last, flat = await self._scripts.rows(name, given)
        rows = [
            row
            for stream_id, fields in zip(flat[::2], flat[1::2], strict=True)
            for row in decode_rows(name, [(stream_id, dict(zip(fields[::2], fields[1::2], strict=True)))])
        ]
        frontier = before if last is None else (*_stream_id(last), name)
        is_over = looked_at < FILTERED and len(rows) <= query.limit
        if is_over and query.key is not None:
            rows += await self._history(name, query, stop if last is None else f"({last.decode()}")
        return Rows(rows, is_over, frontier, looked_at)

    async def _history(self, name: str, query: RunQuery, stop: str) -> list[Row]:
        """The rows of a recurring task that the log of its type has left behind."""
        found = await self._server.command("XREVRANGE", self._keys.of("history", name, query.key), stop, "-")
        return [row for row in decode_rows(name, found) if _run_matches(row[1], query)]


class _Gathered:
    """A page of tasks while it is filled, and how far it has looked."""

    def __init__(self, query: TaskQuery, *, by_index: bool) -> None:
        self.query = query
        self.looked_at = 0
        self._by_index = by_index
        self._tasks: list[Task] = []
        self._last: Identity | None = None

    @property
    def is_full(self) -> bool:
        return len(self._tasks) > self.query.limit

    @property
    def is_tired(self) -> bool:
        """Whether it has looked at as many as one page may: it ends here, and the next one goes on."""
        return self.looked_at >= LOOKED_AT

    def add(self, name: str, filtered: Filtered, tasks: Sequence[Task]) -> None:
        self.looked_at += filtered.looked_at
        self._tasks += tasks
        if filtered.last is not None:
            self._last = Identity(name, filtered.last)

    def question(self, keys: list[str] | None, after: str | None, count: int) -> dict[str, object]:
        """What the script is told."""
        query = self.query
        asked = {**question_of(query), "most": query.limit + 1 - len(self._tasks)}
        if keys is not None:
            return asked | {"keys": keys}
        asked |= {"start": "-" if after is None else f"({after}", "count": count, "index": "keys"}
        if not self._by_index:
            return asked
        if query.owner is not None:
            return asked | {"index": "owned", "suffix": query.owner}
        return asked | {"index": "schedules"} if query.schedules else asked

    def page(self) -> Page[Task]:
        page = page_of(self._tasks, self.query.limit, lambda task: str(task.identity))
        if page.cursor is None and self.is_tired and self._last is not None:
            return Page(page.items, str(self._last))
        return page


def question_of(query: TaskQuery) -> dict[str, object]:
    """What is asked of a task, as the script is told."""
    asked: dict[str, object] = {
        name: str(value) for name in _ASKED_OF_TASKS if (value := getattr(query, name)) is not None
    }
    asked |= {"global": GLOBAL_KEY, **range_of(query)}
    return asked | {"schedules": True} if query.schedules else asked


def range_of(query: TaskQuery | RunQuery) -> dict[str, object]:
    """The time range that is asked; `until` is a word of Lua's own."""
    given = {"since": query.since_at, "until_": query.until_at}
    return {name: at for name, at in given.items() if at is not None}


class Rows(NamedTuple):
    """Matching rows, whether the log is over behind them, the last row that was looked at, and how many those were."""

    rows: list[Row]
    is_over: bool
    frontier: RunKey | None
    looked_at: int


class _Log:
    """The matching rows of one type, read as far as they are needed."""

    def __init__(self, queries: Queries, name: str, query: RunQuery, before: RunKey | None) -> None:
        self.rows: list[Row] = []
        self.frontier = before
        self.is_over = False
        self._queries = queries
        self._name = name
        self._query = query

    @property
    def is_dry(self) -> bool:
        """Whether it has nothing to show, although there may be more."""
        return not self.rows and not self.is_over

    async def fill(self) -> int:
        """Read on; how many rows were looked at."""
        found = await self._queries.rows(self._name, self._query, self.frontier)
        self.rows, self.is_over, self.frontier, looked_at = found
        return looked_at


def _cut_short(found: list[RunRecord], logs: Sequence[_Log], limit: int) -> Page[RunRecord]:
    """The page that has looked far enough: what is newer than where every log has got to, and the cursor of there."""
    frontier = max(log.frontier for log in logs if not log.is_over and log.frontier is not None)
    rows = sorted((row for log in logs for row in log.rows if row[0] >= frontier), key=lambda row: row[0], reverse=True)
    page = page_of([*found, *(run for _, run in rows)], limit, lambda run: run.run_id)
    return page if page.cursor is not None else Page(page.items, "{}-{}-{}".format(*frontier))


def decode_rows(name: str, rows: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> Iterable[Row]:
    """Entries of a stream as run records, each with its place among all."""
    for stream_id, fields in rows:
        millis, number = _stream_id(stream_id)
        row, run_id = fields.get(_ROW), f"{millis}-{number}-{name}"
        run = first_layout.decode_run(name, run_id, fields) if row is None else decode_run(name, run_id, row)
        yield (millis, number, name), run


def _stream_id(text: bytes) -> tuple[int, int]:
    millis, _, number = text.decode().partition("-")
    return int(millis), int(number)


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


def _run_matches(run: RunRecord, query: RunQuery) -> bool:
    return (
        (query.task_type is None or run.task_type == query.task_type)
        and (query.key is None or run.key == query.key)
        and (query.status is None or run.status is query.status)
        and (query.user_id is None or run.user_id == query.user_id)
        and (query.failure is None or run.failure == query.failure)
        and (query.since_at is None or run.ended_at >= query.since_at)
        and (query.until_at is None or run.ended_at < query.until_at)
    )


def _arrived(need: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(name.decode() for name in need if not name.startswith(b"seen:")))


def _counts(fields: dict[bytes, bytes]) -> Counts:
    known = {name: int(fields.get(name.encode(), 0)) for name in Counts.__struct_fields__}
    return Counts(**known)
