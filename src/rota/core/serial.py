"""One at a time, or n at a time: tasks that share a serial.

A due task whose serial is busy is *parked*: it stays pending, but leaves its lane, so that it neither blocks those
behind it nor is looked at again and again. Whoever stops competing for the serial un-parks the best one that waits,
in the same step.
"""

from __future__ import annotations

from msgspec.structs import replace

from rota.clock import Instant
from rota.core.task import Task, TaskStatus

__all__ = ["competes", "park", "stopped_competing", "unpark"]


def park(task: Task) -> Task:
    return replace(task, parked=True)


def unpark(task: Task) -> Task:
    return replace(task, parked=False)


def competes(task: Task | None, now: Instant) -> bool:
    """Whether the task holds its serial, or is about to be claimed for it."""
    if task is None or task.serial is None:
        return False
    if task.status is TaskStatus.RUNNING:
        return True
    return task.status is TaskStatus.PENDING and not task.parked and task.scheduled_at <= now


def stopped_competing(before: Task | None, after: Task | None, now: Instant) -> bool:
    """Whether somebody else may have the serial now.

    A run that ended counts even if the task is due again at once: those that were parked meanwhile may rank before it.
    """
    if before is None or not competes(before, now):
        return False
    ran = before.status is TaskStatus.RUNNING
    runs = after is not None and after.status is TaskStatus.RUNNING
    return (ran and not runs) or (not runs and not competes(after, now))
