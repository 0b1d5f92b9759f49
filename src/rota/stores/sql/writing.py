"""Rows of one shape, written by one statement, in one step.

A group's rows have much in common: two hundred tasks of one claim have one lease, one instance and one time. What they
share is given once, as a parameter; the rest travels as one JSON document, which the database reads as a table.

That is as quick as a statement for each row, and it lets the program live: SQLite's driver gives up the interpreter's
lock at each row, and a thread that wants it back waits up to 5 ms while another one is busy. By rows, a group of two
hundred could take a second; in one step it waits once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple
from sqlalchemy import ColumnElement, Executable, Select, Table, bindparam, func, literal_column, select, text

from rota.core.task import Entry
from rota.database.many import as_document, new_values
from rota.database.tables.tasks import run_logs, tasks
from rota.database.upsert import upsert
from rota.stores.sql.codec import BLANK, COLUMN_NAMES, FLAGS, RUN_COLUMNS, plain_value

__all__ = ["Writing", "inserting", "logging", "overwriting", "updating"]

_IDENTITY = ("task_type", "key")
_SHARED = frozenset(
    {
        *("task_type", "status", "created_at", "updated_at", "priority", "trigger_mode", "version", "parked", "manual"),
        *("dirty", "want", "lease_until", "instance", "claim_id", "claimed_at", "claimed_version", "renewed"),
        *("extended", "last_outcome", "attempt", "errors", "crashes", "snoozes", "finished_at", "purge_at"),
        *("reason", "error", "result", "progress", "last_exec_at", "fail_count", "fail_until", "last_claimed_at"),
        *("forget_at", "last_fire_at", "fires"),
    }
)
"""The columns in which the rows of a group are alike, as a rule. They are given once if that holds for all of them, or
none is: two statements for each shape, and not one for each accident."""
_RUN_NAMES = tuple(column.name for column in RUN_COLUMNS[1:])

_STATEMENTS = 256
"""How many are kept. A few shapes make up nearly all of the work; a rare mixture may have a statement of its own."""

Row = Sequence[Any]
Columns = Mapping[str, Sequence[Any]]
"""The values of some rows, column by column: what holds for a column is asked once, and not for each row."""


class Writing(NamedTuple):
    """A statement and what it is given."""

    statement: Executable
    parameters: Mapping[str, Any]


def inserting(database: str, rows: Sequence[Row]) -> Writing:
    """New tasks, by the columns in which one of them differs from a blank row. Those that are there already are left
    alone."""
    columns = _columns_of(COLUMN_NAMES, rows)
    used = {
        name: values
        for (name, values), blank in zip(columns.items(), BLANK, strict=True)
        if name in _IDENTITY or values.count(blank) < len(rows)
    }
    return _inserting(database, tasks, used, is_new_only=True)


def updating(database: str, before: Sequence[Entry], after: Sequence[Entry]) -> Writing | None:
    """Only what changed is written: an index is touched only where one of its columns is. None if nothing has. There is
    a task in each entry."""
    old = _columns_of_entries(before)
    changed = {
        name: values for name, values in _columns_of_entries(after).items() if name in _IDENTITY or old[name] != values
    }
    return _updating(database, changed) if len(changed) > len(_IDENTITY) else None


def overwriting(database: str, rows: Sequence[Row]) -> Writing:
    """All columns, whatever was there."""
    return _updating(database, _columns_of(COLUMN_NAMES, rows))


def logging(database: str, rows: Sequence[Row]) -> Writing:
    """Records of runs, with all columns but the id."""
    return _inserting(database, run_logs, _columns_of(_RUN_NAMES, rows), is_new_only=False)


def _columns_of(names: Sequence[str], rows: Sequence[Row]) -> Columns:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _columns_of_entries(entries: Sequence[Entry]) -> Columns:
    tasks_and_pasts = zip(*entries, strict=True)
    columns = chain.from_iterable(zip(*map(astuple, each), strict=True) for each in tasks_and_pasts)
    return dict(zip(COLUMN_NAMES, columns, strict=True))


def _inserting(database: str, table: Table, columns: Columns, *, is_new_only: bool) -> Writing:
    shape = _split(columns)
    statement = _insert_statement(database, table, shape.shared_names, shape.names, is_new_only=is_new_only)
    return Writing(statement, shape.parameters(database))


def _updating(database: str, columns: Columns) -> Writing:
    shape = _split(columns)
    return Writing(_update_statement(database, shape.shared_names, shape.names), shape.parameters(database))


class _Shape(NamedTuple):
    """What rows share, and what each of them has of its own."""

    shared: Mapping[str, Any]
    own: Columns

    @property
    def shared_names(self) -> tuple[str, ...]:
        return tuple(self.shared)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.own)

    def parameters(self, database: str) -> dict[str, Any]:
        given = {f"b_{name}": plain_value(value) for name, value in self.shared.items()}
        rows = list(zip(*self.own.values(), strict=True))
        if database == "sqlite":
            given["rows"] = msgspec.json.encode(rows).decode()
        else:
            given["rows"] = as_document([dict(zip(self.own, row, strict=True)) for row in rows])
        return given


def _split(columns: Columns) -> _Shape:
    shared = {name: values[0] for name, values in columns.items() if name in _SHARED}
    if any(columns[name].count(value) < len(columns[name]) for name, value in shared.items()):
        shared = {}
    own = {
        name: list(map(int, values)) if name in FLAGS else values
        for name, values in columns.items()
        if name not in shared
    }
    return _Shape(shared, own)


# --- statements -----------------------------------------------------------------------------------------------------


def _shared_values(table: Table, names: Sequence[str]) -> dict[str, ColumnElement[Any]]:
    return {name: bindparam(f"b_{name}", type_=table.c[name].type) for name in names}


def _given(database: str, table: Table, names: Sequence[str], shared: Sequence[str]) -> Select[Any]:
    """The rows of the parameter `rows`, each with what all of them share."""
    alike = _shared_values(table, shared).values()
    if database != "sqlite":
        return select(*new_values(database, table, names).values(), *alike)
    each = func.json_each(bindparam("rows")).table_valued("value")
    own = [func.json_extract(each.c.value, literal_column(f"'$[{at}]'")) for at, _ in enumerate(names)]
    # Without a WHERE, SQLite takes the ON that follows as one of a join.
    return select(*own, *alike).select_from(each).where(text("true"))


@lru_cache(_STATEMENTS)
def _insert_statement(
    database: str, table: Table, shared: tuple[str, ...], names: tuple[str, ...], *, is_new_only: bool
) -> Executable:
    statement: Any = upsert(database, table).from_select([*names, *shared], _given(database, table, names, shared))
    return statement.on_conflict_do_nothing() if is_new_only else statement


@lru_cache(_STATEMENTS)
def _update_statement(database: str, shared: tuple[str, ...], names: tuple[str, ...]) -> Executable:
    """An INSERT of rows that are there: each is found by its key, and updated. An UPDATE that is joined with the rows
    may be done the wrong way round, by reading the whole table."""
    identity = tuple(name for name in _IDENTITY if name in shared)
    statement: Any = upsert(database, tasks)
    statement = statement.from_select([*names, *identity], _given(database, tasks, names, identity))
    new = {name: statement.excluded[name] for name in names} | _shared_values(tasks, shared)
    changed = {name: value for name, value in new.items() if name not in _IDENTITY}
    return statement.on_conflict_do_update(index_elements=list(_IDENTITY), set_=changed)
