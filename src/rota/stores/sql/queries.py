"""Looking into the store: pages of tasks and of run records, and what decides when a task runs. Reads only.

A page looks at a bounded number of rows, in an order that an index has: first so many rows are taken along the index
that knows most of what is asked, then the rest of the question is put to those. Where a state has few tasks, which the
kept counters tell, all of them are taken and sorted instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
)

from rota.clock import Instant
from rota.core.bucket import Bucket, rate_bucket, start_bucket
from rota.core.failure import decode_failure_group
from rota.core.history import Resolution, Slice, decode_slice
from rota.core.rank import rank
from rota.core.task import NO_PAST, Entry, Identity, RunRecord, Task, TaskStatus
from rota.core.task_type import RateLimit, decode_task_type
from rota.database.backends.postgres import PostgresDialect
from rota.database.backends.sqlite import SqliteDialect
from rota.database.later import read_later
from rota.database.tables import tasks as tables
from rota.database.tables.failures import failure_groups, run_details
from rota.database.tables.tasks import run_logs, tasks
from rota.keys import GLOBAL_KEY
from rota.stores.base import (
    MAX_AHEAD,
    MAX_PAGE,
    MOST_COUNTED,
    Counts,
    Erasure,
    Failures,
    Page,
    QueuePosition,
    RunQuery,
    RunRef,
    TaskQuery,
    TypeRecord,
    decode_overrides,
    page_of,
)
from rota.stores.limits import check_cursor
from rota.stores.queries import LOOKED_AT, Bound, bounds, tokens_now, unknown_type
from rota.stores.sql.codec import (
    ENTRY_COLUMNS,
    ERASURE_COLUMNS,
    RUN_COLUMNS,
    decode_entry,
    decode_erasure,
    decode_rows,
    decode_run,
)

__all__ = [
    "ASKED_OF_RUNS",
    "IS_PARKED",
    "IS_PENDING",
    "LANES",
    "along",
    "between",
    "counts",
    "details",
    "erasures",
    "failures",
    "find",
    "get",
    "history",
    "in_state",
    "looked_at_of",
    "matches",
    "next_due_by_type",
    "of_type",
    "queue_position",
    "runs",
    "runs_along",
    "runs_between",
    "whole_runs",
]

Condition = ColumnElement[bool]
AnyDialect = type[SqliteDialect] | type[PostgresDialect]

_c = tasks.c
IS_PENDING = and_(_c.status == literal_column("'pending'"), _c.parked == literal_column("0"))
IS_PARKED = and_(_c.status == literal_column("'pending'"), _c.parked == literal_column("1"))
_SET_ASIDE = frozenset({TaskStatus.FAILED, TaskStatus.PAUSED, TaskStatus.CANCELLED})
"""The states that have an index in the order of pages."""

# --- tasks ----------------------------------------------------------------------------------------------------------


def get(connection: Connection, identities: Sequence[Identity]) -> list[Task | None]:
    """The tasks in the order asked, type by type: a list of pairs would make SQLite read every row."""
    dialect = _dialect_of(connection)
    found: dict[Identity, Task] = {}
    for task_type, group in groupby(sorted(set(identities)), key=lambda identity: identity.task_type):
        given = {"task_type": task_type, "keys": dialect.keys([identity.key for identity in group])}
        found.update({task.identity: task for task in _tasks(connection, _get_statement(dialect), given)})
    return [found.get(identity) for identity in identities]


def _dialect_of(connection: Connection) -> AnyDialect:
    return SqliteDialect if connection.dialect.name == "sqlite" else PostgresDialect


def _tasks(connection: Connection, statement: Select[Any], given: Mapping[str, object]) -> list[Task]:
    """What a query of entries finds, in one step of the database."""
    rows = read_later(connection, statement, given).rows()
    if connection.dialect.name == "sqlite":
        rows = decode_rows(rows[0][0])
    return [task for row in rows if (task := decode_entry(row).task) is not None]


@cache
def _get_statement(dialect: AnyDialect) -> Select[Any]:
    of_type = select(*ENTRY_COLUMNS).where(_c.task_type == bindparam("task_type"))
    return dialect.in_one_row(dialect.by_keys(of_type, _c.key))


# --- pages ----------------------------------------------------------------------------------------------------------


def find(connection: Connection, query: TaskQuery) -> Page[Task]:
    is_small = query.status in _FEW and query.user_id is query.owner is query.failure is None
    if is_small and _are_few(connection, query):
        return _whole(connection, _among_few(connection, query), query.limit)
    if not _asks_more(query):
        return _straight(connection, query)
    within = [_c.status.is_not(None), along(query), *of_type(query), *_behind(query)]
    looked_at = looked_at_of(*within).order_by(_c.task_type, _c.key).limit(LOOKED_AT).subquery().c
    named = select(looked_at.task_type, looked_at.key).where(*matches(looked_at, query, connection.dialect.name))
    first = named.order_by(looked_at.task_type, looked_at.key).limit(query.limit + 1)
    page = _whole(connection, [Identity(*row) for row in connection.execute(first)], query.limit)
    if page.cursor is not None:
        return page
    last = select(_c.task_type, _c.key).where(*within).order_by(_c.task_type, _c.key).offset(LOOKED_AT - 1).limit(1)
    row = connection.execute(last).first()
    return page if row is None else Page(page.items, str(Identity(*row)))


def _straight(connection: Connection, query: TaskQuery) -> Page[Task]:
    """Where the index knows everything that is asked, nobody need look further than the page."""
    after = None if query.cursor is None else check_cursor(query.cursor)
    given = {
        "user_id": query.user_id,
        "owner": query.owner,
        "task_type": query.task_type,
        "after_type": after and after.task_type,
        "after_key": after and after.key,
        "most": query.limit + 1,
    }
    shape = _Shape(
        along="user_id" if query.user_id is not None else "owner" if query.owner is not None else None,
        status=query.status,
        of_type=query.task_type is not None,
        behind=None if after is None else "key" if after.task_type == query.task_type else "identity",
    )
    found = _tasks(connection, _straight_statement(_dialect_of(connection), shape), given)
    return page_of(found, query.limit, lambda task: str(task.identity))


class _Shape(NamedTuple):
    """All that the text of a statement depends on."""

    along: Literal["user_id", "owner"] | None
    status: TaskStatus | None
    of_type: bool
    behind: Literal["key", "identity"] | None


_LAST_SEEN = tuple_(bindparam("after_type", type_=Text), bindparam("after_key", type_=Text))


@cache
def _straight_statement(dialect: AnyDialect, shape: _Shape) -> Select[Any]:
    """Made once for each shape: to make a statement takes longer than to run it."""
    within: list[Condition] = [_c.status.is_not(None)]
    if shape.along is not None:
        within.append(_c[shape.along] == bindparam(shape.along))
    elif shape.status is not None:
        within.append(in_state(shape.status))
    if shape.of_type:
        within.append(_c.task_type == bindparam("task_type"))
    if shape.behind == "key":
        within.append(_c.key > bindparam("after_key"))
    elif shape.behind == "identity":
        within.append(tuple_(_c.task_type, _c.key) > _LAST_SEEN)
    page = select(*ENTRY_COLUMNS).where(*within).order_by(_c.task_type, _c.key).limit(bindparam("most"))
    return dialect.in_one_row(page)


def looked_at_of(*conditions: Condition) -> Select[Any]:
    """What must be known of a task to see whether it matches; whole rows are read of those that do."""
    columns: list[ColumnElement[Any]] = [_c.task_type, _c.key, _c.status, _c.user_id, _c.owner]
    columns += [_c.scheduled_at, _c.updated_at, _c.attempt]
    return select(*columns, _c.trigger.is_not(None).label("has_trigger")).where(*conditions)


def _whole(connection: Connection, identities: list[Identity], limit: int) -> Page[Task]:
    """The page out of the identities that were found when one more than `limit` was asked for."""
    page = page_of(identities, limit, str)
    return Page([task for task in get(connection, page.items) if task is not None], page.cursor)


def _asks_more(query: TaskQuery) -> bool:
    """Whether more is asked than the index that is walked along knows."""
    if query.failure is not None:
        return True
    if query.user_id is not None or query.owner is not None:
        others = [query.user_id is not None and query.owner is not None, query.status, query.schedules]
    elif query.status is not None:
        others = [query.status not in _SET_ASIDE, query.schedules]
    else:
        # The global task of a type is no schedule, and must be passed over.
        others = [query.schedules]
    is_ranged = not query.since_at is query.until_at is None
    return any(others) or query.without is not None or query.search is not None or is_ranged


def along(query: TaskQuery) -> Condition:
    """The condition of the index that knows most of what is asked, and has the order of pages."""
    if query.failure is not None:
        of_failure = _c.failure == query.failure
        return of_failure if query.status is None else of_failure & in_state(query.status)
    if query.user_id is not None:
        return _c.user_id == query.user_id
    if query.owner is not None:
        return _c.owner == query.owner
    if query.status is not None and query.status in _SET_ASIDE:
        return in_state(query.status)
    return _c.trigger.is_not(None) if query.schedules else _c.status.is_not(None)


def in_state(status: TaskStatus) -> Condition:
    # A literal: a partial index is only taken when its condition can be read in the statement.
    return _c.status == literal_column(f"'{status.value}'", Text)


_FEW: Mapping[TaskStatus | None, tuple[tuple[Condition, ...], ...]] = {
    TaskStatus.PENDING: ((IS_PENDING,), (IS_PARKED,)),
    TaskStatus.RUNNING: ((in_state(TaskStatus.RUNNING),),),
    TaskStatus.COMPLETED: ((_c.purge_at.is_not(None), in_state(TaskStatus.COMPLETED)),),
}
"""States whose index has another order than pages have: all that are in it are taken, if they are few."""


def _are_few(connection: Connection, query: TaskQuery) -> bool:
    kept = counts(connection)
    match query.status:
        case TaskStatus.PENDING if query.task_type is not None:
            # This index begins with the type: those of other types are not looked at.
            return kept.get(query.task_type, Counts()).pending <= LOOKED_AT
        case TaskStatus.PENDING:
            return sum(each.pending for each in kept.values()) <= LOOKED_AT
        case TaskStatus.RUNNING:
            return sum(each.running for each in kept.values()) <= LOOKED_AT
        case _:
            # All that is finished shares one index.
            return sum(each.completed + each.failed + each.cancelled for each in kept.values()) <= LOOKED_AT


def _among_few(connection: Connection, query: TaskQuery) -> list[Identity]:
    """Those that match, sorted here: asked for in order, a database would rather walk along all tasks of a type."""
    after = None if query.cursor is None else check_cursor(query.cursor)
    found: list[Identity] = []
    for part in _FEW[query.status]:
        narrower = of_type(query) if query.status is TaskStatus.PENDING else []
        c = looked_at_of(*part, *narrower).subquery().c
        columns: list[ColumnElement[Any]] = [c.task_type, c.key]
        named = select(*columns).where(*matches(c, query, connection.dialect.name))
        found += _identities(connection, named)
    asked = (each for each in found if query.task_type is None or each.task_type == query.task_type)
    return sorted(each for each in asked if after is None or each > after)[: query.limit + 1]


def _identities(connection: Connection, named: Select[Any]) -> list[Identity]:
    """What a query names, in one step of the database: they may be thousands."""
    if connection.dialect.name != "sqlite":
        return [Identity(*row) for row in connection.execute(named)]
    return [Identity(*row) for row in decode_rows(connection.execute(SqliteDialect.in_one_row(named)).scalar_one())]


def of_type(query: TaskQuery) -> list[Condition]:
    return [] if query.task_type is None else [_c.task_type == query.task_type]


def _behind(query: TaskQuery) -> list[Condition]:
    if query.cursor is None:
        return []
    task_type, key = check_cursor(query.cursor)
    if query.task_type == task_type:
        # Within one type the key alone decides, and the index can start right there.
        return [_c.key > key]
    return [tuple_(_c.task_type, _c.key) > tuple_(task_type, key)]


def matches(c: Any, query: TaskQuery, dialect: str) -> Iterator[Condition]:
    """All that is asked, of rows that were looked at."""
    for column, value in ((c.user_id, query.user_id), (c.owner, query.owner), (c.status, query.status)):
        if value is not None:
            yield column == value
    if query.without is not None:
        yield c.status != query.without.value
    if query.schedules:
        yield c.has_trigger
        yield c.key != GLOBAL_KEY
    yield from between(c.updated_at, query)
    if query.search:
        # LIKE would give a meaning to some characters, and on SQLite no difference to upper and lower case.
        place = func.instr if dialect == "sqlite" else func.strpos
        yield (place(c.key, query.search) > 0) | (place(func.coalesce(c.user_id, ""), query.search) > 0)


def between(at: ColumnElement[int], query: TaskQuery | RunQuery) -> Iterator[Condition]:
    """The time range that is asked."""
    if query.since_at is not None:
        yield at >= query.since_at
    if query.until_at is not None:
        yield at < query.until_at


# --- run records ----------------------------------------------------------------------------------------------------


def runs(connection: Connection, query: RunQuery) -> Page[RunRecord]:
    c = run_logs.c
    within: list[Condition] = [c.id > 0, *runs_along(query), *runs_between(connection, query)]
    if query.run_id is not None:
        within.append(c.id == int(query.run_id))
    if query.cursor is not None:
        within.append(c.id < int(query.cursor))
    asked = {name: value for name in ASKED_OF_RUNS if (value := getattr(query, name)) is not None}
    is_narrowed = bool(asked) or not query.since_at is query.until_at is None
    most = LOOKED_AT if is_narrowed else query.limit + 1
    columns: list[ColumnElement[Any]] = [c.id, c.task_type, c.key, c.user_id, c.status, c.failure, _ENDED_AT]
    looked_at = select(*columns).where(*within).order_by(c.id.desc()).limit(most).subquery().c
    matching = [looked_at[name] == value for name, value in asked.items()] + [*between(looked_at.ended_at, query)]
    named = select(looked_at.id).where(*matching).order_by(looked_at.id.desc()).limit(query.limit + 1)
    page = page_of(list(connection.execute(named).scalars()), query.limit, str)
    found = Page(whole_runs(connection, page.items), page.cursor)
    if found.cursor is not None or not is_narrowed:
        return found
    last = select(c.id).where(*within).order_by(c.id.desc()).offset(LOOKED_AT - 1).limit(1)
    row_id = connection.execute(last).scalar()
    return found if row_id is None else Page(found.items, str(row_id))


def whole_runs(connection: Connection, ids: Sequence[int]) -> list[RunRecord]:
    """Some run records, newest first."""
    if not ids:
        return []
    whole = select(*RUN_COLUMNS).where(run_logs.c.id.in_(ids)).order_by(run_logs.c.id.desc())
    return [decode_run(row) for row in connection.execute(whole)]


_ENDED_AT = (run_logs.c.started_at + run_logs.c.duration_ms).label("ended_at")
_OUT_OF_ORDER_MS: Final = 60_000
"""By how much a row may be older than one before it: groups commit side by side, and clocks are set."""


def runs_between(connection: Connection, query: RunQuery) -> Iterator[Condition]:
    """The part of the log in which a time range lies. Ids go up with the time, so halving finds where it begins."""
    if query.since_at is not None:
        yield run_logs.c.id >= _first_since(connection, query.since_at - _OUT_OF_ORDER_MS)
    if query.until_at is not None:
        yield run_logs.c.id < _first_since(connection, query.until_at + _OUT_OF_ORDER_MS)


def _first_since(connection: Connection, at: Instant) -> int:
    """From which id on all runs ended at an instant or later."""
    first, last = connection.execute(_ENDS_OF_LOG).one()
    low, high = first or 0, (last or 0) + 1
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(_RUN_FROM, {"id": middle}).first()
        if row is None or row.ended_at >= at:
            high = middle
        else:
            low = row.id + 1
    return high


_ENDS_OF_LOG = select(
    select(func.min(run_logs.c.id)).scalar_subquery(), select(func.max(run_logs.c.id)).scalar_subquery()
)
_RUN_FROM = select(run_logs.c.id, _ENDED_AT).where(run_logs.c.id >= bindparam("id")).order_by(run_logs.c.id).limit(1)


ASKED_OF_RUNS = ("task_type", "key", "user_id", "status", "failure")


def runs_along(query: RunQuery) -> list[Condition]:
    """The condition of the index that knows most of what is asked."""
    c = run_logs.c
    if query.task_type is not None and query.key is not None:
        return [c.task_type == query.task_type, c.key == query.key]
    if query.failure is not None:
        return [c.failure == query.failure]
    if query.user_id is not None:
        return [c.user_id == query.user_id]
    if query.status is not None and query.status != "success":
        value = literal_column(f"'{query.status.value}'", Text)
        return [c.status == value, c.status != literal_column("'success'")]
    return []


# --- counters and due times -----------------------------------------------------------------------------------------


def counts(connection: Connection) -> dict[str, Counts]:
    return {row[0]: Counts(*(int(value) for value in row[1:])) for row in connection.execute(_COUNTS)}


_COUNTS = select(
    tables.task_counts.c.task_type, *(func.sum(tables.task_counts.c[name]) for name in tables.COUNTERS)
).group_by(tables.task_counts.c.task_type)


def next_due_by_type(connection: Connection) -> dict[str, Instant]:
    """One probe of an index for each lane, and one for what is parked."""
    found: dict[str, Instant] = {}
    lanes = [tuple(row) for row in connection.execute(LANES)]
    probes = [(_HEAD, {"task_type": name, "priority": priority}) for name, priority in lanes]
    probes += [(_PARKED_HEAD, {"task_type": name}) for name in sorted({name for name, _ in lanes})]
    for statement, given in probes:
        at = connection.execute(statement, given).scalar()
        if at is not None:
            name = str(given["task_type"])
            found[name] = min(at, found.get(name, at))
    return found


_OF_TYPE = _c.task_type == bindparam("task_type")
_OF_LANE = and_(_OF_TYPE, _c.priority == bindparam("priority"), IS_PENDING)
LANES = select(tables.lanes.c.task_type, tables.lanes.c.priority)
_HEAD = select(_c.scheduled_at).where(_OF_LANE).order_by(_c.scheduled_at).limit(1)
_PARKED_HEAD = select(_c.scheduled_at).where(_OF_TYPE, IS_PARKED).order_by(_c.scheduled_at).limit(1)

# --- one task's position ---------------------------------------------------------------------------------------------


def queue_position(connection: Connection, identity: Identity, now: Instant) -> QueuePosition:
    record = _record(connection, identity.task_type)
    row = connection.execute(_ENTRY, identity._asdict()).first()
    task, past = Entry(None, NO_PAST) if row is None else decode_entry(row)
    return QueuePosition(
        record=record,
        task=task,
        past=past,
        now=now,
        ahead=0 if task is None or task.status is not TaskStatus.PENDING else _ahead(connection, task, record, now),
        running=int(connection.execute(_RUNNING, {"task_type": identity.task_type}).scalar_one()),
        serial_running=0 if task is None else _serial_running(connection, task),
        tokens=_tokens(connection, rate_bucket(identity.task_type), record.effective.rate_limit, now),
        start_tokens=_tokens(connection, start_bucket(identity.task_type), record.effective.start_limit, now),
        arrived=tuple(sorted(connection.execute(_COMPLETED_FOR, identity._asdict()).scalars())),
    )


def _tokens(connection: Connection, name: str, limit: RateLimit | None, now: Instant) -> float | None:
    row = None if limit is None else connection.execute(_BUCKET, {"name": name}).first()
    return tokens_now(limit, None if row is None else Bucket(row[0], row[1]), now)


def _record(connection: Connection, name: str) -> TypeRecord:
    row = connection.execute(_TYPE, {"name": name}).first()
    if row is None:
        raise unknown_type(name, connection.execute(_TYPE_NAMES).scalars().all())
    return TypeRecord(decode_task_type(row[0]), decode_overrides(row[1]))


def _ahead(connection: Connection, task: Task, record: TypeRecord, now: Instant) -> int:
    aging_ms = record.task_type.aging_ms
    lanes = [row[1] for row in connection.execute(LANES) if row[0] == task.task_type]
    found = 0
    for bound in bounds(task, lanes, aging_ms, now):
        found += _count(connection, task.task_type, bound, MAX_AHEAD - found)
    if task.serial is not None and found < MAX_AHEAD:
        first, at, key = rank(task, aging_ms)
        given = {"task_type": task.task_type, "serial": task.serial, "aging": aging_ms}
        before = {"rank": first, "at": at, "key": key, "limit": MAX_AHEAD - found}
        found += connection.execute(_PARKED_BEFORE, {**given, **before}).scalar_one()
    return found


def _count(connection: Connection, task_type: str, bound: Bound, limit: int) -> int:
    given = {"task_type": task_type, "priority": bound.priority, "at": bound.scheduled_at, "key": bound.key}
    return connection.execute(_BEFORE, {**given, "limit": limit}).scalar_one() if limit else 0


def _serial_running(connection: Connection, task: Task) -> int:
    if task.serial is None:
        return 0
    return connection.execute(_UNDER_SERIAL, {"task_type": task.task_type, "serial": task.serial}).scalar_one()


def _at_most(*conditions: Condition) -> Any:
    """How many rows there are, counted up to a limit."""
    some = (
        select(literal_column("1", BigInteger))
        .select_from(tasks)
        .where(*conditions)
        .limit(bindparam("limit"))
        .subquery()
    )
    return select(func.count()).select_from(some)


_ENTRY = select(*ENTRY_COLUMNS).where(_OF_TYPE, _c.key == bindparam("key"))
_TYPE = select(tables.task_types.c.config, tables.task_types.c.overrides).where(
    tables.task_types.c.name == bindparam("name")
)
_TYPE_NAMES = select(tables.task_types.c.name)
_BUCKET = select(tables.buckets.c.tokens, tables.buckets.c.at).where(tables.buckets.c.name == bindparam("name"))
_RUNNING = select(func.coalesce(func.sum(tables.task_counts.c.running), 0)).where(
    tables.task_counts.c.task_type == bindparam("task_type")
)
_UNDER_SERIAL = (
    select(func.count())
    .select_from(tasks)
    .where(_OF_TYPE, _c.serial == bindparam("serial"), _c.status == literal_column("'running'"))
)
_COMPLETED_FOR = select(tables.after_needs.c.arrived).where(
    tables.after_needs.c.task_type == bindparam("task_type"), tables.after_needs.c.key == bindparam("key")
)
_PLACE = tuple_(bindparam("at", type_=BigInteger), bindparam("key", type_=Text))
_BEFORE = _at_most(_OF_LANE, tuple_(_c.scheduled_at, _c.key) < _PLACE)
_PARKED_BEFORE = _at_most(
    _OF_TYPE,
    IS_PARKED,
    _c.serial == bindparam("serial"),
    tuple_(_c.scheduled_at - _c.priority * bindparam("aging", type_=BigInteger), _c.scheduled_at, _c.key)
    < tuple_(bindparam("rank", type_=BigInteger), bindparam("at", type_=BigInteger), bindparam("key", type_=Text)),
)

# --- what runs have left, and groups of failures --------------------------------------------------------------------


def details(connection: Connection, runs: Sequence[RunRef]) -> list[str | None]:
    """Run by run: few are asked for at a time, and each is found by its key."""
    asked = [read_later(connection, _DETAILS, run._asdict()) for run in runs]
    return [rows[0][0] if (rows := each.rows()) else None for each in asked]


_DETAILS = select(run_details.c.details).where(
    *(run_details.c[name] == bindparam(name) for name in ("task_type", "key", "token"))
)


def failures(connection: Connection, task_type: str | None, failure_id: str | None) -> list[Failures]:
    given = {"task_type": task_type, "id": failure_id}
    asked = tuple(name for name, value in given.items() if value is not None)
    rows = connection.execute(_failures_statement(asked), {name: given[name] for name in asked})
    return [Failures(decode_failure_group(text), dead) for text, dead in rows]


@cache
def _failures_statement(asked: tuple[str, ...]) -> Select[str, int]:
    """The groups with the dead letters of each, so many of which are counted: each count is a walk along one index."""
    groups = failure_groups.alias("of")
    group = groups.c
    dead = (
        select(_c.key)
        .where(_c.failure == group.id, _c.task_type == group.task_type, in_state(TaskStatus.FAILED))
        .correlate(groups)
        .limit(MOST_COUNTED)
    )
    counted = select(func.count()).select_from(dead.subquery()).correlate(groups).scalar_subquery()
    return (
        select(group.failure_group, counted)
        .where(*(group[name] == bindparam(name) for name in asked))
        .order_by(group.last_at.desc(), group.task_type, group.id)
        .limit(MAX_PAGE)
    )


# --- what ran, over time; erasures ----------------------------------------------------------------------------------


def history(
    connection: Connection, resolution: Resolution, since_at: Instant, until_at: Instant | None, task_type: str | None
) -> list[Slice]:
    c = tables.history.c
    asked = [c.span == resolution.value, c.start_at >= since_at]
    asked += [] if until_at is None else [c.start_at < until_at]
    asked += [] if task_type is None else [c.task_type == task_type]
    rows: Iterable[str] = connection.execute(
        select(c.slice).where(*asked).order_by(c.start_at, c.task_type, c.trigger_mode)
    ).scalars()
    return [decode_slice(each) for each in rows]


def erasures(connection: Connection, *, with_done: bool) -> list[Erasure]:
    c = tables.erasures.c
    wanted = select(*ERASURE_COLUMNS).order_by(c.user_id)
    rows = connection.execute(wanted if with_done else wanted.where(c.done_at.is_(None)))
    return [decode_erasure(row) for row in rows]
