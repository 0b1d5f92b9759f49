"""One user's data: which identities are theirs, and how they are erased.

A task belongs to the user that its record names. What is left after a task was purged (its past, a completion that has
arrived) names nobody; it belongs to the user with whom its key begins, as user keys do.

An erasure takes many small steps, over restarts: a tombstone says what was asked for and when. What was made after that
is not touched, since a user who comes back is a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from rota.clock import Instant
from rota.core import lifecycle
from rota.core.task import NO_PAST, Entry, Identity, RunRecord, Task, TaskStatus, Want
from rota.keys import begins_with_user
from rota.stores.base import Erasure, TypeRecord
from rota.stores.transaction import UserData
from rota.stores.work import Work

__all__ = [
    "begun",
    "belongs_to",
    "erase",
    "erase_completed_for",
    "erase_user",
    "followers_of",
    "is_erasable",
    "is_newer",
    "is_old_run",
    "is_still_running",
    "moved_on",
]

# --- whose it is ----------------------------------------------------------------------------------------------------


def belongs_to(user_id: str, identity: Identity, entry: Entry) -> bool:
    """Whether what is known of an identity is about this user."""
    if entry.task is not None:
        return entry.task.user_id == user_id
    return begins_with_user(identity.key, user_id)


def is_erasable(entry: Entry, until: Instant) -> bool:
    """Whether something of an identity is as old as that and can be removed, or told to stop."""
    task = entry.task
    if task is None:
        return _is_old_past(entry, until)
    if is_newer(task, until):
        return entry.past != NO_PAST and _is_old_past(entry, until)
    return not (task.status is TaskStatus.RUNNING and task.want is Want.CANCEL)


def is_newer(task: Task | None, until: Instant) -> bool:
    """Whether a task was made after an erasure was asked for: whoever comes back is somebody new."""
    return task is not None and task.created_at > until


def is_still_running(task: Task, user_id: str, until: Instant) -> bool:
    """Whether a task of the user is as old as that and has not ended yet."""
    return task.user_id == user_id and task.status is TaskStatus.RUNNING and task.created_at <= until


def is_old_run(run: RunRecord, until: Instant, task: Task | None) -> bool:
    """Whether a run record of the user goes: all but the runs of a task that is newer than that. `task` is the one
    that its identity has now."""
    return run.started_at <= until or not is_newer(task, until)


def _is_old_past(entry: Entry, until: Instant) -> bool:
    return max(entry.past.last_exec_at or 0, entry.past.last_claimed_at or 0) <= until


# --- erasing --------------------------------------------------------------------------------------------------------


def begun(known: Erasure | None, user_id: str, now: Instant) -> Erasure:
    """The erasure under way; a new one if there is none, or the last one is done."""
    if known is not None and known.done_at is None:
        return known
    return Erasure(user_id=user_id, asked_at=now)


def moved_on(erasure: Erasure, *, tasks: int, runs: int, running: int, is_over: bool, now: Instant) -> Erasure:
    """The erasure after one more step; it is done when nothing was left over and nothing runs any more."""
    return replace(
        erasure,
        tasks=erasure.tasks + tasks,
        runs=erasure.runs + runs,
        running=running,
        done_at=now if is_over and not running else None,
    )


def erase(work: Work, identities: Sequence[Identity], until: Instant) -> int:
    """One step of an erasure on some identities; how many tasks are gone."""
    work.load(identities)
    gone = 0
    for identity in identities:
        entry = work.entry(identity)
        if not is_erasable(entry, until):
            continue
        if entry.task is None or is_newer(entry.task, until):
            work.apply(lifecycle.forget_past(entry), identity)
        else:
            step = lifecycle.erase(entry, work.now)
            work.apply(step, identity)
            gone += step.task is None
        if work.entry(identity).task is None:
            work.transaction.drop_details([identity])
        record = work.types.get(identity.task_type)
        if record is not None and record.task_type.after and work.entry(identity).task is None:
            work.transaction.forget_completed([identity])
    return gone


def followers_of(types: Mapping[str, TypeRecord], identities: Iterable[Identity]) -> list[Identity]:
    """Where completions of these may have arrived: under the same keys, in the types that come after theirs."""
    return sorted(
        {
            Identity(name, identity.key)
            for identity in identities
            for name, record in types.items()
            if identity.task_type in record.task_type.after
        }
    )


def erase_completed_for(work: Work, followers: Sequence[Identity], until: Instant) -> None:
    """What has arrived for followers that have no task yet goes with what brought it: nothing there says whose it is,
    and not every key does."""
    work.load(followers)
    erase(work, [identity for identity in followers if work.entry(identity).task is None], until)


def erase_user(work: Work, data: UserData, user_id: str, limit: int) -> Erasure:
    """One step of the erasure of a user, for stores that see everything in one transaction."""
    erasure = begun(data.erasure(user_id), user_id, work.now)
    until = erasure.asked_at
    identities = data.known_of(user_id, until=until, limit=limit)
    tasks = erase(work, identities, until)
    erase_completed_for(work, followers_of(work.types, identities), until)
    work.flush()
    data.drop_completions(user_id, until)
    left = limit - len(identities)
    runs = data.drop_runs_of(user_id, until, left) if left else 0
    moved = moved_on(
        erasure,
        tasks=tasks,
        runs=runs,
        running=data.running_of(user_id, until),
        is_over=runs < left,
        now=work.now,
    )
    data.put_erasure(moved)
    return moved
