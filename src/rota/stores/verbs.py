"""Every verb of the contract, written once over a unit of work.

A verb loads what it needs, asks `core/` what happens, and lets the work write it. It knows no SQL and no transition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from rota.clock import DAY, HOUR, Instant, Millis
from rota.core import activity as activities
from rota.core import bucket as buckets
from rota.core import failure as failure_groups
from rota.core import lifecycle, plain
from rota.core import serial as serials
from rota.core.bucket import Bucket
from rota.core.failure import FailureGroup, FailureReport, add_reports, grown, over_limit
from rota.core.history import KEPT_MS, Resolution, Slice, add
from rota.core.lifecycle import Step
from rota.core.outcome import Answer, Reply, Scheduled, ScheduleOutcome, Settled, Touched, TouchOutcome
from rota.core.rank import Heads, by_rank
from rota.core.task import (
    Activity,
    Change,
    Entry,
    Identity,
    Lease,
    NewTask,
    Renewal,
    Settlement,
    Task,
    TaskStatus,
    Transition,
)
from rota.core.task_type import RateLimit, TaskType
from rota.errors import LimitExceeded
from rota.stores.base import (
    Beat,
    Claimed,
    ClaimRequest,
    Overrides,
    Page,
    Purged,
    Restored,
    RunLeft,
    RunRef,
    Snapshot,
    Taken,
    Tick,
    TypeRecord,
)
from rota.stores.claiming import Claiming, Queue
from rota.stores.transaction import Completion, Retention, Sweeps, WholeTransaction
from rota.stores.work import Work

__all__ = [
    "Request",
    "abandon",
    "apply",
    "claim",
    "claim_share",
    "count_failures",
    "end_expired",
    "export",
    "hand_on",
    "is_put",
    "keep_details",
    "mute_failure",
    "note",
    "override_type",
    "prune",
    "pump",
    "purge_old",
    "put_types",
    "reap",
    "record",
    "renew",
    "reset_breaker",
    "restore",
    "schedule",
    "settle",
    "settle_runs",
    "take",
    "tick",
    "touch",
    "update",
]

REAP_PAGE = 200
INSTANCE_TTL: Millis = HOUR
"""How long an instance that died without a goodbye is still listed."""
TOMBSTONE_TTL: Millis = 7 * DAY
"""How long it is remembered that a user was erased: the id is theirs, too."""
CLAIM_ROUNDS = 20
"""How often a claim looks again after it had to park what it found: a bound on one step's work."""
_SUCCEEDED = Settled(Answer.OK, TaskStatus.COMPLETED)
ELSEWHERE_MS: Millis = 10
"""What another step holds at this moment is to be had again after so long."""


# --- types ----------------------------------------------------------------------------------------------------------


def is_put(known: TypeRecord | None, task_type: TaskType) -> bool:
    """Whether putting the type would change nothing: it is there as it is, or in a newer version."""
    return known is not None and (known.task_type == task_type or known.task_type.version > task_type.version)


def put_types(work: Work, types: Sequence[TaskType]) -> list[TypeRecord]:
    records: list[TypeRecord] = []
    for task_type in types:
        known = work.types.get(task_type.name)
        if known is not None and known.task_type.version > task_type.version:
            records.append(known)
            continue
        record = TypeRecord(task_type, Overrides() if known is None else known.overrides)
        if record != known:
            work.transaction.put_type(record)
        records.append(record)
    return records


def override_type(work: Work, name: str, changes: Mapping[str, object]) -> TypeRecord:
    """Checked `changes` (see `limits.check_overrides`) over what was overridden before."""
    known = work.type_record(name)
    record = TypeRecord(known.task_type, replace(known.overrides, **changes))
    if record == known:
        return record
    work.transaction.put_type(record)
    if record.runs:
        # What was held back, or limited more tightly, may start now.
        work.earliest_due_at = work.now
    return record


def note(transaction: WholeTransaction, name: str, value: str, *, replace: bool) -> str:
    """What is remembered under the name by now."""
    transaction.note(name, value, replace=replace)
    noted = transaction.noted(name)
    assert noted is not None, f"{name!r} was noted in this very step"
    return noted


# --- making work ----------------------------------------------------------------------------------------------------


def schedule(work: Work, tasks: Sequence[NewTask]) -> list[Scheduled]:
    work.load(new.identity for new in tasks)
    for new in tasks:
        _check_cost(new, work.type_of(new.task_type))
    return [_schedule(work, new) for new in tasks]


def _check_cost(new: NewTask, task_type: TaskType) -> None:
    limit = task_type.rate_limit
    if limit is not None and new.cost > limit.burst:
        raise LimitExceeded(
            f"The cost of {new.identity} is {new.cost}, but rate_limit.burst of its type is {limit.burst}: it could"
            " never start. Lower the cost or raise the burst."
        )


def _schedule(work: Work, new: NewTask) -> Scheduled:
    record = work.type_record(new.task_type)
    entry = work.entry(new.identity)
    if entry.task is not None and entry.task.status.is_live:
        return _replace(work, new) if new.replace else Scheduled(ScheduleOutcome.EXISTS, entry.task)
    refusal = _refusal(work, new, record)
    if refusal is not None:
        return Scheduled(refusal, entry.task)
    step = lifecycle.schedule(entry, new, record.effective, work.now)
    work.apply(step, new.identity)
    return Scheduled(ScheduleOutcome.CREATED, step.task)


def _refusal(work: Work, new: NewTask, record: TypeRecord) -> ScheduleOutcome | None:
    if not record.accepts:
        return ScheduleOutcome.DISABLED
    if work.pending(new.task_type) >= record.effective.max_pending:
        return ScheduleOutcome.FULL
    if new.owner is not None and new.owner_limit is not None and _owned(work, new, new.owner) >= new.owner_limit:
        return ScheduleOutcome.QUOTA
    return None


def _owned(work: Work, new: NewTask, owner: str) -> int:
    # What this very step has made is not yet in the transaction's count: write it first.
    work.flush()
    return work.transaction.owned(new.task_type, owner)


def _replace(work: Work, new: NewTask) -> Scheduled:
    """An upsert of a live task changes what the caller names and keeps the rest."""
    entry = work.entry(new.identity)
    assert entry.task is not None
    change = _difference(entry.task, new)
    if change is None:
        return Scheduled(ScheduleOutcome.EXISTS, entry.task)
    step = lifecycle.update(entry, change, work.now)
    work.apply(step, new.identity)
    return Scheduled(ScheduleOutcome.UPDATED, step.task)


def _difference(task: Task, new: NewTask) -> Change | None:
    fields: dict[str, object] = {}
    for name in ("payload", "policy", "max_runs", "expires_at"):
        if getattr(task, name) != getattr(new, name):
            fields[name] = getattr(new, name)
    if new.trigger is not None and new.trigger != task.trigger:
        fields["trigger"] = new.trigger
    if new.priority is not None and new.priority != task.priority:
        fields["priority"] = new.priority
    if new.trigger is None and new.scheduled_at is not None and new.scheduled_at != task.scheduled_at:
        fields["scheduled_at"] = new.scheduled_at
    return Change(task_type=task.task_type, key=task.key, **fields) if fields else None  # pyright: ignore[reportArgumentType]  # the names come from Change itself


def touch(work: Work, touches: Sequence[Activity]) -> list[Touched]:
    work.load(activity.identity for activity in touches)
    return [_touch(work, activity) for activity in touches]


def _touch(work: Work, activity: Activity) -> Touched:
    record = work.type_record(activity.task_type)
    touching = activities.touch(
        work.entry(activity.identity),
        activity,
        record.effective,
        enabled=record.accepts,
        pending=work.pending(activity.task_type),
        now=work.now,
    )
    if touching.step is not None:
        work.apply(touching.step, activity.identity)
    if touching.touched.outcome is TouchOutcome.COALESCED:
        work.coalesced(activity.task_type)
    return touching.touched


def update(work: Work, changes: Sequence[Change]) -> list[Reply]:
    return _each(work, changes, lambda entry, change: lifecycle.update(entry, change, work.now))


# --- running it -----------------------------------------------------------------------------------------------------


def claim(work: Work, request: ClaimRequest) -> Claimed:
    claiming = Claiming(request)
    for _ in range(CLAIM_ROUNDS):
        queues = claiming.open_queues()
        if not queues:
            break
        # Write what was parked or skipped, so that the next look finds others.
        work.flush()
        candidates = [_seen(work, queue, request.exclude) for queue in queues]
        heads = [Heads(seen, _aging_of(work, queue.name)) for queue, seen in zip(queues, candidates, strict=True)]
        claiming.share_out(queues, heads)
        # By name, in every claim: each type may have a bucket to wait for.
        for queue, seen in sorted(zip(queues, candidates, strict=True), key=lambda pair: pair[0].name):
            _start(work, queue, seen, request)
    return claiming.claimed(work.now)


def _runs(work: Work, task_type: str) -> bool:
    record = work.types.get(task_type)
    return record is not None and record.runs


def _seen(work: Work, queue: Queue, exclude: Collection[Identity]) -> list[Task]:
    """Of a type that is off, or that nobody knows, nothing is to be seen."""
    return _candidates(work, work.type_of(queue.name), queue.reach, exclude) if _runs(work, queue.name) else []


def _aging_of(work: Work, task_type: str) -> Millis:
    """Of a type that nobody knows there is nothing to be ranked."""
    return work.type_of(task_type).aging_ms if task_type in work.types else 0


def _start(work: Work, queue: Queue, seen: Sequence[Task], request: ClaimRequest) -> None:
    if not _runs(work, queue.name):
        return queue.take([], next_due_at=None, is_spent=False)
    more_at = None if len(seen) >= queue.reach else work.transaction.next_due(queue.name, work.now)
    taken, spent_until = _take_some(work, work.type_of(queue.name), seen[: queue.share], request)
    return queue.take(taken, next_due_at=spent_until or more_at, is_spent=spent_until is not None)


def claim_share(work: Work, task_type: str, share: int, request: ClaimRequest) -> tuple[list[Task], Instant | None]:
    """The first `share` due tasks of one type, less those that cannot start; until when its rate allows no more."""
    candidates = _candidates(work, work.type_of(task_type), share, request.exclude)
    return _take_some(work, work.type_of(task_type), candidates, request)


def _candidates(work: Work, task_type: TaskType, wanted: int, exclude: Collection[Identity]) -> list[Task]:
    lanes = work.transaction.due(task_type.name, work.now, wanted + len(exclude))
    merged = by_rank([work.adopt(lane) for lane in lanes], task_type.aging_ms)
    found = (
        task
        for task in merged
        if task.status is TaskStatus.PENDING and not task.parked and task.scheduled_at <= work.now
        if not exclude or task.identity not in exclude
    )
    return list(islice(found, wanted))


def _take_some(
    work: Work, task_type: TaskType, candidates: Sequence[Task], request: ClaimRequest
) -> tuple[list[Task], Instant | None]:
    """Those of the candidates that could start, and if the type's rate or another step kept others back, until when."""
    if not candidates:
        return [], None
    allowance = _Allowance(work, task_type)
    tokens = _tokens(work, candidates, request)
    holders = _Holders(work, task_type.name, candidates)
    until = work.now + (task_type.timeout_ms if request.lease_ms is None else request.lease_ms)
    steps: list[Step] = []
    is_kept_back = False
    for task in candidates:
        if task.serial is not None:
            if holders.is_elsewhere(task.serial):
                is_kept_back = True
                continue
            if holders.is_busy(task):
                work.set_task(serials.park(task))
                continue
        if not (allowance.is_all or allowance.grants(task.cost)):
            break
        # Whatever the store's counter and its clock say: for one task the order never breaks.
        token = max(next(tokens), task.last_token + 1)
        lease = Lease(token, until, request.instance, request.claim_id)
        step = lifecycle.claim(work.entry(task.identity), lease, task_type, work.now)
        steps.append(step)
        if step.answer is Answer.OK:
            holders.add(task)
        else:
            allowance.refund(task.cost)
    allowance.put_back()
    taken = [step.task for step in steps if step.answer is Answer.OK and step.task is not None]
    are_plain = all(map(plain.is_claimed_plainly, candidates))
    if not (are_plain and work.claim_plain(task_type, taken)):
        for step in steps:
            work.apply(step, _identity_of(step))
    if taken and task_type.after:
        # What completed before this claim is dealt with by the run that starts now (fan-in starts anew).
        work.transaction.clear_completed([task.identity for task in taken])
    if allowance.is_spent:
        return taken, work.now + allowance.wait_ms
    return taken, work.now + ELSEWHERE_MS if is_kept_back else None


def _identity_of(step: Step) -> Identity:
    assert step.task is not None, "a task that is claimed, or whose series is over, is still there"
    return step.task.identity


def _tokens(work: Work, candidates: Sequence[Task], request: ClaimRequest) -> Iterator[int]:
    highest = max(task.last_token for task in candidates)
    return work.transaction.tokens(len(candidates), request.claim_id, work.now, highest)


class _Holders:
    """Who runs under the serials of some candidates of a type, kept current while they are claimed."""

    def __init__(self, work: Work, task_type: str, candidates: Sequence[Task]) -> None:
        wanted = {(task_type, task.serial) for task in candidates if task.serial is not None}
        held = [serial for _, serial in work.hold_serials(wanted)] if wanted else []
        running: Mapping[str, int] = work.transaction.running_under(task_type, held) if held else {}
        self._running = {serial: running.get(serial, 0) for serial in held}

    def is_elsewhere(self, serial: str) -> bool:
        """Whether another step holds the serial, so that nobody can say who runs under it."""
        return serial not in self._running

    def is_busy(self, task: Task) -> bool:
        return task.serial is not None and self._running[task.serial] >= task.permits

    def add(self, task: Task) -> None:
        if task.serial is not None:
            self._running[task.serial] += 1


class _Allowance:
    """What a type's own token buckets allow: what a task costs, and one start. A type without any is allowed all."""

    def __init__(self, work: Work, task_type: TaskType) -> None:
        self.is_spent = False
        self.wait_ms: Millis = 0
        self._costs = _open_bucket(work, buckets.rate_bucket(task_type.name), task_type.rate_limit)
        self._starts = _open_bucket(work, buckets.start_bucket(task_type.name), task_type.start_limit)
        self.is_all = self._costs is None and self._starts is None

    def grants(self, cost: int) -> bool:
        """Whether one more may start. It is paid for in both buckets, or in none."""
        asked = self._asked(cost)
        if not all(bucket.holds(amount) for bucket, amount in asked):
            self.is_spent = True
            self.wait_ms = max(bucket.wait_for(amount) for bucket, amount in asked)
            return False
        for bucket, amount in asked:
            bucket.take(amount)
        return True

    def refund(self, cost: int) -> None:
        for bucket, amount in self._asked(cost):
            bucket.give_back(amount)

    def put_back(self) -> None:
        for bucket, _ in self._asked(0):
            bucket.put_back()

    def _asked(self, cost: int) -> list[tuple[_OpenBucket, int]]:
        return [(bucket, amount) for bucket, amount in ((self._costs, cost), (self._starts, 1)) if bucket is not None]


def _open_bucket(work: Work, name: str, limit: RateLimit | None) -> _OpenBucket | None:
    return None if limit is None else _OpenBucket(work, name, limit)


class _OpenBucket:
    """One of a type's own buckets while its tasks are claimed.

    An amount above the capacity would never be met: it takes the whole bucket instead.
    """

    def __init__(self, work: Work, name: str, limit: RateLimit) -> None:
        self._work = work
        self._name = name
        self._limit = limit
        self._bucket = buckets.refill(work.transaction.bucket(name), rate=limit.rate, burst=limit.burst, now=work.now)

    def holds(self, amount: int) -> bool:
        return self._after(amount) is not None

    def wait_for(self, amount: int) -> Millis:
        return buckets.wait_for(self._bucket, min(amount, self._limit.burst), self._limit.rate)

    def take(self, amount: int) -> None:
        self._bucket = self._after(amount) or self._bucket

    def give_back(self, amount: int) -> None:
        self._bucket = buckets.owe(self._bucket, -min(amount, self._limit.burst), self._limit.burst)

    def put_back(self) -> None:
        self._work.transaction.put_bucket(self._name, self._bucket)

    def _after(self, amount: int) -> Bucket | None:
        return buckets.take(self._bucket, min(amount, self._limit.burst), self._limit.burst)


def abandon(work: Work, instance: str, claim_id: str) -> list[Task]:
    tasks = work.adopt(work.transaction.claimed(instance, claim_id))
    released = [
        Settlement(
            task_type=task.task_type, key=task.key, token=task.token, transition=Transition.RELEASE, reason="abandoned"
        )
        for task in tasks
    ]
    return [reply.task for reply in settle(work, released) if reply.task is not None]


def renew(work: Work, renewals: Sequence[Renewal], lease_ms: Millis) -> list[Reply]:
    until = work.now + lease_ms
    return _each(work, renewals, lambda entry, renewal: lifecycle.renew(entry, renewal, until))


def settle(work: Work, settlements: Sequence[Settlement]) -> list[Reply]:
    type_of, now = work.type_of, work.now
    replies = _each(work, settlements, lambda entry, item: lifecycle.settle(entry, item, type_of(item.task_type), now))
    for item, reply in zip(settlements, replies, strict=True):
        if item.details is not None and reply.answer is Answer.OK and reply.task is not None:
            work.keep_details(RunLeft(RunRef(*item.identity, item.token), item.details), reply.task.user_id)
    return replies


def settle_runs(work: Work, settlements: Sequence[Settlement]) -> list[Settled]:
    ended = _end_plain(work, settlements)
    others = iter(settle(work, [each for at, each in enumerate(settlements) if at not in ended]))
    return [ended.get(at) or _in_brief(next(others)) for at in range(len(settlements))]


def _in_brief(reply: Reply) -> Settled:
    return Settled(reply.answer, reply.task and reply.task.status)


def _end_plain(work: Work, settlements: Sequence[Settlement]) -> dict[int, Settled]:
    """What most runs come to, in one go where the store has a way; the answers to these, by their places."""
    places: dict[str, dict[str, int]] = {}
    for at, each in enumerate(settlements):
        # Of several about one task, the first one comes first.
        places.setdefault(each.task_type, {}).setdefault(each.key, at)
    answers: dict[int, Settled] = {}
    for task_type, by_key in places.items():
        said = {key: settlements[at] for key, at in by_key.items() if plain.says_success_alone(settlements[at])}
        if said:
            ended = work.end_plain(task_type, said)
            answers |= {by_key[key]: _SUCCEEDED for key in ended}
    return answers


# --- what a run leaves, and failures by groups ----------------------------------------------------------------------


def keep_details(work: Work, left: Sequence[RunLeft]) -> list[Answer]:
    """What running tasks have left so far; nobody but the holder of the lease may say it."""
    work.load(each.run.identity for each in left)
    return [_keep_details(work, each) for each in left]


def _keep_details(work: Work, left: RunLeft) -> Answer:
    task = work.entry(left.run.identity).task
    if task is None or task.status is not TaskStatus.RUNNING or task.token != left.run.token:
        return Answer.STALE
    work.keep_details(left, task.user_id)
    return Answer.OK


def count_failures(work: Work, reports: Sequence[FailureReport]) -> None:
    """Add to the groups of each type; what would be too many goes."""
    by_type: dict[str, list[FailureReport]] = {}
    for report in add_reports(reports):
        by_type.setdefault(report.task_type, []).append(report)
    for task_type, news in sorted(by_type.items()):
        groups = {group.id: group for group in work.transaction.failure_groups(task_type)}
        for report in news:
            groups[report.id] = grown(groups.get(report.id), report)
        dropped = over_limit(groups.values())
        changed = [groups[failure_id] for failure_id in dict.fromkeys(report.id for report in news)]
        work.transaction.put_failure_groups([each for each in changed if each.key not in dropped], dropped)


def mute_failure(work: Work, task_type: str, failure_id: str, until: Instant | None, by: str) -> FailureGroup | None:
    """Mute a group, or let it be heard again."""
    for group in work.transaction.failure_groups(task_type):
        if group.id == failure_id:
            muted = replace(group, muted_until=until, muted_by=None if until is None else by)
            work.transaction.put_failure_groups([muted], [])
            return muted
    return None


# --- what people ask for --------------------------------------------------------------------------------------------

_APPLIED: Mapping[Transition, Callable[[Entry, TaskType, Instant], Step]] = {
    Transition.PAUSE: lambda entry, _, now: lifecycle.pause(entry, now),
    Transition.RESUME: lifecycle.resume,
    Transition.CANCEL: lifecycle.cancel,
    Transition.RUN_NOW: lambda entry, _, now: lifecycle.run_now(entry, now),
    Transition.REDRIVE: lambda entry, _, now: lifecycle.redrive(entry, now),
    Transition.END: lifecycle.end,
    Transition.PURGE: lambda entry, _, __: lifecycle.purge(entry),
    Transition.ERASE: lambda entry, _, now: lifecycle.erase(entry, now),
}


class Request(NamedTuple):
    """What somebody asks of one task."""

    task_type: str
    key: str
    transition: Transition

    @property
    def identity(self) -> Identity:
        return Identity(self.task_type, self.key)


def apply(work: Work, requests: Sequence[Request]) -> list[Reply]:
    return _each(work, requests, lambda entry, request: _apply(work, entry, request))


def _apply(work: Work, entry: Entry, request: Request) -> Step:
    if entry.task is None:
        return Step(Answer.UNKNOWN, None, entry.past)
    return _APPLIED[request.transition](entry, work.type_of(request.task_type), work.now)


def reset_breaker(work: Work, identities: Sequence[Identity]) -> None:
    work.load(identities)
    for identity in identities:
        entry = work.entry(identity)
        work.apply(lifecycle.forgive(entry), identity)


# --- duties ---------------------------------------------------------------------------------------------------------


def tick(work: Work, sweeps: Sweeps, beat: Beat) -> Tick:
    # Before the beat: it would look like a sweep.
    swept_at = sweeps.swept_at(work.now)
    sweeps.beat(beat, work.now)
    sweeps.set_swept_at(work.now)
    extended = _put_leases_right(work.now, sweeps, swept_at, beat.lease_ms)
    expired = work.adopt(sweeps.expired_leases(work.now, REAP_PAGE))
    reaped = reap(work, [task.identity for task in expired])
    work.flush()
    idle = sweeps.idle_serials(REAP_PAGE)
    if idle:
        work.unpark(work.hold_serials(idle))
    return Tick(reaped, extended, _next_due(work, beat.types), work.now)


def _put_leases_right(now: Instant, sweeps: Sweeps, swept_at: Instant | None, lease_ms: Millis) -> int:
    """After a time in which nobody could renew; how many leases were extended for it."""
    until, patience_ms = now + lease_ms, lease_ms // 2
    if swept_at is None or now - swept_at > patience_ms:
        # An outage, or a suspended host: nobody is to blame. Once: whoever does not renew then is dead.
        return sweeps.extend_leases(until)
    if swept_at - now > patience_ms:
        # The clock stepped back: leases that were good for seconds would be good for as long as it stepped.
        sweeps.set_back_leases(swept_at - now, until)
    return 0


def reap(work: Work, identities: Sequence[Identity]) -> list[Task]:
    """Take back those of some tasks whose lease has run out."""
    work.load(identities)
    alive = _alive(work, identities)
    reaped: list[Task] = []
    for identity in identities:
        task = work.entry(identity).task
        if task is None:
            continue
        is_alive = task.instance in alive
        step = lifecycle.reap(work.entry(identity), work.type_of(task.task_type), work.now, is_alive=is_alive)
        work.apply(step, identity)
        if step.answer is Answer.OK and step.task is not None:
            reaped.append(step.task)
    return reaped


def _alive(work: Work, identities: Sequence[Identity]) -> frozenset[str | None]:
    """The instances that gave a sign of life lately; asked only where it makes a difference."""
    tasks = [work.entry(identity).task for identity in identities]
    if all(task is None or task.renewed for task in tasks):
        return frozenset()
    return frozenset(
        instance.beat.instance
        for instance in work.transaction.instances()
        if work.now - instance.seen_at < instance.beat.lease_ms * 3 // 4
    )


def _next_due(work: Work, names: Sequence[str]) -> Instant | None:
    return min((due for name in names for due in _due_of(work, name)), default=None)


def _due_of(work: Work, name: str) -> Iterator[Instant]:
    record = work.types.get(name)
    if record is None or not record.runs:
        return
    # Anything due before now counts as due: the dispatcher asks for it and learns from the claim what holds it back.
    due = work.transaction.next_due(name, 0)
    if due is not None:
        yield due


def prune(work: Work, kept: Retention, run_ttl_ms: Millis, limit: int) -> Purged:
    expired = work.adopt(kept.expired(work.now, limit))
    ended = end_expired(work, [task.identity for task in expired])
    purgeable = work.adopt(kept.purgeable(work.now, limit))
    purged = purge_old(work, [task.identity for task in purgeable])
    work.flush()
    forgotten = kept.forget(work.now, limit)
    runs = kept.drop_runs(work.now - run_ttl_ms, limit)
    kept.drop_instances(work.now - INSTANCE_TTL)
    kept.drop_erasures(work.now - TOMBSTONE_TTL)
    for resolution in Resolution:
        kept.drop_slices(resolution, work.now - KEPT_MS[resolution])
    kept.drop_old_details(work.now - run_ttl_ms, limit)
    kept.drop_failure_groups(work.now - failure_groups.KEPT_MS)
    return Purged(ended, purged, forgotten, runs)


def end_expired(work: Work, identities: Sequence[Identity]) -> int:
    """End those of some tasks whose time is over; how many they were."""

    def step(task: Task) -> Step | None:
        if task.expires_at is None or task.expires_at > work.now:
            return None
        return lifecycle.end(work.entry(task.identity), work.type_of(task.task_type), work.now)

    return _step_each(work, identities, step)


def purge_old(work: Work, identities: Sequence[Identity]) -> int:
    """Purge those of some tasks that are past their retention; how many they were."""

    def step(task: Task) -> Step | None:
        if task.purge_at is None or task.purge_at > work.now:
            return None
        return lifecycle.purge(work.entry(task.identity))

    return _step_each(work, identities, step)


def _step_each(work: Work, identities: Sequence[Identity], step_of: Callable[[Task], Step | None]) -> int:
    """One step on each task that is still there; how many took it."""
    work.load(identities)
    stepped = 0
    for identity in identities:
        task = work.entry(identity).task
        step = None if task is None else step_of(task)
        if step is not None and step.answer is Answer.OK:
            work.apply(step, identity)
            stepped += 1
    return stepped


def record(work: Work, slices: Sequence[Slice]) -> None:
    """Add to the minutes and to the hours; what would be dropped at once is not written."""
    for resolution in Resolution:
        new = [each for each in add(slices, resolution) if each.start_at >= work.now - KEPT_MS[resolution]]
        if new:
            known = work.transaction.slices(resolution, [each.key for each in new])
            work.transaction.put_slices(resolution, add([*known, *new], resolution))


def pump(work: Work, whole: WholeTransaction, limit: int) -> int:
    """Taking a completion out of the log and handing it on is one step: a crash delays it and never loses it."""
    completions = whole.take_completions(limit)
    hand_on(work, completions, list(work.types))
    return len(completions)


def hand_on(work: Work, completions: Sequence[Completion], followers: Sequence[str]) -> None:
    """Give each completion to those of the followers that come after its type."""
    waiting = [
        (Identity(follower, completion.key), completion)
        for completion in completions
        for follower in followers
        if completion.task_type in work.types[follower].task_type.after
    ]
    # Whoever claims a follower clears what has completed for it: all of them are held before anything is marked or
    # read. In order, as everywhere, so that two pumps never wait for each other.
    work.load(identity for identity, _ in waiting)
    for identity, completion in sorted(waiting, key=lambda each: each[0]):
        _hand_on(work, identity, completion)


def _hand_on(work: Work, identity: Identity, completion: Completion) -> None:
    follower = work.types[identity.task_type].task_type
    is_new = work.transaction.mark_completed(identity, completion.task_type, completion.log_id)
    if not is_new or not set(follower.after) <= work.transaction.completed_for(identity):
        return
    entry = work.entry(identity)
    if entry.task is not None and entry.task.status.is_live:
        work.apply(lifecycle.touch(entry, follower, work.now), identity)
        return
    new = NewTask(
        task_type=follower.name,
        key=completion.key,
        user_id=completion.user_id,
        device_id=completion.device_id,
        agent_id=completion.agent_id,
        trace=completion.trace,
    )
    work.apply(lifecycle.schedule(entry, new, follower, work.now), identity)


def take(work: Work, name: str, amount: int, rate: float, burst: int, owe: bool) -> Taken:
    bucket = buckets.refill(work.transaction.bucket(name), rate=rate, burst=burst, now=work.now)
    left = buckets.owe(bucket, amount, burst) if owe else buckets.take(bucket, amount, burst)
    work.transaction.put_bucket(name, bucket if left is None else left)
    if left is None:
        return Taken(0, buckets.wait_for(bucket, amount, rate))
    return Taken(amount, buckets.wait_for(left, 0, rate) if owe else 0)


# --- moving to another store ----------------------------------------------------------------------------------------


def export(work: Work, found: Sequence[Identity], limit: int) -> Page[Snapshot]:
    """All that is known of the first identities that were found; one more than `limit` were looked for."""
    identities = found[:limit]
    work.load(identities)
    snapshots = [_snapshot(work, identity) for identity in identities]
    return Page(snapshots, str(identities[-1]) if len(found) > limit else None)


def _snapshot(work: Work, identity: Identity) -> Snapshot:
    task, past = work.entry(identity)
    record = work.types.get(identity.task_type)
    # Only types that come after others wait for anything: nobody else is asked.
    follows = record is not None and bool(record.task_type.after)
    arrived = sorted(work.transaction.completed_for(identity)) if follows else ()
    return Snapshot(identity=identity, task=task, past=past, arrived=tuple(arrived))


def restore(work: Work, snapshots: Sequence[Snapshot]) -> list[Restored]:
    work.load(snapshot.identity for snapshot in snapshots)
    return [_restore(work, snapshot) for snapshot in snapshots]


def _restore(work: Work, snapshot: Snapshot) -> Restored:
    identity = snapshot.identity
    if identity.task_type not in work.types:
        return Restored.UNKNOWN_TYPE
    here, there = work.entry(identity), Entry(snapshot.task, snapshot.past)
    if here == there or _is_released(here, there):
        return Restored.ALREADY if _mark_completed(work, snapshot) == 0 else Restored.MOVED
    if _is_taken(here) or _known_until(here) > _known_until(there):
        return Restored.KEPT
    work.apply(_settled_down(work, there), identity)
    _mark_completed(work, snapshot)
    return Restored.MOVED


def _is_taken(entry: Entry) -> bool:
    return entry.task is not None and entry.task.status.is_live


def _is_released(here: Entry, there: Entry) -> bool:
    """Whether a running task was restored before: here it was released from the very run that it has there."""
    if here.task is None or there.task is None or there.task.status is not TaskStatus.RUNNING:
        return False
    return here.task.last_token == there.task.token and here.past == there.past


def _known_until(entry: Entry) -> Instant:
    """The last instant at which something is known to have happened to an identity."""
    task, past = entry
    updated_at = 0 if task is None else task.updated_at
    return max(updated_at, past.last_claimed_at or 0, past.last_exec_at or 0)


def _settled_down(work: Work, entry: Entry) -> Step:
    """The entry as another store can go on with it: nobody there holds the lease of a running task."""
    task = entry.task
    if task is None or task.status is not TaskStatus.RUNNING:
        return Step(Answer.OK, task, entry.past)
    release = Settlement(
        task_type=task.task_type,
        key=task.key,
        token=task.token,
        transition=Transition.RELEASE,
        reason="moved to another store",
    )
    return lifecycle.settle(entry, release, work.type_of(task.task_type), work.now)


def _mark_completed(work: Work, snapshot: Snapshot) -> int:
    """Completions that have arrived there have arrived here too; how many of them are new."""
    new = set(snapshot.arrived) - work.transaction.completed_for(snapshot.identity) if snapshot.arrived else set[str]()
    for task_type in sorted(new):
        work.transaction.mark_completed(snapshot.identity, task_type)
    return len(new)


# --- shared ---------------------------------------------------------------------------------------------------------

_Item = TypeVar("_Item", Change, Renewal, Request, Settlement)


def _each(work: Work, items: Sequence[_Item], step_of: Callable[[Entry, _Item], Step]) -> list[Reply]:
    identities = [item.identity for item in items]
    work.load(identities)
    replies: list[Reply] = []
    for identity, item in zip(identities, items, strict=True):
        step = step_of(work.entry(identity), item)
        work.apply(step, identity)
        replies.append(Reply(step.answer, step.task))
    return replies
