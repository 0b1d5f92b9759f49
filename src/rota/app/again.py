"""A task once more: as it was, or with another payload."""

from __future__ import annotations

import enum
from typing import Final, Literal

from rota.app.results import decoded, encode_json
from rota.core.task import NewTask, Task
from rota.keys import GLOBAL_KEY, shown_key
from rota.masking import unmasked

__all__ = ["SAME", "Same", "once_more"]


class _Same(enum.Enum):
    SAME = enum.auto()


Same = Literal[_Same.SAME]
SAME: Final = _Same.SAME
"""The payload that the task carried."""


def once_more(task: Task, payload: object, mark: str) -> NewTask:
    """The task again, due at once. What goes on by itself (a series, a type's own task) is left to go on: this one runs
    beside it under a key of its own, which ends with the mark."""
    goes_on = task.is_recurring or task.key == GLOBAL_KEY
    if payload is SAME:
        carried = task.payload
    else:
        # Whoever was shown the payload with its secrets hidden has not changed those.
        carried = encode_json(unmasked(payload, decoded(task.payload)), f"payload of a {task.task_type!r} task")
    return NewTask(
        task_type=task.task_type,
        key=f"{shown_key(task.key)[:200]}:again:{mark}" if goes_on else task.key,
        payload=carried,
        priority=task.priority,
        serial=task.serial,
        permits=task.permits,
        cost=task.cost,
        owner=task.owner,
        user_id=task.user_id,
        device_id=task.device_id,
        agent_id=task.agent_id,
    )
