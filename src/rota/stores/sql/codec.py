"""Between rows and values.

A row of `scheduled_tasks` is an identity: its task (or NULL as its status) and its past. Columns stand in the order of
the values' fields, so that encoding is one call in C and no name is written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple, fields
from sqlalchemy import Column

from rota.core.task import Entry, Identity, Past, RunRecord, RunStatus, Task, TaskStatus, Transition, Want
from rota.database.tables.tasks import erasures, run_logs, tasks
from rota.stores.base import Erasure

__all__ = [
    "BLANK",
    "ENTRY_COLUMNS",
    "ERASURE_COLUMNS",
    "RUN_COLUMNS",
    "decode_entry",
    "decode_erasure",
    "decode_run",
    "encode_entry",
    "encode_run",
]

_TASK_FIELDS = tuple(field.name for field in fields(Task))
_PAST_FIELDS = tuple(field.name for field in fields(Past))
_TASK_WIDTH = len(_TASK_FIELDS)

# Rows are written by position: the table's columns must stand in the order of the fields.
assert tuple(tasks.c.keys()) == (*_TASK_FIELDS, *_PAST_FIELDS), "scheduled_tasks and Task have drifted apart"

ENTRY_COLUMNS: tuple[Column[Any], ...] = tuple(tasks.c[name] for name in (*_TASK_FIELDS, *_PAST_FIELDS))

_STATUS = {status.value: status for status in TaskStatus}
_WANT = {want.value: want for want in Want}
_EVENT: dict[str | None, Transition | None] = {
    None: None,
    **{transition.value: transition for transition in Transition},
}
_FLAGS = ("parked", "manual", "dirty", "renewed", "extended")

Value = str | int | float | None


_STATUS_AT, _WANT_AT, _OUTCOME_AT = map(_TASK_FIELDS.index, ("status", "want", "last_outcome"))
_FLAGS_AT = tuple(map(_TASK_FIELDS.index, _FLAGS))


def decode_entry(row: Sequence[Any]) -> Entry:
    past = Past(*row[_TASK_WIDTH:])
    status = row[_STATUS_AT]
    if status is None:
        return Entry(None, past)
    values = list(row[:_TASK_WIDTH])
    values[_STATUS_AT] = _STATUS[status]
    values[_WANT_AT] = _WANT[values[_WANT_AT]]
    values[_OUTCOME_AT] = _EVENT[values[_OUTCOME_AT]]
    for at in _FLAGS_AT:
        values[at] = values[at] == 1
    return Entry(Task(*values), past)


def encode_entry(identity: Identity, entry: Entry) -> list[Value]:
    """The values of ENTRY_COLUMNS. Without a task everything but the identity is back at its default."""
    task = entry.task
    if task is None:
        return [*identity, *BLANK[2:_TASK_WIDTH], *astuple(entry.past)]
    values: list[Value] = [*astuple(task), *astuple(entry.past)]
    # Drivers take plain values: an enum may be written by its name, a bool not at all.
    values[_STATUS_AT] = task.status.value
    values[_WANT_AT] = task.want.value
    values[_OUTCOME_AT] = None if task.last_outcome is None else task.last_outcome.value
    for at in _FLAGS_AT:
        values[at] = int(bool(values[at]))
    return values


def _blank() -> list[Value]:
    blank = Task(task_type="", key="", status=TaskStatus.PENDING, scheduled_at=0, created_at=0, updated_at=0)
    values = encode_entry(blank.identity, Entry(blank, Past()))
    for name in ("task_type", "key", "status", "scheduled_at", "created_at", "updated_at"):
        values[_TASK_FIELDS.index(name)] = None
    return values


BLANK: list[Value] = _blank()
"""A row of nothing but defaults."""

_RUN_FIELDS = tuple(field.name for field in fields(RunRecord) if field.name != "run_id")
_RUN_ID_AT = tuple(field.name for field in fields(RunRecord)).index("run_id")
_RUN_STATUS_AT = _RUN_FIELDS.index("status")
_RUN_STATUS = {status.value: status for status in RunStatus}

assert tuple(run_logs.c.keys()) == ("id", *_RUN_FIELDS), "task_run_logs and RunRecord have drifted apart"

RUN_COLUMNS: tuple[Column[Any], ...] = (run_logs.c.id, *(run_logs.c[name] for name in _RUN_FIELDS))


def encode_run(run: RunRecord) -> list[Value]:
    """The values of RUN_COLUMNS but the id, which the database gives."""
    values: list[Value] = list(astuple(run))
    del values[_RUN_ID_AT]
    values[_RUN_STATUS_AT] = run.status.value
    return values


def decode_run(row: Sequence[Any]) -> RunRecord:
    values = dict(zip(_RUN_FIELDS, row[1:], strict=True))
    values["status"] = _RUN_STATUS[values["status"]]
    return RunRecord(run_id=str(row[0]), **values)


_ERASURE_FIELDS = tuple(field.name for field in fields(Erasure))

ERASURE_COLUMNS: tuple[Column[Any], ...] = tuple(erasures.c[name] for name in _ERASURE_FIELDS)


def decode_erasure(row: Sequence[Any]) -> Erasure:
    return Erasure(**dict(zip(_ERASURE_FIELDS, row, strict=True)))
