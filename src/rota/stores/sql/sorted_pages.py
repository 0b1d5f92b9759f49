"""Pages of tasks and of runs in an order that no index has.

No index is kept for the sake of a list: each would cost every run. If the tasks in question are few, which the kept
counters tell, all of them are looked at. Else each index that leads to some of them gives its share, those first that
the order is likely to want: what is due first or last, what has ended last. Of runs the newest are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, tuple_

from rota.core.task import Identity, RunRecord, Task, TaskStatus
from rota.database.tables.tasks import run_logs, tasks
from rota.stores.base import Counts, Page, RunQuery, TaskQuery, TaskSort
from rota.stores.queries import LOOKED_AT
from rota.stores.sorting import Place, place_of_cursor, run_place_of_cursor, shares, sorted_page
from rota.stores.sql.queries import (
    ASKED_OF_RUNS,
    IS_PARKED,
    IS_PENDING,
    LANES,
    Condition,
    along,
    between,
    counts,
    get,
    in_state,
    looked_at_of,
    matches,
    of_type,
    runs_along,
    runs_between,
    whole_runs,
)

__all__ = ["find", "runs"]

_c = tasks.c
_LANES_COUNTED: Final = 100_000
"""How many waiting tasks are counted, over all lanes, to see which of them are short."""


class _Part(NamedTuple):
    """What one index leads to: where it is, in which order it gives some of it, and how many there are at the most."""

    within: Sequence[Condition]
    order: Sequence[ColumnElement[Any]]
    size: int


# --- tasks ----------------------------------------------------------------------------------------------------------


def find(connection: Connection, query: TaskQuery) -> Page[Task]:
    """Of those that are looked at the ones that match, sorted."""
    after = place_of_cursor(query)
    parts = list(_parts(connection, query))
    sizes = [part.size for part in parts]
    given = shares(sizes, LOOKED_AT)
    # Two parts may lead to the same task.
    found = {
        place: place.identity
        for part, most in zip(parts, given, strict=True)
        for place in _places(connection, query, part, most, after)
    }
    page = sorted_page(found.items(), after, query.limit)
    whole = [task for task in get(connection, page.items) if task is not None]
    return Page(whole, page.cursor, None if given == sizes else sum(given))


def _places(connection: Connection, query: TaskQuery, part: _Part, most: int, after: Place | None) -> Iterator[Place]:
    """Those of a part that match, as many as a page may need."""
    looked_at = looked_at_of(*part.within)
    if most < part.size:
        looked_at = looked_at.order_by(*part.order).limit(most)
    c = looked_at.subquery().c
    value = -c[query.sort.field] if query.sort.is_descending else c[query.sort.field]
    asked: list[Condition] = [*matches(c, query, connection.dialect.name)]
    if query.task_type is not None:
        asked.append(c.task_type == query.task_type)
    if after is not None:
        behind = tuple_(c.task_type, c.key) > tuple_(*after.identity)
        asked.append(or_(value > after.value, and_(value == after.value, behind)))
    first = select(value, c.task_type, c.key).where(*asked).order_by(value, c.task_type, c.key)
    for row in connection.execute(first.limit(query.limit + 1)):
        yield Place(row[0], Identity(row[1], row[2]))


def _parts(connection: Connection, query: TaskQuery) -> Iterator[_Part]:
    """The indexes that lead to what is asked."""
    if query.schedules or not query.user_id is query.owner is query.failure is None:
        yield _along_one_index(connection, query)
        return
    kept = counts(connection)
    of_types = _sum([of for name, of in kept.items() if query.task_type in (None, name)])
    of_all = _sum(list(kept.values()))
    finished = of_all.completed + of_all.failed + of_all.cancelled
    for status in TaskStatus:
        if query.status not in (None, status) or query.without is status:
            continue
        match status:
            case TaskStatus.PENDING:
                yield from _waiting(connection, query, of_types.pending)
            case TaskStatus.RUNNING:
                yield _Part([in_state(status)], [_c.lease_until.desc()], of_all.running)
            case TaskStatus.COMPLETED:
                # All that is finished shares this index, and what has ended last is purged last.
                has_end = _c.purge_at.is_not(None)
                if of_all.failed + of_all.cancelled > LOOKED_AT:
                    yield _Part([has_end], [_c.purge_at.desc()], finished)
                else:
                    yield _Part([has_end, in_state(status)], [_c.purge_at.desc()], of_all.completed)
            case TaskStatus.FAILED if of_types.failed > LOOKED_AT:
                yield _Part([_c.purge_at.is_not(None)], [_c.purge_at.desc()], finished)
            case set_aside:
                size: int = getattr(of_types, set_aside.value)
                yield _Part([in_state(set_aside), *of_type(query)], [_c.task_type, _c.key], size)


def _sum(of_types: Sequence[Counts]) -> Counts:
    return Counts(**{status.value: sum(getattr(of, status.value) for of in of_types) for status in TaskStatus})


def _waiting(connection: Connection, query: TaskQuery, size: int) -> Iterator[_Part]:
    """Lane by lane: within each the index has the order of due times. Who waits for long was mostly made last."""
    first = _c.scheduled_at if query.sort is TaskSort.SOONEST else _c.scheduled_at.desc()
    lanes = [(row[0], row[1]) for row in connection.execute(LANES) if query.task_type in (None, row[0])]
    if size <= LOOKED_AT:
        yield _Part([IS_PENDING, *of_type(query)], [], size)
        yield _Part([IS_PARKED, *of_type(query)], [], 0)  # counted among the others, and so looked at whole
        return
    each: list[list[Condition]] = [[_c.task_type == name, _c.priority == at, IS_PENDING] for name, at in lanes]
    each += [[_c.task_type == name, IS_PARKED] for name in sorted({name for name, _ in lanes})]
    most = _LANES_COUNTED // len(each)
    for within in each:
        some = select(_c.key).where(*within).limit(most).subquery()
        counted: int = connection.execute(select(func.count()).select_from(some)).scalar_one()
        yield _Part(within, [first], size if counted == most else counted)


def _along_one_index(connection: Connection, query: TaskQuery) -> _Part:
    within = [_c.status.is_not(None), along(query), *of_type(query)]
    order = [_c.task_type, _c.key]
    more = select(_c.key).where(*within).order_by(*order).offset(LOOKED_AT).limit(1)
    is_cut = connection.execute(more).first() is not None
    return _Part(within, order, LOOKED_AT + is_cut)


# --- run records ----------------------------------------------------------------------------------------------------


def runs(connection: Connection, query: RunQuery) -> Page[RunRecord]:
    """Of the newest that come into question those that match, sorted."""
    c = run_logs.c
    after = run_place_of_cursor(query.cursor)
    within: list[Condition] = [c.id > 0, *runs_along(query), *runs_between(connection, query)]
    ended_at = (c.started_at + c.duration_ms).label("ended_at")
    columns: list[ColumnElement[Any]] = [c.id, c.task_type, c.key, c.user_id, c.status, c.failure, ended_at]
    newest = select(*columns, c.duration_ms, c.attempt).where(*within).order_by(c.id.desc())
    looked_at = newest.limit(LOOKED_AT).subquery().c
    value = -looked_at[query.sort.field] if query.sort.is_descending else looked_at[query.sort.field]
    asked = [looked_at[name] == given for name in ASKED_OF_RUNS if (given := getattr(query, name)) is not None]
    asked += between(looked_at.ended_at, query)
    if after is not None:
        older = and_(value == after.value, looked_at.id < -after.age[0])
        asked.append(or_(value > after.value, older))
    first = select(looked_at.id, value).where(*asked).order_by(value, looked_at.id.desc()).limit(query.limit + 1)
    rows = connection.execute(first).all()
    ids = [row[0] for row in rows[: query.limit]]
    by_id = {run.run_id: run for run in whole_runs(connection, ids)}
    cursor = f"{rows[query.limit - 1][1]}/{ids[-1]}" if len(rows) > query.limit else None
    is_cut = connection.execute(select(c.id).where(*within).order_by(c.id.desc()).offset(LOOKED_AT).limit(1)).first()
    return Page([by_id[str(each)] for each in ids], cursor, None if is_cut is None else LOOKED_AT)
