"""A task as the scheduler interface knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from rota.clock import SECOND, Instant
from rota.core.task import Task, TaskStatus
from rota.core.task_type import did_you_mean
from rota.errors import InvalidInput

__all__ = ["TaskInfo"]


@dataclass
class TaskInfo:
    """One task as the scheduler interface knows it: times are Unix seconds, `lock_token` is the token of its lease.

    `user_id` is None for a task that runs for nobody in particular.
    """

    task_type: str
    user_key: str
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    status: TaskStatus
    created_at: int
    scheduled_at: int
    last_activity: int
    retry_count: int = 0
    lock_token: str | None = None

    def to_dict(self) -> dict[str, str]:
        """Texts, as a Redis hash keeps them; None is an empty one."""
        return {field.name: _text(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> TaskInfo:
        """From what `to_dict` gave. Fields that are not known here are passed over: a newer version wrote them."""
        return cls(
            task_type=_required(data, "task_type"),
            user_key=_required(data, "user_key"),
            user_id=_optional(data, "user_id"),
            device_id=_optional(data, "device_id"),
            agent_id=_optional(data, "agent_id"),
            status=_status(data),
            created_at=_whole(data, "created_at"),
            scheduled_at=_whole(data, "scheduled_at"),
            last_activity=_whole(data, "last_activity"),
            retry_count=_whole(data, "retry_count"),
            lock_token=_optional(data, "lock_token"),
        )

    @classmethod
    def of(cls, task: Task) -> TaskInfo:
        """What of a task this face can say."""
        return cls(
            task_type=task.task_type,
            user_key=task.key,
            user_id=task.user_id,
            device_id=task.device_id,
            agent_id=task.agent_id,
            status=task.status,
            created_at=task.created_at // SECOND,
            scheduled_at=task.scheduled_at // SECOND,
            last_activity=_seconds(task.last_activity_at, task.created_at),
            retry_count=task.errors,
            lock_token=str(task.token) if task.token else None,
        )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _seconds(at: Instant | None, otherwise: Instant) -> int:
    return (otherwise if at is None else at) // SECOND


def _optional(data: Mapping[str, object], name: str) -> str | None:
    value = data.get(name)
    return None if value is None or value == "" else str(value)


def _required(data: Mapping[str, object], name: str) -> str:
    value = _optional(data, name)
    if value is None:
        raise InvalidInput(f"A TaskInfo needs {name!r}, which is missing. Give what to_dict() gave.")
    return value


def _whole(data: Mapping[str, object], name: str) -> int:
    value = _optional(data, name) or "0"
    try:
        return int(value)
    except ValueError:
        raise InvalidInput(f"{name} of a TaskInfo is {value!r}. Use a whole number of seconds.") from None


def _status(data: Mapping[str, object]) -> TaskStatus:
    value = _required(data, "status")
    try:
        return TaskStatus(value)
    except ValueError:
        hint = did_you_mean(value, [status.value for status in TaskStatus])
        raise InvalidInput(f"status of a TaskInfo is {value!r}. {hint}") from None
