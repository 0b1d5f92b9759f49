"""Judgements that every face shows, made once: whether an instance lives, how a type stands, what a filter means.

The API, the dashboard, the command line, the metrics and the alerts ask here, so that no two of them say different
things of the same store. What layers below need of it is pure and lies in `core`: `core/liveness.py` (alive, or
presumed dead) and `core/history.py` (what counts as a failure).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from typing import Final, Literal, TypeVar

import msgspec

from rota.app.time_range import EVER, TimeRange
from rota.clock import Instant, format_duration
from rota.core import liveness
from rota.core.history import SET_ASIDE, failed_in, set_aside_in
from rota.core.task import TaskStatus
from rota.core.task_type import TaskType, TriggerMode, did_you_mean, setting_name
from rota.errors import InvalidInput
from rota.stores.base import DEFAULT_PAGE, Instance, TaskQuery, TaskSort, TypeRecord

__all__ = [
    "SET_ASIDE",
    "SWITCHES",
    "TypeState",
    "alive",
    "choice",
    "failed_in",
    "failure_rate",
    "filters_of",
    "is_alive",
    "is_filtered",
    "off_by",
    "set_aside_in",
    "settings_of",
    "state_of",
    "state_words",
    "task_query",
    "trigger_words",
]

_Choice = TypeVar("_Choice", bound=StrEnum)


# --- instances -------------------------------------------------------------------------------------------------------


def is_alive(instance: Instance, now: Instant) -> bool:
    """Whether an instance is at work, or presumed dead: silent for longer than its lease, and a few seconds."""
    return liveness.is_alive(instance.seen_at, instance.beat.lease_ms, now)


def alive(instances: Iterable[Instance], now: Instant, task_type: str | None = None) -> list[Instance]:
    """Those that are at work; of a type, those of them that can run it."""
    return [one for one in instances if is_alive(one, now) and (task_type is None or task_type in one.beat.types)]


# --- types -----------------------------------------------------------------------------------------------------------


class TypeState(StrEnum):
    """What becomes of a type's tasks, in one word."""

    ON = "on"
    OFF = "off"
    """Nothing is taken on and nothing starts."""
    FROZEN = "frozen"
    """Nothing starts. What comes waits, unless it is draining as well."""
    DRAINING = "draining"
    """Nothing is taken on; what is there is worked off."""


def state_of(record: TypeRecord) -> TypeState:
    """How a type stands. One that is frozen and draining is frozen: of what is there, nothing is worked off."""
    if not record.enabled:
        return TypeState.OFF
    if not record.runs:
        return TypeState.FROZEN
    return TypeState.ON if record.accepts else TypeState.DRAINING


def off_by(record: TypeRecord) -> Literal["config", "operator"] | None:
    """Who has switched a type off. If both have, the configuration counts: no operator can overrule it."""
    if not record.task_type.enabled:
        return "config"
    return None if record.enabled else "operator"


def state_words(record: TypeRecord) -> str:
    """How a type stands, to the letter: by whom it is off, and both of frozen and draining."""
    who = off_by(record)
    if who is not None:
        return f"{TypeState.OFF} ({who})"
    held = {TypeState.FROZEN: not record.runs, TypeState.DRAINING: not record.accepts}
    return " and ".join(state for state, is_so in held.items() if is_so) or TypeState.ON


def settings_of(task_type: TaskType) -> dict[str, object]:
    """The settings by their names in YAML; durations as they are written there."""
    names = [name for name in task_type.__struct_fields__ if name != "name"]
    return {setting_name(name): _setting(name, getattr(task_type, name)) for name in names}


def _setting(name: str, value: object) -> object:
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, msgspec.Struct):
        return {setting_name(below): _setting(below, getattr(value, below)) for below in value.__struct_fields__}
    return value.value if isinstance(value, Enum) else msgspec.to_builtins(value)


def trigger_words(task_type: TaskType) -> str:
    """What makes a task of the type due, in words."""
    every = format_duration(task_type.interval_ms)
    words: Mapping[TriggerMode, str] = {
        TriggerMode.USER_ACTIVITY: f"{every} after activity",
        TriggerMode.PERIODIC: f"every {every}",
        TriggerMode.INTERVAL: f"every {every}",
        TriggerMode.CRON: f"{task_type.cron} ({task_type.timezone})",
        TriggerMode.AFTER: f"after {', '.join(task_type.after)}",
    }
    return words.get(task_type.trigger_mode, "by hand or by schedule")


SWITCHES: Final[Mapping[str, Mapping[str, object]]] = {
    "enable": {"enabled": None},
    "disable": {"enabled": False},
    "freeze": {"frozen": True},
    "thaw": {"frozen": None, "draining": None},
    "drain": {"draining": True},
}
"""The operator's verbs, and the overrides that each of them sets (None takes one back). Enabling takes a `disable`
back, and overrules no configuration; thawing ends a drain, too."""


def failure_rate(failures: int, runs: int) -> float:
    """The share of failures among all runs, as it is shown beside their number.

    What was set aside is among those runs. A rule about failures leaves it out, so that nobody is woken or kept asleep
    by what somebody wanted.
    """
    return round(failures / runs, 4) if runs else 0.0


# --- tasks -----------------------------------------------------------------------------------------------------------


def task_query(
    *,
    type: str | None = None,  # noqa: A002 - people's word
    status: TaskStatus | str | None = None,
    without: TaskStatus | str | None = None,
    user: str | None = None,
    owner: str | None = None,
    search: str | None = None,
    schedules: bool = False,
    failure: str | None = None,
    within: TimeRange = EVER,
    sort: TaskSort | str = TaskSort.KEY,
    cursor: str | None = None,
    limit: int = DEFAULT_PAGE,
) -> TaskQuery:
    """Which tasks a filter means, by the words that people have for its parts; a state or an order may be one, too."""
    return TaskQuery(
        task_type=type,
        status=None if status is None else choice(TaskStatus, status, "status"),
        without=None if without is None else choice(TaskStatus, without, "status"),
        user_id=user,
        owner=owner,
        search=search,
        schedules=schedules,
        failure=failure,
        since_at=within.since_at,
        until_at=within.until_at,
        sort=choice(TaskSort, sort, "order"),
        cursor=cursor,
        limit=limit,
    )


def filters_of(query: TaskQuery) -> dict[str, str]:
    """The other way round: the parts of a filter that a query has, but for `schedules`, which is no text."""
    given = {
        "type": query.task_type,
        "status": query.status,
        "without": query.without,
        "user": query.user_id,
        "owner": query.owner,
        "search": query.search,
        "failure": query.failure,
    }
    said = {name: str(value) for name, value in given.items() if value is not None}
    return said | TimeRange(query.since_at, query.until_at).to_dict()


def is_filtered(query: TaskQuery) -> bool:
    """Whether a query leaves anything out."""
    return query != TaskQuery(sort=query.sort, cursor=query.cursor, limit=query.limit)


def choice(kind: type[_Choice], value: str, what: str) -> _Choice:
    """The member that a text names, or an error with the nearest one."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(
            f"The {what} {value!r} does not exist. {did_you_mean(value, [member.value for member in kind])}"
        ) from None
