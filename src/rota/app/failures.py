"""Failures by groups, as every face shows them, and how one is named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.app.results import Json
from rota.clock import HOUR, Instant, from_datetime, isoformat, to_datetime
from rota.core.failure import HOURS_KEPT, FailureGroup
from rota.core.task import TaskStatus
from rota.errors import InvalidInput, UnknownFailure
from rota.stores.base import Failures, Store, TaskQuery

__all__ = ["FailureInfo", "find_failure", "named_failure", "one_failure", "those_dead"]


@dataclass(frozen=True)
class FailureInfo:
    """One group of failures: what they have in common, how many there were, and how many wait to be redriven."""

    task_type: str
    id: str
    exception: str
    """The class that was raised, or the reason where nothing was."""
    place: str
    message: str
    """The message without what differs from one time to the next."""
    count: int
    users: int
    """How many users it has hit; many are estimated."""
    dead: int
    """Dead letters that belong to it now."""
    first_at: datetime
    last_at: datetime
    last_hour: int
    last_day: int
    hours: tuple[int, ...]
    """How many in each of the last 48 hours, the last one at the end."""
    muted_until: datetime | None
    muted_by: str | None

    @classmethod
    def of(cls, found: Failures, now: Instant) -> FailureInfo:
        group = found.group
        is_muted = group.is_muted(now)
        return cls(
            task_type=group.task_type,
            id=group.id,
            exception=group.kind,
            place=group.place,
            message=group.message,
            count=group.count,
            users=group.user_count,
            dead=found.dead,
            first_at=to_datetime(group.first_at),
            last_at=to_datetime(group.last_at),
            last_hour=group.count_since(now - HOUR),
            last_day=group.count_since(now - 24 * HOUR),
            hours=tuple(count for _, count in group.chart(now, HOURS_KEPT)),
            muted_until=to_datetime(group.muted_until) if is_muted and group.muted_until is not None else None,
            muted_by=group.muted_by if is_muted else None,
        )

    def to_dict(self) -> dict[str, Json]:
        """Plain values: times as ISO 8601 in UTC."""
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}


def _plain(value: object) -> Json:
    if isinstance(value, datetime):
        return isoformat(from_datetime(value))
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # of numbers


def named_failure(group: FailureGroup) -> str:
    """A group as people name it: its type and its id."""
    return f"{group.task_type}/{group.id}"


async def one_failure(store: Store, task_type: str, failure_id: str) -> Failures:
    """The group of a type and an id."""
    found = await store.failures(task_type, failure_id)
    if not found:
        raise UnknownFailure(
            f"There is no group of failures {task_type}/{failure_id[:40]}, or it was not seen for so long that it"
            " is gone. `rota failures ls` lists those there are."
        )
    return found[0]


async def find_failure(store: Store, name: str) -> Failures:
    """The group that a person names: TYPE/ID, or the id alone where one type has it."""
    task_type, slash, failure_id = name.rpartition("/")
    if slash:
        return await one_failure(store, task_type, failure_id)
    found = await store.failures(None, failure_id)
    if len(found) > 1:
        names = ", ".join(named_failure(each.group) for each in found)
        raise InvalidInput(f"Several types have failures of the group {name[:40]!r}: {names}. Name one of them.")
    return found[0] if found else await one_failure(store, "?", failure_id)


def those_dead(group: FailureGroup) -> TaskQuery:
    """The dead letters of a group."""
    return TaskQuery(task_type=group.task_type, status=TaskStatus.FAILED, failure=group.id)
