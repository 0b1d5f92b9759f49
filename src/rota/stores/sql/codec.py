"""Between rows and values.

A row of `scheduled_tasks` is an identity: its task (or NULL as its status) and its past. Columns stand in the order of
the values' fields, so that encoding is one call in C and no name is written twice.

A row is read narrow: thirty columns that a plain task uses in its life, and the rest as one JSON list, which is NULL
where all of it is at its default, as of most tasks. Each column more costs time in the database, in its driver and in
Python, for every task that is claimed and for every run that ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from msgspec.structs import astuple, fields
from sqlalchemy import Column, ColumnElement, Text, and_, case, cast, literal_column, null
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from rota.codec import warmed
from rota.core.task import Entry, Identity, Past, RunRecord, RunStatus, Task, TaskStatus, Transition, Want
from rota.database.tables.tasks import erasures, run_logs, tasks
from rota.stores.base import Erasure

__all__ = [
    "BLANK",
    "COLUMN_NAMES",
    "ENTRY_COLUMNS",
    "ERASURE_COLUMNS",
    "FLAGS",
    "IS_PLAIN",
    "PLAIN_NAMES",
    "RUN_COLUMNS",
    "decode_entry",
    "decode_erasure",
    "decode_rows",
    "decode_run",
    "plain_value",
    "values_of",
    "values_of_run",
]

_TASK_FIELDS = tuple(field.name for field in fields(Task))
_PAST_FIELDS = tuple(field.name for field in fields(Past))
COLUMN_NAMES = (*_TASK_FIELDS, *_PAST_FIELDS)
"""The columns of `scheduled_tasks`, in the order of `values_of`."""

# Rows are written by position: the table's columns must stand in the order of the fields.
assert tuple(tasks.c.keys()) == COLUMN_NAMES, "scheduled_tasks and Task have drifted apart"

# --- reading --------------------------------------------------------------------------------------------------------

_REST = (
    *("owner", "serial", "permits", "cost", "parked"),
    *("trigger", "policy", "opened_at", "next_fire", "fires_run", "times_run", "max_runs", "expires_at"),
    "manual",
    *("dirty", "want", "renewed", "extended", "errors", "crashes", "snoozes"),
    *("reason", "error", "result", "progress", "failure", "trace", "fail_count", "fail_until"),
)
"""The columns that a plain task leaves at their defaults."""
PLAIN_NAMES = frozenset(COLUMN_NAMES) - frozenset(_REST)
"""The others."""


class _JsonList(FunctionElement[str]):
    """A JSON list of columns."""

    inherit_cache = True


@compiles(_JsonList, "sqlite")
def _in_sqlite(element: Any, compiler: Any, **given: Any) -> str:
    # As a plain text: SQLite remembers what is JSON, and would unfold it in a list of rows.
    return f"(json_array({compiler.process(element.clauses, **given)}) || '')"


@compiles(_JsonList)
def _elsewhere(element: Any, compiler: Any, **given: Any) -> str:
    return f"json_build_array({compiler.process(element.clauses, **given)})"


def _is_default(column: Column[Any]) -> ColumnElement[bool]:
    default: Any = column.server_default
    if default is None:
        return column.is_(None)
    text = f"'{default.arg}'" if isinstance(column.type, Text) else default.arg
    return column == literal_column(text, column.type)


_rest = [tasks.c[name] for name in _REST]
IS_PLAIN = and_(*map(_is_default, _rest))
"""Whether a task is one of those that `core/plain.py` speaks of."""
ENTRY_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(tasks.c[name] for name in COLUMN_NAMES if name not in _REST),
    case((IS_PLAIN, null()), else_=cast(_JsonList(*_rest), Text)).label("rest"),
)
"""What `decode_entry` reads."""

_STATUS: dict[str, TaskStatus] = {status.value: status for status in TaskStatus}
_WANT = {want.value: want for want in Want}
_EVENT: dict[str | None, Transition | None] = {
    None: None,
    **{transition.value: transition for transition in Transition},
}
_FLAGS = ("parked", "manual", "dirty", "renewed", "extended")
decode_rows = warmed(msgspec.json.Decoder(list[list[Any]]), "[]").decode
"""Many rows that a database has put into one (`Dialect.in_one_row`)."""
_decode_rest = warmed(msgspec.json.Decoder(list[Any]), "[]").decode

# Where things stand in a row that is followed by the values of its rest.
_READ = [*(name for name in COLUMN_NAMES if name not in _REST), "rest", *_REST]
_STATUS_AT, _OUTCOME_AT, _REST_AT = map(_READ.index, ("status", "last_outcome", "rest"))
_WANT_AT, *_FLAGS_AT = map(_REST.index, ("want", *_FLAGS))
_task_values = itemgetter(*map(_READ.index, _TASK_FIELDS))
_past_values = itemgetter(*map(_READ.index, _PAST_FIELDS))


def decode_entry(row: Sequence[Any]) -> Entry:
    rest = row[_REST_AT]
    values = [*row, *(_NO_REST if rest is None else _read_rest(rest))]
    past = Past(*_past_values(values))
    status = values[_STATUS_AT]
    if status is None:
        return Entry(None, past)
    values[_STATUS_AT] = _STATUS[status]
    values[_OUTCOME_AT] = _EVENT[values[_OUTCOME_AT]]
    return Entry(Task(*_task_values(values)), past)


def _read_rest(text: str) -> list[Any]:
    rest = _decode_rest(text)
    rest[_WANT_AT] = _WANT[rest[_WANT_AT]]
    for at in _FLAGS_AT:
        rest[at] = rest[at] == 1
    return rest


# --- writing --------------------------------------------------------------------------------------------------------

Value = str | int | float | None
FLAGS = frozenset(_FLAGS)
"""The columns that are True or False here, and 1 or 0 in the database."""


def values_of(identity: Identity, entry: Entry) -> tuple[Any, ...]:
    """The values of COLUMN_NAMES. Without a task everything but the identity is back at its default."""
    task, past = entry
    if task is None:
        return (*identity, *BLANK[2 : len(_TASK_FIELDS)], *astuple(past))
    return astuple(task) + astuple(past)


def plain_value(value: Any) -> Value:
    """As drivers take it: an enum may be written by its name, a bool not at all."""
    if isinstance(value, bool):
        return int(value)
    return value.value if isinstance(value, Enum) else value


def _blank() -> tuple[Any, ...]:
    blank = Task(task_type="", key="", status=TaskStatus.PENDING, scheduled_at=0, created_at=0, updated_at=0)
    given = ("task_type", "key", "status", "scheduled_at", "created_at", "updated_at")
    values = zip(COLUMN_NAMES, astuple(blank) + astuple(Past()), strict=True)
    return tuple(None if name in given else value for name, value in values)


BLANK = _blank()
"""A row of nothing but defaults."""
_NO_REST = tuple(BLANK[COLUMN_NAMES.index(name)] for name in _REST)

# --- the run log ----------------------------------------------------------------------------------------------------

_RUN_FIELDS = tuple(field.name for field in fields(RunRecord) if field.name != "run_id")
_RUN_STATUS = {status.value: status for status in RunStatus}

assert tuple(run_logs.c.keys()) == ("id", *_RUN_FIELDS), "task_run_logs and RunRecord have drifted apart"

RUN_COLUMNS: tuple[Column[Any], ...] = (run_logs.c.id, *(run_logs.c[name] for name in _RUN_FIELDS))

values_of_run = attrgetter(*_RUN_FIELDS)
"""The values of RUN_COLUMNS but the id, which the database gives."""


def decode_run(row: Sequence[Any]) -> RunRecord:
    values = dict(zip(_RUN_FIELDS, row[1:], strict=True))
    values["status"] = _RUN_STATUS[values["status"]]
    return RunRecord(run_id=str(row[0]), **values)


_ERASURE_FIELDS = tuple(field.name for field in fields(Erasure))

ERASURE_COLUMNS: tuple[Column[Any], ...] = tuple(erasures.c[name] for name in _ERASURE_FIELDS)


def decode_erasure(row: Sequence[Any]) -> Erasure:
    return Erasure(**dict(zip(_ERASURE_FIELDS, row, strict=True)))
