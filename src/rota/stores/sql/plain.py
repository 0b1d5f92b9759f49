"""Plain tasks that are claimed, and those that have succeeded, written without looking at each: see `core/plain.py`.

What the lifecycle has made of the sample is written into all of them by one statement; what is a row's own comes from
the row, or with its token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    Text,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
)

from rota.clock import Millis
from rota.core import plain
from rota.core.lifecycle import Step
from rota.core.task import Entry
from rota.database.backends.sqlite import SqliteDialect
from rota.database.tables.tasks import run_logs, tasks
from rota.database.upsert import upsert
from rota.stores.sql.codec import COLUMN_NAMES, IS_PLAIN, plain_value, values_of
from rota.stores.sql.writing import Writing

__all__ = ["HELD", "claiming", "ending", "logging_ends"]

_c = tasks.c
_OF_TYPE = _c.task_type == bindparam("b_type")
_IS_RUNNING = _c.status == literal_column("'running'")
_held: Select[Any] = select(*(_c[name] for name in ("key", "token"))).where(_OF_TYPE, _IS_RUNNING, IS_PLAIN)
HELD: Final = SqliteDialect.in_one_row(SqliteDialect.by_keys(_held, _c.key))
"""The keys and tokens of those of some tasks that are plain and run."""


def claiming(task_type: str, tokens: Mapping[str, int], step: Step) -> Writing:
    """Tasks that wait, as the step has left the sample."""
    return _rewriting(_claiming_statement, plain.WAITING, task_type, tokens, step)


def ending(task_type: str, tokens: Mapping[str, int], step: Step) -> Writing:
    """Tasks that run, as the step has left the sample."""
    return _rewriting(_ending_statement, plain.RUNNING, task_type, tokens, step)


def logging_ends(task_type: str, took: Mapping[str, Millis], step: Step) -> Writing:
    """The records of some runs, by the keys of their tasks, before these are ended."""
    (run,) = step.runs
    told = {f"b_{name}": plain_value(getattr(run, name)) for name in _TOLD_BY_RUN}
    return Writing(_LOGGING_ENDS, {"b_type": task_type, "took": _document(took), **told})


def _rewriting(
    statement: Callable[[tuple[str, ...]], Executable],
    sample: Entry,
    task_type: str,
    tokens: Mapping[str, int],
    step: Step,
) -> Writing:
    before = _values(sample)
    changed = {name: value for name, value in _values(step.entry).items() if value != before[name]}
    given = {f"b_{name}": plain_value(value) for name, value in changed.items()}
    return Writing(statement(tuple(changed)), {"b_type": task_type, "tokens": _document(tokens), **given})


def _values(entry: Entry) -> dict[str, Any]:
    assert entry.task is not None
    return dict(zip(COLUMN_NAMES, values_of(entry.task.identity, entry), strict=True))


def _document(by_key: Mapping[str, int]) -> str:
    return msgspec.json.encode(by_key).decode()


# --- statements -----------------------------------------------------------------------------------------------------


@lru_cache(8)
def _claiming_statement(names: tuple[str, ...]) -> Executable:
    own = {"fire_at": _c.scheduled_at, "claimed_version": _c.version, "attempt": _c.attempt + 1}
    return _statement(names, "token", own)


@lru_cache(8)
def _ending_statement(names: tuple[str, ...]) -> Executable:
    kept_until = func.max(func.coalesce(_c.forget_at, 0), bindparam("b_forget_at"))
    return _statement(names, "last_token", {"forget_at": kept_until})


def _statement(names: tuple[str, ...], token: str, own: Mapping[str, ColumnElement[Any]]) -> Executable:
    """An INSERT of rows that are there, as in `writing.py`. The token of each goes to the column of this name."""
    given = func.json_each(bindparam("tokens")).table_valued("key", "value")
    rows = select(bindparam("b_type", type_=Text), given.c.key, given.c.value).select_from(given).where(text("true"))
    statement: Any = upsert("sqlite", tasks).from_select(["task_type", "key", token], rows)
    alike = {name: bindparam(f"b_{name}", type_=_c[name].type) for name in names}
    new = {**alike, **own, token: statement.excluded[token]}
    return statement.on_conflict_do_update(index_elements=["task_type", "key"], set_=new)


_TOLD_BY_TASK = ("task_type", "key", "user_id", "trigger_mode", "fire_at", "attempt", "token", "instance")
_TOLD_BY_RUN = ("status", "last_fire_at", "fires", "reason", "result", "error")


def _logging_ends() -> Executable:
    took = func.json_each(bindparam("took")).table_valued("key", "value", name="took")
    runs = run_logs.c
    columns = [
        *(_c[name].label(name) for name in _TOLD_BY_TASK),
        *(bindparam(f"b_{name}", type_=runs[name].type).label(name) for name in _TOLD_BY_RUN),
        _c.claimed_at.label("started_at"),
        took.c.value.label("duration_ms"),
    ]
    # An outer join, though each key has its task: SQLite would begin with all tasks of the type.
    ended = select(*columns).select_from(took.outerjoin(tasks, and_(_OF_TYPE, _c.key == took.c.key)))
    return insert(run_logs).from_select([column.name for column in columns], ended)


_LOGGING_ENDS = _logging_ends()
