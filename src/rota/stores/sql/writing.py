"""Rows of one shape, written by one statement, in one step.

A group's rows have much in common: two hundred tasks of one claim have one lease, one instance and one time. What they
share is given once, as a parameter; the rest travels as one JSON document, which the database reads as a table.

That is as quick as a statement for each row, and it lets the program live: SQLite's driver gives up the interpreter's
lock at each row, and a thread that wants it back waits up to 5 ms while another one is busy. By rows, a group of two
hundred could take a second; in one step it waits once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import ColumnElement, Executable, Table, and_, bindparam, func, literal_column, select, text, update

from rota.database.many import as_document, new_values
from rota.database.tables.tasks import run_logs, tasks
from rota.database.upsert import upsert
from rota.stores.sql.codec import COLUMN_NAMES, FLAGS, RUN_COLUMNS, plain_value

__all__ = ["Writing", "inserting", "logging", "updating"]

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

Row = Sequence[Any]


class Writing(NamedTuple):
    """A statement and what it is given."""

    statement: Executable
    parameters: Mapping[str, Any]


def inserting(database: str, columns: tuple[int, ...], rows: Sequence[Row]) -> Writing:
    """New tasks, by the columns in which they differ from a blank row. Those that are there already are left alone."""
    shape = _split(COLUMN_NAMES, columns, rows)
    statement = _insert_statement(database, tasks, shape.shared_names, shape.names, is_new_only=True)
    return Writing(statement, shape.parameters(database))


def updating(database: str, columns: tuple[int, ...], rows: Sequence[Row]) -> Writing:
    """Only what changed is written: an index is touched only where one of its columns is. The columns begin with those
    of the identity."""
    shape = _split(COLUMN_NAMES, columns, rows)
    build = _update_in_sqlite if database == "sqlite" else _update_elsewhere
    return Writing(build(shape.shared_names, shape.names), shape.parameters(database))


def logging(database: str, rows: Sequence[Row]) -> Writing:
    """Records of runs, with all columns but the id."""
    shape = _split(_RUN_NAMES, tuple(range(len(_RUN_NAMES))), rows)
    statement = _insert_statement(database, run_logs, shape.shared_names, shape.names, is_new_only=False)
    return Writing(statement, shape.parameters(database))


class _Shape(NamedTuple):
    """What rows share, and what each of them has of its own."""

    shared: Mapping[str, Any]
    names: tuple[str, ...]
    rows: Sequence[Row]

    @property
    def shared_names(self) -> tuple[str, ...]:
        return tuple(self.shared)

    def parameters(self, database: str) -> dict[str, Any]:
        given = {f"b_{name}": plain_value(value) for name, value in self.shared.items()}
        if database == "sqlite":
            given["rows"] = msgspec.json.encode(self.rows).decode()
        else:
            given["rows"] = as_document([dict(zip(self.names, row, strict=True)) for row in self.rows])
        return given


@cache
def _picking(columns: tuple[int, ...]) -> Callable[[Row], Row]:
    return cast("Callable[[Row], Row]", itemgetter(*columns))


def _split(names: tuple[str, ...], columns: tuple[int, ...], rows: Sequence[Row]) -> _Shape:
    picked = zip(*map(_picking(columns), rows), strict=True)
    by_name = {names[at]: values for at, values in zip(columns, picked, strict=True)}
    for name in FLAGS & by_name.keys():
        by_name[name] = tuple(map(int, by_name[name]))
    shared = {name: values[0] for name, values in by_name.items() if name in _SHARED}
    if any(by_name[name].count(value) < len(rows) for name, value in shared.items()):
        shared = {}
    own = {name: values for name, values in by_name.items() if name not in shared}
    return _Shape(shared, tuple(own), list(zip(*own.values(), strict=True)))


# --- statements -----------------------------------------------------------------------------------------------------


def _given(shared: Sequence[str]) -> dict[str, ColumnElement[Any]]:
    return {name: bindparam(f"b_{name}") for name in shared}


def _from_document(names: Sequence[str], shared: Sequence[str]) -> Any:
    """The rows of the parameter `rows` as SQLite reads them, with what they share."""
    each = func.json_each(bindparam("rows")).table_valued("value")
    own = [func.json_extract(each.c.value, literal_column(f"'$[{at}]'")) for at, _ in enumerate(names)]
    # Without a WHERE, SQLite takes the ON that follows as one of a join.
    return select(*own, *_given(shared).values()).select_from(each).where(text("true"))


@cache
def _insert_statement(
    database: str, table: Table, shared: tuple[str, ...], names: tuple[str, ...], *, is_new_only: bool
) -> Executable:
    statement: Any = upsert(database, table)
    if database == "sqlite":
        statement = statement.from_select([*names, *shared], _from_document(names, shared))
    else:
        new = new_values(database, table, names)
        given = [bindparam(f"b_{name}", type_=table.c[name].type) for name in shared]
        statement = statement.from_select([*names, *shared], select(*(new[name] for name in names), *given))
    return statement.on_conflict_do_nothing() if is_new_only else statement


@cache
def _update_in_sqlite(shared: tuple[str, ...], names: tuple[str, ...]) -> Executable:
    """An INSERT of rows that are there: SQLite finds each by its key, and updates it. An UPDATE that is joined with the
    document may be done the wrong way round, by reading the whole table."""
    identity = tuple(name for name in _IDENTITY if name in shared)
    statement: Any = upsert("sqlite", tasks).from_select([*names, *identity], _from_document(names, identity))
    new = {name: statement.excluded[name] for name in names if name not in _IDENTITY}
    new |= {name: value for name, value in _given(shared).items() if name not in _IDENTITY}
    return statement.on_conflict_do_update(index_elements=list(_IDENTITY), set_=new)


@cache
def _update_elsewhere(shared: tuple[str, ...], names: tuple[str, ...]) -> Executable:
    new = {**new_values("postgresql", tasks, names), **_given(shared)}
    is_meant = and_(*(tasks.c[name] == new[name] for name in _IDENTITY))
    return update(tasks).where(is_meant).values({name: value for name, value in new.items() if name not in _IDENTITY})
