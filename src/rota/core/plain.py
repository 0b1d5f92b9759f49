"""What most tasks go through, worked out once for many.

A plain task is nothing but work that is due: no series, no serial, nobody's wish. What the lifecycle makes of one of
them it makes of all, but for what is a task's own. So a store may ask once, about a sample, and do the same to two
hundred others without asking for each.

    claim      pending -> running
    success    running -> completed, when there is nothing else to be said of the run

The samples have something in every field that a plain task may use, so that whatever the lifecycle clears, shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rota.clock import Instant
from rota.core import lifecycle
from rota.core.lifecycle import Step
from rota.core.task import Entry, Lease, Past, Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType

__all__ = ["RUNNING", "WAITING", "claim", "is_claimed_plainly", "says_success_alone", "success"]

_LEASE: Final = {"token": -1, "lease_until": -1, "instance": "sample", "claim_id": "sample"}
# What was claimed runs for its due time: its run's record need not name that once more.
_CLAIMED: Final = {**_LEASE, "fire_at": -1}
_UNCLAIMED: Final = {"fire_at": -2}


def _sample(status: TaskStatus, lease: Mapping[str, Any]) -> Entry:
    task = Task(
        task_type="sample",
        key="sample",
        status=status,
        scheduled_at=-1,
        created_at=-1,
        updated_at=-1,
        user_id="sample",
        device_id="sample",
        agent_id="sample",
        payload="sample",
        priority=-1,
        trigger_mode="sample",
        version=-1,
        first_activity_at=-1,
        last_activity_at=-1,
        coalesced=-1,
        claimed_at=-1,
        claimed_version=-2,
        last_token=-2,
        last_outcome=Transition.RELEASE,
        attempt=-1,
        finished_at=-1,
        purge_at=-1,
        **lease,
    )
    return Entry(task, Past(last_exec_at=-1, last_claimed_at=-1, forget_at=-1))


WAITING: Final = _sample(TaskStatus.PENDING, _UNCLAIMED)
RUNNING: Final = _sample(TaskStatus.RUNNING, _CLAIMED)

# --- a claim ----------------------------------------------------------------------------------------------------------


def is_claimed_plainly(task: Task) -> bool:
    """Whether there is nothing about a due task that a claim would have to change beside what it changes in all."""
    return (
        task.trigger is None
        and task.serial is None
        and task.expires_at is None
        and task.progress is None
        and not (task.parked or task.dirty or task.renewed or task.extended)
    )


def claim(claimed: Task, task_type: TaskType, now: Instant) -> Step:
    """What becomes of `WAITING` by the same claim as of this one."""
    assert claimed.lease_until is not None, "it is claimed"
    assert claimed.instance is not None, "it is claimed"
    assert claimed.claim_id is not None, "it is claimed"
    lease = Lease(claimed.token, claimed.lease_until, claimed.instance, claimed.claim_id)
    return lifecycle.claim(WAITING, lease, task_type, now)


# --- a success --------------------------------------------------------------------------------------------------------


def says_success_alone(settlement: Settlement) -> bool:
    """Whether a run has succeeded, and there is nothing else to be said of it."""
    return (
        settlement.transition is Transition.COMPLETE
        and settlement.reason is None
        and settlement.error is None
        and settlement.result is None
        and settlement.details is None
    )


def success(task_type: TaskType, now: Instant) -> Step:
    """What becomes of `RUNNING` when its run has succeeded."""
    done = Settlement(task_type="sample", key="sample", token=-1, transition=Transition.COMPLETE)
    return lifecycle.settle(RUNNING, done, task_type, now)
