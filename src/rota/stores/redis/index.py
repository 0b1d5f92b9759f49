"""Where a task stands in the indexes: one function says it, for writing and for repairing alike.

The record is the truth; a member is what the record says must be found in an index. A commit writes the difference
between the members before and after, the reconciler the difference between the members and what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rota.clock import Millis
from rota.core.rank import rank
from rota.core.task import NO_PAST, Entry, Identity, Task, TaskStatus
from rota.keys import GLOBAL_KEY, begins_with_user
from rota.stores.redis.keys import NORMAL_LANE, Keys

__all__ = ["INDEXES", "Command", "IndexMember", "index_members", "moves"]

INDEXES = 2
"""Counts on when there is a new kind of index. Records that an older version wrote do not stand there until the
reconciler has made its first pass; until then nobody relies on it."""

Command = list[str | int]

_FINISHED = {TaskStatus.FAILED: "dead", TaskStatus.COMPLETED: "done", TaskStatus.CANCELLED: "done"}


class IndexMember(NamedTuple):
    """Something that an index holds: a member of a sorted set, or of a plain one if it has no score."""

    key: str
    member: str
    score: int | None
    shared: bool = False
    """Whether others may stand for the same member: it is not removed when one of them leaves."""

    def enter(self) -> Command:
        return ["SADD", self.key, self.member] if self.score is None else ["ZADD", self.key, self.score, self.member]

    def leave(self) -> Command:
        return ["SREM" if self.score is None else "ZREM", self.key, self.member]


IndexMembers = Mapping[tuple[str, str], IndexMember]


def index_members(keys: Keys, identity: Identity, entry: Entry, aging_ms: Millis) -> IndexMembers:
    """Whatever the indexes hold of an identity, by key and member."""
    found = _members(keys, identity, entry, aging_ms)
    return {(each.key, each.member): each for each in found}


def moves(before: IndexMembers, after: IndexMembers) -> Iterator[Command]:
    """The commands that lead from one state of the indexes to another."""
    for where, member in before.items():
        if where not in after and not member.shared:
            yield member.leave()
    for where, member in after.items():
        if before.get(where) != member:
            yield member.enter()


def _members(keys: Keys, identity: Identity, entry: Entry, aging_ms: Millis) -> Iterator[IndexMember]:
    name, key = identity
    task = entry.task
    if task is None and entry.past == NO_PAST:
        return
    yield IndexMember(keys.of("keys", name), key, 0)
    if task is None:
        yield IndexMember(keys.of("past", name), key, entry.past.forget_at or 0)
        return
    yield from _by_status(keys, task, aging_ms)
    if task.status in (TaskStatus.PENDING, TaskStatus.PAUSED) and task.expires_at is not None:
        yield IndexMember(keys.of("expires", name), key, task.expires_at)
    if task.owner is not None and task.status.is_live:
        yield IndexMember(keys.of("owner", name, task.owner), key, None)
    if task.owner is not None:
        yield IndexMember(keys.of("owned", name, task.owner), key, 0)
    if task.trigger is not None and key != GLOBAL_KEY:
        yield IndexMember(keys.of("schedules", name), key, 0)
    if task.user_id is not None and not begins_with_user(key, task.user_id):
        yield IndexMember(keys.of("user", name, task.user_id), key, None)


def _by_status(keys: Keys, task: Task, aging_ms: Millis) -> Iterator[IndexMember]:
    name, key = task.identity
    match task.status:
        case TaskStatus.PENDING if task.parked and task.serial is not None:
            yield IndexMember(keys.of("parked", name, task.serial), key, rank(task, aging_ms)[0])
            yield IndexMember(keys.of("parked", name), key, task.scheduled_at)
            # Whoever leaves a serial behind empty takes it off this list, in the commit script.
            yield IndexMember(keys.of("serials", name), task.serial, None, shared=True)
        case TaskStatus.PENDING:
            yield IndexMember(keys.lane(name, task.priority), key, task.scheduled_at)
            if task.priority != NORMAL_LANE:
                yield IndexMember(keys.of("lanes", name), str(task.priority), None, shared=True)
        case TaskStatus.RUNNING:
            yield IndexMember(keys.of("running", name), key, task.lease_until or 0)
            if task.serial is not None:
                yield IndexMember(keys.of("holders", name, task.serial), key, None)
        case TaskStatus.PAUSED:
            yield IndexMember(keys.of("paused", name), key, task.scheduled_at)
        case finished:
            yield IndexMember(keys.of(_FINISHED[finished], name), key, task.purge_at or 0)
            if finished is TaskStatus.FAILED and task.failure is not None:
                yield IndexMember(keys.of("failed", name, task.failure), key, task.purge_at or 0)
