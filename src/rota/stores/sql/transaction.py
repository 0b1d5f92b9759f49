"""One transaction on SQLite or PostgreSQL, in SQLAlchemy Core.

Statements are built once and reused; conditions that a partial index names are written as literals, because a
database only takes such an index when it can see the condition in the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from msgspec.structs import asdict
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    ScalarSelect,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    true,
    tuple_,
    update,
)

from rota.clock import Instant, Millis
from rota.core.bucket import Bucket
from rota.core.failure import FailureGroup, FailureKey, decode_failure_group
from rota.core.history import Resolution, Slice, SliceKey, decode_slice
from rota.core.lifecycle import Step
from rota.core.rank import rank
from rota.core.task import NO_PAST, Entry, Identity, RunRecord, Settlement
from rota.core.task_type import decode_task_type, encode_task_type
from rota.database import Conflict
from rota.database.backend import READ_FIRST, Dialect
from rota.database.backends.sqlite import SqliteDialect
from rota.database.changes import Changes
from rota.database.later import read_later, write_later
from rota.database.tables import tasks as tables
from rota.database.tables.failures import failure_groups, run_details
from rota.database.tables.tasks import tasks
from rota.database.upsert import upsert
from rota.keys import encoded
from rota.stores.base import (
    DETAILED_RUNS,
    Beat,
    Erasure,
    Instance,
    RunLeft,
    TypeRecord,
    decode_beat,
    decode_overrides,
)
from rota.stores.sql.codec import (
    ENTRY_COLUMNS,
    ERASURE_COLUMNS,
    decode_entry,
    decode_erasure,
    decode_rows,
    values_of,
    values_of_run,
)
from rota.stores.sql.plain import HELD, claiming, ending, logging_ends
from rota.stores.sql.writing import Writing, inserting, logging, overwriting, updating
from rota.stores.transaction import Completion, Written

__all__ = ["TASKS_CHANGED", "TYPES", "Lanes", "SqlTransaction"]

TASKS_CHANGED = "tasks"
"""The topic of whoever waits for something to become due."""

_c = tasks.c
_IS_PENDING = and_(_c.status == literal_column("'pending'"), _c.parked == literal_column("0"))
_IS_PARKED = and_(_c.status == literal_column("'pending'"), _c.parked == literal_column("1"))
_IS_RUNNING = _c.status == literal_column("'running'")
_IS_WAITING = _c.status.in_([literal_column("'pending'"), literal_column("'paused'")])
_IS_LIVE = _c.status.in_([literal_column("'pending'"), literal_column("'running'"), literal_column("'paused'")])
_ENTRY = select(*ENTRY_COLUMNS)
_TYPE, _IDENTITY = attrgetter("task_type"), itemgetter(0)

_NEVER = 2**62
"""An instant that nothing is later than."""

Values = tuple[Any, ...]
Lanes = frozenset[tuple[str, int]]
"""Types, each with a priority that one of its tasks has had."""


class SqlTransaction:
    """A `WholeTransaction`: see `stores/transaction.py` for the contract."""

    def __init__(
        self, connection: Connection, dialect: Dialect, changes: Changes, shard: int, known_lanes: Lanes
    ) -> None:
        self.new_lanes: Lanes = frozenset()
        """Lanes that were written for the first time: the store remembers them once this transaction is committed."""
        self._connection = connection
        self._database = connection.dialect.name
        self._dialect = dialect
        self._changes = changes
        self._shard = shard % dialect.count_shards
        self._known_lanes = known_lanes
        self._pending: dict[str, int] = {}
        self._found: set[tuple[str, str]] = set()
        """The identities that have a row."""
        self._heads: dict[tuple[str, Instant], Sequence[Instant | None]] = {}
        """When something of a type is due next after an instant, in each lane, as far as that is known already."""

    def now(self) -> Instant:
        return self._dialect.now(self._connection)

    def poke(self) -> None:
        self._changes.poke(self._connection, TASKS_CHANGED)

    def _all(self, statement: Executable, parameters: Mapping[str, object] | None = None) -> Sequence[Any]:
        return read_later(self._connection, statement, parameters or {}).rows()

    def _entries(self, statement: Executable, **parameters: object) -> list[Entry]:
        return self._found_in(self._rows(statement, parameters))

    def _rows(self, statement: Executable, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """What a query of entries finds, in one step of the database."""
        rows = self._all(statement, parameters)
        return decode_rows(rows[0][0]) if self._database == "sqlite" else rows

    def _found_in(self, rows: Sequence[Sequence[Any]]) -> list[Entry]:
        self._found.update([(row[0], row[1]) for row in rows])
        return list(map(decode_entry, rows))

    # --- identities ---

    def load(self, identities: Collection[Identity]) -> Mapping[Identity, Entry]:
        found: dict[Identity, Entry] = {}
        for task_type, group in groupby(sorted(identities), key=_TYPE):
            by_key = {identity.key: identity for identity in group}
            given = {"task_type": task_type, "keys": self._dialect.keys(by_key)}
            for row in self._rows(_load_statement(type(self._dialect)), given):
                found[by_key[row[1]]] = decode_entry(row)
        self._found.update(found)
        return found

    def write(self, changes: Sequence[Written]) -> None:
        self._heads = {}
        new: list[Values] = []
        remains: list[Values] = []
        old: list[Entry] = []
        changed: list[Entry] = []
        removed: list[Identity] = []
        for identity, before, after in sorted(changes, key=_IDENTITY):
            if after.task is None and after.past == NO_PAST:
                if identity in self._found:
                    self._found.discard(identity)
                    removed.append(identity)
            elif identity not in self._found:
                self._found.add(identity)
                new.append(values_of(identity, after))
            elif before.task is None or after.task is None:
                # What is left of a purged task is written over, whatever it is.
                remains.append(values_of(identity, after))
            else:
                old.append(before)
                changed.append(after)
        if new and self._count_written(inserting(self._database, new)) != len(new):
            raise Conflict("another transaction has made one of these identities first")
        if remains:
            write_later(self._connection, *overwriting(self._database, remains))
        if changed and (writing := updating(self._database, old, changed)) is not None:
            write_later(self._connection, *writing)
        if removed:
            self._connection.execute(_DELETE, [{"b_type": t, "b_key": k} for t, k in removed])
        self._remember_lanes(changes)

    def claim_plain(self, task_type: str, tokens: Mapping[str, int], claimed: Step) -> bool:
        if self._database != "sqlite":
            return False
        self._heads = {}
        write_later(self._connection, *claiming(task_type, tokens, claimed))
        return True

    def end_plain(self, task_type: str, succeeded: Mapping[str, Settlement], success: Step) -> Collection[str]:
        if self._database != "sqlite":
            return ()
        given = {"b_type": task_type, "keys": self._dialect.keys(succeeded)}
        ended = [key for key, token in self._rows(HELD, given) if token == succeeded[key].token]
        if ended:
            took = {key: succeeded[key].duration_ms for key in ended}
            write_later(self._connection, *logging_ends(task_type, took, success))
            tokens = {key: succeeded[key].token for key in ended}
            write_later(self._connection, *ending(task_type, tokens, success))
        return ended

    def _remember_lanes(self, changes: Sequence[Written]) -> None:
        lanes = {(task.task_type, task.priority) for _, _, (task, _) in changes if task is not None} - self._known_lanes
        if lanes:
            new = [{"task_type": task_type, "priority": priority} for task_type, priority in sorted(lanes)]
            self._connection.execute(_insert_new(self._database, tables.lanes), new)
            self.new_lanes |= lanes

    def _count_written(self, writing: Writing) -> int:
        counted = {"preserve_rowcount": True}
        return self._connection.execute(*writing, execution_options=counted).rowcount

    def known(self, after: Identity | None, limit: int) -> Sequence[Identity]:
        task_type, key = ("", "") if after is None else after
        parameters = {"task_type": task_type, "key": key, "limit": limit}
        # Each index gives its own first ones, and the first of both are among them.
        found = {Identity(*row) for statement in (_KNOWN, _WAITED_FOR) for row in self._all(statement, parameters)}
        return sorted(found)[:limit]

    def due(self, task_type: str, now: Instant, limit: int) -> Sequence[Sequence[Entry]]:
        given = {"task_type": task_type, "now": now, "limit": limit}
        if self._database == "sqlite":
            lanes = [row[0] for row in self._all(_LANES, {"task_type": task_type})]
            return [self._entries(_LANE, **given, priority=priority) for priority in lanes]
        # In one go, with the heads of the lanes, which whoever finds less than it wants asks for next.
        heads: dict[int, Instant | None] = {}
        found: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
        for priority, head, *row in self._all(_ALL_LANES, given):
            heads[priority] = head
            if row[0] is not None:
                found[priority].append(row)
        self._heads[task_type, now] = list(heads.values())
        return list(map(self._found_in, found.values()))

    def next_due(self, task_type: str, after: Instant) -> Instant | None:
        heads = self._heads.get((task_type, after))
        if heads is None:
            heads = [row[0] for row in self._all(_HEADS, {"task_type": task_type, "after": after})]
        return min((head for head in heads if head is not None), default=None)

    def expired_leases(self, now: Instant, limit: int) -> Sequence[Entry]:
        return self._entries(_expired_leases_statement(type(self._dialect)), now=now, limit=limit)

    def extend_leases(self, until: Instant) -> int:
        return self._connection.execute(_EXTEND_LEASES, {"until": until}).rowcount

    def set_back_leases(self, by_ms: Millis, until: Instant) -> None:
        self._connection.execute(_SET_BACK_LEASES, {"by_ms": by_ms, "until": until})

    def claimed(self, instance: str, claim_id: str) -> Sequence[Entry]:
        return self._entries(_claimed_statement(type(self._dialect)), instance=instance, claim_id=claim_id)

    def expired(self, now: Instant, limit: int) -> Sequence[Entry]:
        return self._entries(_expired_statement(type(self._dialect)), now=now, limit=limit)

    def purgeable(self, now: Instant, limit: int) -> Sequence[Entry]:
        return self._entries(_purgeable_statement(type(self._dialect)), now=now, limit=limit)

    def forget(self, now: Instant, limit: int) -> int:
        rows = self._all(_FORGETTABLE, {"now": now, "limit": limit})
        for task_type, group in groupby(rows, key=lambda row: row[0]):
            keys = self._dialect.keys([row[1] for row in group])
            self._connection.execute(_forget_statement(type(self._dialect)), {"task_type": task_type, "keys": keys})
        return len(rows)

    def owned(self, task_type: str, owner: str) -> int:
        # Two callers of one owner must not both see the last free place.
        self._dialect.lock_names(self._connection, [f"owner:{task_type}:{owner}"])
        return self._connection.execute(_OWNED, {"task_type": task_type, "owner": owner}).scalar_one()

    # --- serials ---

    def lock_serials(self, serials: Sequence[tuple[str, str]], *, wait: bool) -> Collection[tuple[str, str]]:
        names = {f"serial:{name}:{serial}": (name, serial) for name, serial in serials}
        return [names[name] for name in self._dialect.lock_names(self._connection, list(names), wait=wait)]

    def running_under(self, task_type: str, serials: Collection[str]) -> Mapping[str, int]:
        given = {"task_type": task_type, "keys": self._dialect.keys(serials)}
        return {row[0]: row[1] for row in self._all(_running_under_statement(type(self._dialect)), given)}

    def with_parked(self, task_type: str, serials: Collection[str]) -> Collection[str]:
        given = {"task_type": task_type, "keys": self._dialect.keys(serials)}
        return {row[0] for row in self._all(_with_parked_statement(type(self._dialect)), given)}

    def parked(self, task_type: str, serial: str, aging_ms: Millis, limit: int) -> Sequence[Entry]:
        parameters = {"task_type": task_type, "serial": serial, "aging": aging_ms, "limit": limit}
        found = self._entries(_parked_statement(type(self._dialect)), **parameters)
        return sorted(found, key=lambda entry: _rank_of(entry, aging_ms))

    def idle_serials(self, limit: int) -> Sequence[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._all(_IDLE_SERIALS, {"limit": limit})]

    # --- types, counters, tokens ---

    def types(self) -> Mapping[str, TypeRecord]:
        return {
            name: TypeRecord(decode_task_type(config), decode_overrides(overrides))
            for name, config, overrides in self._types_read()
        }

    def _types_read(self) -> Sequence[Any]:
        rows = self._connection.info.pop(READ_FIRST, None)
        return self._all(_TYPES) if rows is None else rows

    def put_type(self, record: TypeRecord) -> None:
        row = {
            "name": record.task_type.name,
            "config": encode_task_type(record.task_type),
            "overrides": msgspec.json.encode(record.overrides).decode(),
        }
        self._put(tables.task_types, row)

    def _put(self, table: Table, row: Mapping[str, object]) -> None:
        self._connection.execute(_put_statement(self._database, table), row)

    def tokens(self, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]:
        return self._dialect.tokens(self._connection, count, claim_id, now, above)

    def pending(self, task_type: str) -> int:
        if task_type not in self._pending:
            self._pending[task_type] = self._connection.execute(_PENDING, {"task_type": task_type}).scalar_one()
        return self._pending[task_type]

    def count(self, deltas: Mapping[str, Mapping[str, int]]) -> None:
        self._pending.clear()
        zeros = dict.fromkeys(tables.COUNTERS, 0)
        for name, counts in sorted(deltas.items()):
            row = {"task_type": name, "shard": self._shard, **zeros, **counts}
            write_later(self._connection, _count_statement(self._database), row)

    def note(self, name: str, value: str, *, replace: bool) -> None:
        if replace:
            self._put(tables.meta, {"name": f"{_NOTE}{name}", "value": value})
        else:
            given = {"b_name": f"{_NOTE}{name}", "b_value": value}
            self._connection.execute(_first_note_statement(self._database), given)

    def noted(self, name: str) -> str | None:
        return self._connection.execute(_META, {"name": f"{_NOTE}{name}"}).scalar()

    def bucket(self, name: str) -> Bucket | None:
        self._dialect.lock_names(self._connection, [f"bucket:{name}"])
        row = self._connection.execute(_BUCKET, {"name": name}).first()
        return None if row is None else Bucket(row[0], row[1])

    def put_bucket(self, name: str, bucket: Bucket) -> None:
        self._put(tables.buckets, {"name": name, "tokens": bucket.tokens, "at": bucket.at})

    # --- the run log, and what comes after ---

    def log(self, runs: Sequence[RunRecord]) -> None:
        write_later(self._connection, *logging(self._database, list(map(values_of_run, runs))))

    def drop_runs(self, before: Instant, limit: int) -> int:
        oldest = self._all(_OLDEST_RUNS, {"limit": limit})
        dropped = [{"b_id": run_id} for run_id, started_at in oldest if started_at < before]
        if dropped:
            self._connection.execute(_DROP_RUN, dropped)
        return len(dropped)

    def append_completions(self, completions: Sequence[Completion]) -> None:
        # Its place in the log is what the table gives it.
        rows = [dict(zip(_COMPLETION_COLUMNS, completion, strict=False)) for completion in completions]
        self._connection.execute(_APPEND_COMPLETION, rows)

    def take_completions(self, limit: int) -> Sequence[Completion]:
        rows = self._all(_take_completions_statement(type(self._dialect)), {"limit": limit})
        if rows:
            self._connection.execute(_FORGET_COMPLETION, [{"b_id": row[0]} for row in rows])
        return [Completion(*row[1:]) for row in rows]

    def completed_for(self, identity: Identity) -> set[str]:
        return {row[0] for row in self._all(_COMPLETED_FOR, identity._asdict())}

    def mark_completed(self, identity: Identity, task_type: str, log_id: str | None = None) -> bool:
        # Two completions for one identity must each see that the other has arrived.
        self._dialect.lock_names(self._connection, [f"after:{identity}"])
        row = {**identity._asdict(), "arrived": task_type}
        self._connection.execute(_insert_new(self._database, tables.after_needs), row)
        return True

    def clear_completed(self, identities: Collection[Identity]) -> None:
        self._connection.execute(_CLEAR_COMPLETED, [{"b_type": t, "b_key": k} for t, k in identities])

    forget_completed = clear_completed

    # --- what ran, over time ---

    def slices(self, resolution: Resolution, keys: Collection[SliceKey]) -> Sequence[Slice]:
        # Whoever adds waits for whoever is adding, also where there is no row to be locked yet.
        self._dialect.lock_names(self._connection, ["history"])
        found = [self._connection.execute(_SLICE, _slice_key(resolution, key)).scalar() for key in sorted(keys)]
        return [decode_slice(text) for text in found if text is not None]

    def put_slices(self, resolution: Resolution, slices: Sequence[Slice]) -> None:
        for each in slices:
            self._put(tables.history, {**_slice_key(resolution, each.key), "slice": msgspec.json.encode(each).decode()})

    def drop_slices(self, resolution: Resolution, before: Instant) -> None:
        self._connection.execute(_DROP_SLICES, {"span": resolution.value, "before": before})

    # --- what a run leaves, and failures by groups ---

    def put_details(self, left: Sequence[RunLeft], user_ids: Sequence[str | None], now: Instant) -> None:
        for (run, details), user_id in sorted(zip(left, user_ids, strict=True), key=itemgetter(0)):
            row = {**run._asdict(), "user_id": user_id, "written_at": now, "details": details}
            self._put(run_details, row)
            given = {"b_type": run.task_type, "b_key": run.key, "kept": DETAILED_RUNS}
            self._connection.execute(_DROP_EARLIER_DETAILS, given)

    def drop_details(self, identities: Collection[Identity]) -> None:
        self._connection.execute(_DROP_DETAILS, [{"b_type": t, "b_key": k} for t, k in identities])

    def drop_old_details(self, before: Instant, limit: int) -> None:
        rows = self._all(_OLD_DETAILS, {"before": before, "limit": limit})
        if rows:
            self._connection.execute(_DROP_DETAILS_OF_RUN, [_details_key(row) for row in rows])

    def failure_groups(self, task_type: str) -> Sequence[FailureGroup]:
        # Whoever adds waits for whoever is adding, also where there is no row to be locked yet.
        self._dialect.lock_names(self._connection, [f"failures:{task_type}"])
        rows = self._connection.execute(_FAILURE_GROUPS, {"task_type": task_type})
        return [decode_failure_group(row[0]) for row in rows]

    def put_failure_groups(self, groups: Sequence[FailureGroup], dropped: Sequence[FailureKey]) -> None:
        for each in groups:
            row = {"task_type": each.task_type, "id": each.id, "last_at": each.last_at}
            self._put(failure_groups, {**row, "failure_group": msgspec.json.encode(each).decode()})
        if dropped:
            self._connection.execute(_DROP_FAILURE_GROUP, [{"b_type": t, "b_id": i} for t, i in dropped])

    def drop_failure_groups(self, before: Instant) -> None:
        self._connection.execute(_DROP_OLD_FAILURE_GROUPS, {"before": before})

    # --- one user's data ---

    def known_of(
        self, user_id: str, *, until: Instant | None = None, after: Identity | None = None, limit: int
    ) -> Sequence[Identity]:
        task_type, key = ("", "") if after is None else after
        asked = {"user_id": user_id, "until": until, "task_type": task_type, "key": key, "limit": limit}
        found = {Identity(*row) for row in self._all(_KNOWN_OF if until is None else _ERASABLE_OF, asked)}
        # What is left of a purged task names its user only by its key.
        prefix = encoded(user_id)
        for name, record in self.types().items():
            given = {"task_type": name, "first": prefix, "from": f"{prefix}:", "to": f"{prefix};"}
            for statement in _REMAINS_OF if record.task_type.after else _REMAINS_OF[:1]:
                found.update(Identity(*row) for row in self._all(statement, {**given, "until": until or _NEVER}))
        return sorted(identity for identity in found if after is None or identity > after)[:limit]

    def running_of(self, user_id: str, until: Instant) -> int:
        return self._connection.execute(_RUNNING_OF, {"user_id": user_id, "until": until}).scalar_one()

    def drop_runs_of(self, user_id: str, until: Instant, limit: int) -> int:
        rows = self._all(_OLD_RUNS_OF, {"user_id": user_id, "until": until, "limit": limit})
        if rows:
            self._connection.execute(_DROP_RUN, [{"b_id": row[0]} for row in rows])
            self._connection.execute(_DROP_DETAILS_OF_RUN, [_details_key(row[1:]) for row in rows])
        return len(rows)

    def drop_completions(self, user_id: str, until: Instant) -> None:
        self._connection.execute(_DROP_COMPLETIONS, {"user_id": user_id, "until": until})

    def erasure(self, user_id: str) -> Erasure | None:
        self._dialect.lock_names(self._connection, [f"erasure:{user_id}"])
        row = self._connection.execute(_ERASURE, {"user_id": user_id}).first()
        return None if row is None else decode_erasure(row)

    def put_erasure(self, erasure: Erasure) -> None:
        self._put(tables.erasures, asdict(erasure))

    def drop_erasures(self, before: Instant) -> None:
        self._connection.execute(_DROP_ERASURES, {"before": before})

    # --- instances ---

    def beat(self, beat: Beat, now: Instant) -> None:
        row = {"instance": beat.instance, "beat": msgspec.json.encode(beat).decode(), "seen_at": now}
        self._put(tables.instances, row)

    def swept_at(self, now: Instant) -> Instant | None:
        noted = self._connection.execute(_META, {"name": _SWEPT_AT}).scalar()
        seen_at = self._connection.execute(_LAST_SEEN, {"now": now}).scalar()
        return max((int(value) for value in (noted, seen_at) if value is not None), default=None)

    def set_swept_at(self, now: Instant) -> None:
        note = {"b_name": _SWEPT_AT, "b_value": str(now)}
        if self._connection.execute(_note_statement(type(self._dialect)), note).rowcount == 0:
            self._connection.execute(_first_note_statement(self._database), note)

    def instances(self) -> Sequence[Instance]:
        return [Instance(beat=decode_beat(beat), seen_at=seen_at) for beat, seen_at in self._all(_INSTANCES)]

    def leave(self, instance: str) -> None:
        self._connection.execute(_LEAVE, {"b_instance": instance})

    def drop_instances(self, before: Instant) -> int:
        return self._connection.execute(_DROP_INSTANCES, {"before": before}).rowcount


# --- statements -----------------------------------------------------------------------------------------------------

_OF_TYPE = _c.task_type == bindparam("task_type")
_DELETE = delete(tasks).where(_c.task_type == bindparam("b_type"), _c.key == bindparam("b_key"))
_LANES = select(tables.lanes.c.priority).where(tables.lanes.c.task_type == bindparam("task_type"))
_IS_DUE = and_(_IS_PENDING, _c.scheduled_at <= bindparam("now"))
_LANE = SqliteDialect.in_one_row(
    _ENTRY.where(_OF_TYPE, _c.priority == bindparam("priority"), _IS_DUE)
    .order_by(_c.scheduled_at, _c.key)
    .limit(bindparam("limit"))
)


_IN_LANE = and_(_c.task_type == tables.lanes.c.task_type, _c.priority == tables.lanes.c.priority)
_OF_LANES = tables.lanes.c.task_type == bindparam("task_type")


def _head(after: str) -> ScalarSelect[Instant]:
    """When the first task of a lane is due that is due later than the parameter says. One probe of the index for each
    lane: a minimum over all of them would read every pending task."""
    return (
        select(_c.scheduled_at)
        .where(_IN_LANE, _IS_PENDING, _c.scheduled_at > bindparam(after))
        .order_by(_c.scheduled_at)
        .limit(1)
        .correlate(tables.lanes)
        .scalar_subquery()
    )


_HEADS = select(_head("after")).where(_OF_LANES)
# For PostgreSQL: each lane with its head and its first ones, or with nothing. The heads are found first, once a lane.
_heads = (
    select(tables.lanes.c.priority, _head("now").label("head"))
    .where(_OF_LANES)
    .cte("heads")
    .prefix_with("MATERIALIZED")
)
_first_ones = (
    _ENTRY.where(_OF_TYPE, _c.priority == _heads.c.priority, _IS_DUE)
    .order_by(_c.scheduled_at, _c.key)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
    .lateral("first_ones")
)
_ALL_LANES = select(_heads, _first_ones).select_from(_heads.outerjoin(_first_ones, true()))
_EXTEND_LEASES = (
    update(tasks)
    .where(_IS_RUNNING, _c.lease_until < bindparam("until"), _c.extended == literal_column("0"))
    .values(lease_until=bindparam("until"), extended=literal_column("1"))
)
_IS_LATER = _c.lease_until - bindparam("by_ms", type_=BigInteger) > bindparam("until", type_=BigInteger)
_SET_BACK_LEASES = (
    update(tasks)
    .where(_IS_RUNNING)
    .values(
        lease_until=case(
            (_IS_LATER, _c.lease_until - bindparam("by_ms", type_=BigInteger)),
            else_=bindparam("until", type_=BigInteger),
        )
    )
)
_FORGETTABLE = (
    select(_c.task_type, _c.key)
    .where(_c.status.is_(None), or_(_c.forget_at.is_(None), _c.forget_at <= bindparam("now")))
    .order_by(_c.task_type, _c.key)
    .limit(bindparam("limit"))
)
_OWNED = select(func.count()).select_from(tasks).where(_OF_TYPE, _c.owner == bindparam("owner"), _IS_LIVE)
_OF_SERIAL = and_(_OF_TYPE, _c.serial == bindparam("serial"))
_held = tasks.alias("held")
_IDLE_SERIALS = (
    select(_c.task_type, _c.serial)
    .where(
        _IS_PARKED,
        _c.serial.is_not(None),
        ~select(_held.c.key)
        .where(
            _held.c.task_type == _c.task_type,
            _held.c.serial == _c.serial,
            _held.c.status == literal_column("'running'"),
        )
        .exists(),
    )
    .distinct()
    .order_by(_c.task_type, _c.serial)
    .limit(bindparam("limit"))
)
TYPES = "SELECT name, config, overrides FROM task_types"
"""What every step reads first."""
_TYPES = text(TYPES)
_PENDING = select(func.coalesce(func.sum(tables.task_counts.c.pending), 0)).where(
    tables.task_counts.c.task_type == bindparam("task_type")
)
_BUCKET = select(tables.buckets.c.tokens, tables.buckets.c.at).where(tables.buckets.c.name == bindparam("name"))
_APPEND_COMPLETION = insert(tables.after_log)
_COMPLETION_COLUMNS: tuple[str, ...] = ("task_type", "key", "user_id", "device_id", "agent_id", "trace")
_OLDEST_RUNS = (
    select(tables.run_logs.c.id, tables.run_logs.c.started_at).order_by(tables.run_logs.c.id).limit(bindparam("limit"))
)
_DROP_RUN = delete(tables.run_logs).where(tables.run_logs.c.id == bindparam("b_id"))
_FORGET_COMPLETION = delete(tables.after_log).where(tables.after_log.c.id == bindparam("b_id"))
_needs = tables.after_needs.c
_COMPLETED_FOR = select(_needs.arrived).where(
    _needs.task_type == bindparam("task_type"), _needs.key == bindparam("key")
)
_CLEAR_COMPLETED = delete(tables.after_needs).where(
    _needs.task_type == bindparam("b_type"), _needs.key == bindparam("b_key")
)
_BEHIND = tuple_(bindparam("task_type", type_=Text), bindparam("key", type_=Text))
_KNOWN = (
    select(_c.task_type, _c.key)
    .where(tuple_(_c.task_type, _c.key) > _BEHIND)
    .order_by(_c.task_type, _c.key)
    .limit(bindparam("limit"))
)
_WAITED_FOR = (
    select(_needs.task_type, _needs.key)
    .distinct()
    .where(tuple_(_needs.task_type, _needs.key) > _BEHIND)
    .order_by(_needs.task_type, _needs.key)
    .limit(bindparam("limit"))
)
_history = tables.history.c
_SLICE = select(_history.slice).where(
    _history.span == bindparam("span"),
    _history.start_at == bindparam("start_at"),
    _history.task_type == bindparam("task_type"),
    _history.trigger_mode == bindparam("trigger_mode"),
)
_DROP_SLICES = delete(tables.history).where(_history.span == bindparam("span"), _history.start_at < bindparam("before"))
_details = run_details.c
_OF_IDENTITY = and_(_details.task_type == bindparam("b_type"), _details.key == bindparam("b_key"))
_DROP_DETAILS = delete(run_details).where(_OF_IDENTITY)
_DROP_DETAILS_OF_RUN = _DROP_DETAILS.where(_details.token == bindparam("b_token"))
_DROP_EARLIER_DETAILS = _DROP_DETAILS.where(
    _details.token
    <= select(_details.token)
    .where(_OF_IDENTITY)
    .order_by(_details.token.desc())
    .offset(bindparam("kept"))
    .limit(1)
    .correlate(None)
    .scalar_subquery()
)
_OLD_DETAILS = (
    select(_details.task_type, _details.key, _details.token)
    .where(_details.written_at < bindparam("before"))
    .order_by(_details.written_at)
    .limit(bindparam("limit"))
)
_FAILURE_GROUPS = select(failure_groups.c.failure_group).where(failure_groups.c.task_type == bindparam("task_type"))
_DROP_FAILURE_GROUP = delete(failure_groups).where(
    failure_groups.c.task_type == bindparam("b_type"), failure_groups.c.id == bindparam("b_id")
)
_DROP_OLD_FAILURE_GROUPS = delete(failure_groups).where(failure_groups.c.last_at < bindparam("before"))
_UNTIL = bindparam("until", type_=BigInteger)
_OF_USER = _c.user_id == bindparam("user_id")
_KNOWN_OF = (
    select(_c.task_type, _c.key)
    .where(_OF_USER, tuple_(_c.task_type, _c.key) > _BEHIND)
    .order_by(_c.task_type, _c.key)
    .limit(bindparam("limit"))
)
_IS_OLD_PAST = and_(func.coalesce(_c.last_exec_at, 0) <= _UNTIL, func.coalesce(_c.last_claimed_at, 0) <= _UNTIL)
_HAS_PAST = or_(
    _c.last_exec_at.is_not(None),
    _c.last_claimed_at.is_not(None),
    _c.fail_count > 0,
    _c.fail_until.is_not(None),
    _c.forget_at.is_not(None),
)
# The rules of stores/users.py, as the database reads them.
_IS_ERASABLE = or_(
    and_(_c.created_at <= _UNTIL, or_(_c.status != literal_column("'running'"), _c.want != literal_column("'cancel'"))),
    and_(_c.created_at > _UNTIL, _HAS_PAST, _IS_OLD_PAST),
)
_ERASABLE_OF = _KNOWN_OF.where(_IS_ERASABLE)


def _of_prefix(key: ColumnElement[str]) -> ColumnElement[bool]:
    """ ";" follows ":" in the order of bytes: between them lies whatever begins with the user and a colon."""
    return or_(key == bindparam("first"), and_(key >= bindparam("from"), key < bindparam("to")))


_REMAINS_OF = (
    select(_c.task_type, _c.key).where(_OF_TYPE, _c.status.is_(None), _of_prefix(_c.key), _IS_OLD_PAST),
    select(_needs.task_type, _needs.key)
    .distinct()
    .outerjoin(tasks, and_(_c.task_type == _needs.task_type, _c.key == _needs.key))
    .where(_needs.task_type == bindparam("task_type"), _of_prefix(_needs.key), _c.status.is_(None), _IS_OLD_PAST),
)
_RUNNING_OF = select(func.count()).select_from(tasks).where(_OF_USER, _IS_RUNNING, _c.created_at <= _UNTIL)


def _is_newer(task_type: ColumnElement[str], key: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the identity of a row has a task now that was made after the erasure was asked for."""
    return select(_c.key).where(_c.task_type == task_type, _c.key == key, _c.created_at > _UNTIL).exists()


_runs = tables.run_logs.c
_OLD_RUNS_OF = (
    select(_runs.id, _runs.task_type, _runs.key, _runs.token)
    .where(
        _runs.user_id == bindparam("user_id"), or_(_runs.started_at <= _UNTIL, ~_is_newer(_runs.task_type, _runs.key))
    )
    .order_by(_runs.id)
    .limit(bindparam("limit"))
)
_completions = tables.after_log.c
_DROP_COMPLETIONS = delete(tables.after_log).where(
    _completions.user_id == bindparam("user_id"), ~_is_newer(_completions.task_type, _completions.key)
)
_ERASURE = select(*ERASURE_COLUMNS).where(tables.erasures.c.user_id == bindparam("user_id"))
_DROP_ERASURES = delete(tables.erasures).where(tables.erasures.c.done_at < bindparam("before"))
_SWEPT_AT = "swept_at"
_NOTE = "note:"
"""What the names of notes begin with: the table holds other things as well."""
_META = select(tables.meta.c.value).where(tables.meta.c.name == bindparam("name"))
_LAST_SEEN = select(func.max(tables.instances.c.seen_at)).where(tables.instances.c.seen_at <= bindparam("now"))
_INSTANCES = select(tables.instances.c.beat, tables.instances.c.seen_at).order_by(tables.instances.c.instance)
_DROP_INSTANCES = delete(tables.instances).where(tables.instances.c.seen_at < bindparam("before"))
_LEAVE = delete(tables.instances).where(tables.instances.c.instance == bindparam("b_instance"))


@cache
def _load_statement(dialect: type[Dialect]) -> Executable:
    return dialect.in_one_row(dialect.by_keys(dialect.locked(_ENTRY.where(_OF_TYPE)), _c.key))


@cache
def _expired_leases_statement(dialect: type[Dialect]) -> Executable:
    return _first(dialect, and_(_IS_RUNNING, _c.lease_until <= bindparam("now")), _c.lease_until)


@cache
def _expired_statement(dialect: type[Dialect]) -> Executable:
    over = and_(_c.expires_at.is_not(None), _c.expires_at <= bindparam("now"))
    return _first(dialect, and_(_IS_WAITING, over), _c.expires_at)


@cache
def _purgeable_statement(dialect: type[Dialect]) -> Executable:
    return _first(dialect, and_(_c.purge_at.is_not(None), _c.purge_at <= bindparam("now")), _c.purge_at)


def _first(dialect: type[Dialect], condition: ColumnElement[bool], order: ColumnElement[Any]) -> Executable:
    query = _ENTRY.where(condition).order_by(order, _c.task_type, _c.key).limit(bindparam("limit"))
    return dialect.in_one_row(dialect.locked(query, pass_over=True))


@cache
def _claimed_statement(dialect: type[Dialect]) -> Executable:
    mine = and_(_IS_RUNNING, _c.instance == bindparam("instance"), _c.claim_id == bindparam("claim_id"))
    return dialect.in_one_row(dialect.locked(_ENTRY.where(mine).order_by(_c.task_type, _c.key)))


@cache
def _running_under_statement(dialect: type[Dialect]) -> Executable:
    among = dialect.among(_c.serial)
    return select(_c.serial, func.count()).where(_OF_TYPE, among, _IS_RUNNING).group_by(_c.serial)


@cache
def _with_parked_statement(dialect: type[Dialect]) -> Executable:
    return select(_c.serial).distinct().where(_OF_TYPE, dialect.among(_c.serial), _IS_PARKED)


@cache
def _parked_statement(dialect: type[Dialect]) -> Executable:
    order = _c.scheduled_at - _c.priority * bindparam("aging", type_=BigInteger)
    query = _ENTRY.where(_OF_SERIAL, _IS_PARKED).order_by(order, _c.scheduled_at, _c.key).limit(bindparam("limit"))
    return dialect.in_one_row(dialect.locked(query))


@cache
def _forget_statement(dialect: type[Dialect]) -> Executable:
    return delete(tasks).where(_OF_TYPE, dialect.among(_c.key), _c.status.is_(None))


@cache
def _take_completions_statement(dialect: type[Dialect]) -> Executable:
    log = tables.after_log.c
    query = select(log.id, *(log[name] for name in _COMPLETION_COLUMNS))
    return dialect.locked(query.order_by(log.id).limit(bindparam("limit")), pass_over=True)


@cache
def _insert_new(database: str, table: Table) -> Executable:
    return upsert(database, table).on_conflict_do_nothing()


@cache
def _put_statement(database: str, table: Table) -> Executable:
    statement = upsert(database, table)
    key = [column.name for column in table.primary_key]
    new = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=key, set_=new)


@cache
def _note_statement(dialect: type[Dialect]) -> Executable:
    """One row for all instances: whoever finds it held by another, who may be frozen, leaves it at that."""
    name = tables.meta.c.name
    free = dialect.locked(select(name).where(name == bindparam("b_name")), pass_over=True)
    return update(tables.meta).where(name.in_(free)).values(value=bindparam("b_value"))


@cache
def _first_note_statement(database: str) -> Executable:
    """Only where there is none yet: a conflict with a row that is being changed would be waited for."""
    given = [bindparam("b_name", type_=Text), bindparam("b_value", type_=Text)]
    there = select(tables.meta.c.name).where(tables.meta.c.name == given[0]).exists()
    statement = upsert(database, tables.meta).from_select(["name", "value"], select(*given).where(~there))
    return statement.on_conflict_do_nothing()


@cache
def _count_statement(database: str) -> Executable:
    statement = upsert(database, tables.task_counts)
    new = {name: tables.task_counts.c[name] + statement.excluded[name] for name in tables.COUNTERS}
    return statement.on_conflict_do_update(index_elements=["task_type", "shard"], set_=new)


def _slice_key(resolution: Resolution, key: SliceKey) -> dict[str, object]:
    start_at, task_type, trigger_mode = key
    return {"span": resolution.value, "start_at": start_at, "task_type": task_type, "trigger_mode": trigger_mode}


def _rank_of(entry: Entry, aging_ms: int) -> tuple[int, int, str]:
    assert entry.task is not None
    return rank(entry.task, aging_ms)


def _details_key(row: Sequence[Any]) -> dict[str, object]:
    task_type, key, token = row
    return {"b_type": task_type, "b_key": key, "b_token": token}
