"""The life of a task: one table, and the only place that knows it.

Law 1: whatever changes a task's status lives in this file. Stores load a task, call a function of this module, and
write what it returns; they never compare statuses to decide what comes next, and neither does anything above them.

The table says which events a state accepts and where they lead. Three targets are no states:

    SAME     the status stays; the transition changes something else (activity, a lease, a wish)
    LEAVE    the task leaves `running`; where it goes is decided by `_leave`, in one fixed order
    GONE     the record is removed; only its past (cooldown, breaker, last claim) is kept for a while, unless the
             identity is erased: then its past goes, too

Leaving `running` always asks the same questions in the same order, so that no combination of a wish, a failure, a
series and a late activity can strand a task:

    1. does somebody want it cancelled?              cancelled
    2. are there retries left (of its kind)?         pending again, or paused if that is wanted
    3. is it a series with a next fire?              pending at that fire, or paused if that is wanted
    4. did activity arrive during the run?           pending once more, unless the breaker is open
    5. otherwise                                     completed or failed

Whatever the answer, the run's record keeps how the run really ended.

Every function here is pure: time (`now`) and chance come in as arguments, and the result is a `Step`: the new task,
its past, the run records to append, and an answer. A store that writes a whole step in one transaction or script has
no moment at which a crash strands anything.

Tokens fence. A claim sets a token that no claim before or after ever uses; every write-back carries it. The record
remembers the last token and what became of it, so a settle whose reply was lost can be told from one that comes too
late: the same one again is ALREADY, anything else is STALE.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import UNSET, Struct
from msgspec.structs import replace

from rota.clock import DAY, Instant
from rota.core.outcome import Answer
from rota.core.retry import back_off
from rota.core.task import (
    NO_PAST,
    Activity,
    Change,
    Entry,
    Lease,
    NewTask,
    Past,
    Renewal,
    RunRecord,
    RunStatus,
    Settlement,
    Task,
    TaskStatus,
    Transition,
    Want,
    policy_of,
)
from rota.core.task_type import TaskType, TriggerMode
from rota.triggers import AnyTrigger, Once, Policy, Span, decode_trigger
from rota.triggers import series as fires

__all__ = [
    "ERRED",
    "FAILED",
    "LOST",
    "LOST_ERROR",
    "MAX_CRASHES",
    "MAX_SNOOZES",
    "POISON",
    "PUT_OFF",
    "REASON_OF",
    "RUN_STATUS_OF",
    "SUSPECT_CRASHES",
    "TABLE",
    "Special",
    "Step",
    "breaker_is_open",
    "cancel",
    "claim",
    "end",
    "erase",
    "forget_past",
    "forgive",
    "goes_to",
    "pause",
    "purge",
    "reap",
    "redrive",
    "renew",
    "resume",
    "run_now",
    "schedule",
    "schedule_activity",
    "settle",
    "touch",
    "update",
]

MAX_CRASHES = 3
SUSPECT_CRASHES = MAX_CRASHES - 1
"""From so many crashes on the next one makes a task poison: an instance runs one such task at a time."""
MAX_SNOOZES = 100
LOST, POISON = "lost", "poison"
"""The reasons of a run whose instance stopped renewing, and of a task that was given up because of them."""
LOST_ERROR = "The instance %s stopped renewing its lease."

_REPLACED = 0
"""`claimed_version` of a running task whose trigger was replaced since the claim; versions start at 1."""


class Special(StrEnum):
    """The targets and sources of the table that are no status."""

    ABSENT = "absent"
    SAME = "same"
    LEAVE = "leave"
    GONE = "gone"


State = TaskStatus | Special

_PENDING, _RUNNING, _PAUSED = TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.PAUSED
_COMPLETED, _FAILED, _CANCELLED = TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED
# Looking a member up in its enum takes as long as a small function does, and a run's end asks for many.
_COMPLETE, _SNOOZE, _REAP = Transition.COMPLETE, Transition.SNOOZE, Transition.REAP
_OK, _CANCEL, _NO_WANT = Answer.OK, Want.CANCEL, Want.NONE
_ABSENT, _SAME, _LEAVE, _GONE = Special.ABSENT, Special.SAME, Special.LEAVE, Special.GONE

TABLE: Mapping[Transition, Mapping[State, State]] = {
    Transition.SCHEDULE: {_ABSENT: _PENDING, _COMPLETED: _PENDING, _FAILED: _PENDING, _CANCELLED: _PENDING},
    Transition.UPDATE: {_PENDING: _SAME, _PAUSED: _SAME, _RUNNING: _SAME},
    Transition.TOUCH: {_PENDING: _SAME, _PAUSED: _SAME, _RUNNING: _SAME},
    Transition.CLAIM: {_PENDING: _RUNNING},
    Transition.RENEW: {_RUNNING: _SAME},
    Transition.COMPLETE: {_RUNNING: _LEAVE},
    Transition.DISCARD: {_RUNNING: _LEAVE},
    Transition.RETRY: {_RUNNING: _LEAVE},
    Transition.FAIL: {_RUNNING: _LEAVE},
    Transition.SNOOZE: {_RUNNING: _LEAVE},
    Transition.RELEASE: {_RUNNING: _LEAVE},
    Transition.REAP: {_RUNNING: _LEAVE},
    Transition.PAUSE: {_PENDING: _PAUSED, _RUNNING: _SAME},
    Transition.RESUME: {_PAUSED: _PENDING, _RUNNING: _SAME},
    Transition.CANCEL: {_PENDING: _CANCELLED, _PAUSED: _CANCELLED, _RUNNING: _SAME},
    Transition.RUN_NOW: {_PENDING: _PENDING, _PAUSED: _PENDING, _COMPLETED: _PENDING, _FAILED: _PENDING},
    Transition.REDRIVE: {_FAILED: _PENDING},
    Transition.END: {_PENDING: _COMPLETED, _PAUSED: _COMPLETED},
    Transition.PURGE: {_COMPLETED: _GONE, _FAILED: _GONE, _CANCELLED: _GONE},
    Transition.ERASE: {
        _PENDING: _GONE,
        _RUNNING: _SAME,
        _PAUSED: _GONE,
        _COMPLETED: _GONE,
        _FAILED: _GONE,
        _CANCELLED: _GONE,
    },
}


class Step(Struct, frozen=True, gc=False):
    """The outcome of one transition on one identity: all of it is written, or none."""

    answer: Answer
    task: Task | None
    past: Past
    runs: tuple[RunRecord, ...] = ()
    completed: bool = False
    """The work was done: types that come `after` this one are told."""

    @property
    def entry(self) -> Entry:
        return Entry(self.task, self.past)


def goes_to(transition: Transition, task: Task | None) -> State | None:
    """Where the table leads from the task's state; None if it leads nowhere."""
    return TABLE[transition].get(_ABSENT if task is None else task.status)


def breaker_is_open(past: Past, task_type: TaskType, now: Instant) -> bool:
    """Whether so many tasks in a row ended failed that new activity is not taken on.

    When `fail_until` has passed the count is still there: one task is let through, and its failure blocks again.
    """
    return past.fail_count >= max(task_type.max_retries, 1) and past.fail_until is not None and now < past.fail_until


# --- coming into being ----------------------------------------------------------------------------------------------


def schedule(entry: Entry, new: NewTask, task_type: TaskType, now: Instant) -> Step:
    """absent, completed, failed, cancelled -> pending."""
    if goes_to(Transition.SCHEDULE, entry.task) is None:
        return _refuse(entry)
    due_at, next_fire = _first_due(new, now)
    task = Task(
        task_type=new.task_type,
        key=new.key,
        status=_PENDING,
        scheduled_at=due_at,
        created_at=now,
        updated_at=now,
        user_id=new.user_id,
        device_id=new.device_id,
        agent_id=new.agent_id,
        owner=new.owner,
        payload=new.payload,
        priority=task_type.priority if new.priority is None else new.priority,
        serial=new.serial,
        permits=new.permits,
        cost=new.cost,
        trigger=new.trigger,
        trigger_mode=_mode(new.trigger, task_type),
        policy=new.policy,
        version=1 if entry.task is None else entry.task.version + 1,
        next_fire=next_fire,
        max_runs=new.max_runs,
        expires_at=new.expires_at,
        last_token=0 if entry.task is None else entry.task.last_token,
        last_outcome=None if entry.task is None else entry.task.last_outcome,
        trace=new.trace,
    )
    return Step(Answer.OK, task, entry.past)


def schedule_activity(entry: Entry, activity: Activity, due_at: Instant, task_type: TaskType, now: Instant) -> Step:
    """absent, completed, failed, cancelled -> pending, due after the type's interval."""
    new = NewTask(
        task_type=activity.task_type,
        key=activity.key,
        scheduled_at=due_at,
        user_id=activity.user_id,
        device_id=activity.device_id,
        agent_id=activity.agent_id,
        trace=activity.trace,
    )
    step = schedule(entry, new, task_type, now)
    if step.task is None or step.answer is not Answer.OK:
        return step
    return replace(step, task=replace(step.task, first_activity_at=now, last_activity_at=now))


def update(entry: Entry, change: Change, now: Instant) -> Step:
    """pending, paused, running -> same. On a running task a new trigger takes effect when the run ends."""
    task = entry.task
    if task is None or goes_to(Transition.UPDATE, task) is None:
        return _refuse(entry)
    changed = replace(
        task,
        payload=task.payload if change.payload is UNSET else change.payload,
        policy=task.policy if change.policy is UNSET else change.policy,
        priority=task.priority if change.priority is UNSET else change.priority,
        max_runs=task.max_runs if change.max_runs is UNSET else change.max_runs,
        expires_at=task.expires_at if change.expires_at is UNSET else change.expires_at,
        version=task.version + 1,
        parked=False,
        updated_at=now,
    )
    if change.trigger is UNSET:
        if change.scheduled_at is not UNSET and task.status is not _RUNNING:
            changed = _due_by_hand(changed, change.scheduled_at)
        return Step(Answer.OK, changed, entry.past)
    changed = replace(changed, trigger=change.trigger, trigger_mode=decode_trigger(change.trigger).kind)
    if task.status is _RUNNING:
        # The run's end reads this mark: the trigger that is written now starts then.
        marked = replace(changed, next_fire=None, claimed_version=_REPLACED)
        return Step(Answer.OK, marked, entry.past, _unclaimed(task, "updated", now))
    restarted = _restart_series(changed, now)
    if task.manual and restarted.is_recurring:
        # A run that somebody asked for still comes; only what follows it is new.
        restarted = replace(restarted, manual=True, scheduled_at=task.scheduled_at)
    return Step(Answer.OK, restarted, entry.past, _unclaimed(task, "updated", now))


def _due_by_hand(task: Task, due_at: Instant) -> Task:
    """The task with a due time that somebody chose: of a series, a run that was asked for, and no fire of its own.

    A retry still belongs to its fire, and a paused series goes on with a fire when it is resumed.
    """
    is_waiting_for_a_fire = task.is_recurring and task.fire_at is None and task.status is _PENDING
    is_asked_for = is_waiting_for_a_fire and due_at != task.scheduled_at
    return replace(task, scheduled_at=due_at, manual=task.manual or is_asked_for)


def touch(entry: Entry, task_type: TaskType, now: Instant) -> Step:
    """pending, paused -> same, later by debounce; running -> running, dirty."""
    task = entry.task
    if task is None or goes_to(Transition.TOUCH, task) is None:
        return _refuse(entry)
    touched = replace(task, last_activity_at=now, coalesced=task.coalesced + 1, updated_at=now)
    if task.status is _RUNNING:
        if task_type.on_busy == "rerun":
            touched = replace(touched, dirty=True)
    elif task_type.mode == "debounce" and task.attempt == 0 and not task.manual:
        first = now if task.first_activity_at is None else task.first_activity_at
        due_at = min(now + task_type.interval_ms, first + task_type.max_wait)
        touched = replace(touched, scheduled_at=max(due_at, task.scheduled_at), parked=False)
    return Step(Answer.OK, touched, entry.past)


# --- running --------------------------------------------------------------------------------------------------------


def claim(entry: Entry, lease: Lease, task_type: TaskType, now: Instant) -> Step:
    """pending -> running, with a lease and a token that is never used again; missed fires are accounted for."""
    task = entry.task
    if task is None or goes_to(Transition.CLAIM, task) is None or task.scheduled_at > now:
        return _refuse(entry)
    if task.expires_at is not None and task.expires_at <= now:
        return replace(end(entry, task_type, now), answer=Answer.ENDED)
    series = None if task.trigger is None else task.series
    if series is None or task.manual or task.fire_at is not None:
        # A retry still belongs to its fire: what passed meanwhile is an overlap, counted when the fire is done with.
        return _take(entry, task, lease, now, ())
    assert task.next_fire is not None, f"{task.identity} recurs but waits for no fire"
    due = fires.at_claim(series, task.series_policy, task.next_fire, now)
    runs = (
        *_range(task, due.skipped, RunStatus.SKIPPED, "misfire", now),
        *_range(task, due.coalesced, RunStatus.COALESCED, "misfire", now),
    )
    if due.fire_at is None:
        return _wait_for(entry, task, due.next_fire, runs, task_type, now)
    opened = replace(task, fire_at=due.fire_at, opened_at=now, next_fire=due.next_fire)
    return _take(entry, opened, lease, now, runs)


def _take(entry: Entry, task: Task, lease: Lease, now: Instant, runs: tuple[RunRecord, ...]) -> Step:
    running = replace(
        task,
        status=_RUNNING,
        token=lease.token,
        lease_until=lease.until,
        instance=lease.instance,
        claim_id=lease.claim_id,
        claimed_at=now,
        claimed_version=task.version,
        renewed=False,
        extended=False,
        fire_at=task.scheduled_at if task.trigger is None or task.manual or not task.is_recurring else task.fire_at,
        attempt=task.attempt + 1,
        dirty=False,
        parked=False,
        progress=None,
        updated_at=now,
    )
    return Step(_OK, running, replace(entry.past, last_claimed_at=now), runs)


def _wait_for(
    entry: Entry,
    task: Task,
    next_fire: Instant | None,
    runs: tuple[RunRecord, ...],
    task_type: TaskType,
    now: Instant,
) -> Step:
    """Every fire so far was skipped by policy: wait for the next one, or finish if there is none."""
    if next_fire is None:
        return Step(Answer.ENDED, _finish(task, _COMPLETED, task_type, now), entry.past, runs)
    waiting = replace(_awaiting(task, next_fire), updated_at=now)
    return Step(Answer.SKIPPED, waiting, entry.past, runs)


def renew(entry: Entry, renewal: Renewal, until: Instant) -> Step:
    """running -> running, if the token is current; tells the runner when somebody wants it to stop."""
    task = entry.task
    if task is None or goes_to(Transition.RENEW, task) is None or task.token != renewal.token:
        return Step(Answer.STALE, task, entry.past)
    progress = task.progress if renewal.progress is None else renewal.progress
    # A lease taken by hand is as long as the type's timeout: renewing must never shorten it.
    until = max(until, task.lease_until or 0)
    held = replace(task, lease_until=until, renewed=True, extended=False, progress=progress)
    return Step(Answer.CANCEL if task.want is Want.CANCEL else Answer.OK, held, entry.past)


def settle(entry: Entry, settlement: Settlement, task_type: TaskType, now: Instant) -> Step:
    """running -> wherever leaving leads, if the token is current."""
    task = entry.task
    if task is None or goes_to(settlement.transition, task) is not _LEAVE or task.token != settlement.token:
        return Step(_lost_or_late(task, settlement), task, entry.past)
    if settlement.transition is Transition.SNOOZE and task.snoozes >= MAX_SNOOZES:
        return _snoozed_too_often(entry, task, settlement, task_type, now)
    return _leave(entry, task, settlement, task_type, now)


def _snoozed_too_often(entry: Entry, task: Task, settlement: Settlement, task_type: TaskType, now: Instant) -> Step:
    error = f"Snoozed {MAX_SNOOZES} times in a row without running."
    failed = replace(settlement, transition=Transition.RETRY, reason="error", error=error, after_ms=None)
    step = _leave(entry, task, failed, task_type, now)
    assert step.task is not None
    # Whoever lost the reply repeats the snooze, and must find it.
    return replace(step, task=replace(step.task, last_outcome=Transition.SNOOZE))


def _lost_or_late(task: Task | None, settlement: Settlement) -> Answer:
    if task is None or task.last_token != settlement.token:
        return Answer.STALE
    return Answer.ALREADY if task.last_outcome is settlement.transition else Answer.STALE


def reap(entry: Entry, task_type: TaskType, now: Instant, *, is_alive: bool = False) -> Step:
    """running -> wherever leaving leads, once the lease has run out by the store's clock; counts as a crash.

    `is_alive` says that the instance which claimed it still gives signs of life. If it has never renewed the lease
    either, the claim's answer was stuck on its way and the run never began: it is released, and nobody is to blame.
    """
    task = entry.task
    if task is None or goes_to(Transition.REAP, task) is None or task.lease_until is None or task.lease_until > now:
        return _refuse(entry)
    if is_alive and not task.renewed:
        return _leave(entry, task, _never_begun(task), task_type, now)
    lost = Settlement(
        task_type=task.task_type,
        key=task.key,
        token=task.token,
        transition=Transition.REAP,
        duration_ms=max(0, now - (task.claimed_at or now)),
        reason=LOST,
        error=LOST_ERROR % task.instance,
        failure=LOST,
    )
    return _leave(entry, task, lost, task_type, now)


def _never_begun(task: Task) -> Settlement:
    error = f"The instance {task.instance} claimed it and did not begin in time."
    return Settlement(
        task_type=task.task_type, key=task.key, token=task.token, transition=Transition.RELEASE, error=error
    )


# --- leaving `running` ----------------------------------------------------------------------------------------------

RUN_STATUS_OF: Mapping[Transition, RunStatus] = {
    Transition.COMPLETE: RunStatus.SUCCESS,
    Transition.DISCARD: RunStatus.SKIPPED,
    Transition.RETRY: RunStatus.ERROR,
    Transition.FAIL: RunStatus.ERROR,
    Transition.SNOOZE: RunStatus.SKIPPED,
    Transition.RELEASE: RunStatus.SKIPPED,
    Transition.REAP: RunStatus.LOST,
}
"""How a run is recorded that ended so."""
REASON_OF: Mapping[Transition, str] = {
    Transition.DISCARD: "discarded",
    Transition.SNOOZE: "snoozed",
    Transition.RELEASE: "released",
}
"""The reason where the runner gives none."""
ERRED = frozenset({Transition.RETRY, Transition.FAIL})
"""The handler has failed: it counts as an error."""
FAILED = ERRED | {Transition.REAP}
"""Where the task ends failed, if it is not tried again."""
PUT_OFF = frozenset({Transition.SNOOZE, Transition.RELEASE})
"""Nothing was tried: it is no attempt, starts no cooldown, and says nothing about the breaker."""


def _leave(entry: Entry, task: Task, settled: Settlement, task_type: TaskType, now: Instant) -> Step:
    """The five questions of the essay above, in their order."""
    counted = _count(task, settled, now)
    retry_at = _retry_at(counted, settled, task_type, now)
    failed = settled.transition in FAILED
    if failed and retry_at is None and counted.crashes >= MAX_CRASHES:
        counted = replace(counted, reason=POISON)
    run = _run_of(task, settled, counted.reason, now)
    if task.trigger is not None and (retry_at is None or task.want is _CANCEL) and settled.transition not in PUT_OFF:
        counted = replace(counted, times_run=counted.times_run + 1)
    if task.want is _CANCEL:
        completed = settled.transition is _COMPLETE
        past = _remember(entry.past, settled, task_type, now, ended=completed)
        # The series lives as long as its last run: whatever passed until then has its row.
        runs = (run, *_unclaimed(task, "cancelled", now))
        return Step(_OK, _finish(counted, _CANCELLED, task_type, now), past, runs, completed)
    if retry_at is not None:
        return Step(_OK, _wait_again(counted, retry_at, now), entry.past, (run,))
    past = _remember(entry.past, settled, task_type, now, ended=True)
    completed = settled.transition is _COMPLETE
    following, passed = _next_in_series(counted, now)
    if following is not None:
        return Step(_OK, following, past, (run, *passed), completed)
    if task.dirty and not breaker_is_open(past, task_type, now):
        return Step(_OK, _follow_up(counted, task_type, now), past, (run, *passed), completed)
    final = _finish(counted, _FAILED if failed else _COMPLETED, task_type, now)
    return Step(_OK, final, past, (run, *passed), completed)


def _count(task: Task, settled: Settlement, now: Instant) -> Task:
    """The task with its lease given up and the run counted where it counts."""
    transition = settled.transition
    return replace(
        task,
        token=0,
        lease_until=None,
        instance=None,
        claim_id=None,
        renewed=False,
        extended=False,
        last_token=task.token,
        last_outcome=transition,
        errors=task.errors + (transition in ERRED),
        crashes=task.crashes + (transition is _REAP),
        snoozes=task.snoozes + 1 if transition is _SNOOZE else 0,
        attempt=task.attempt - (transition in PUT_OFF),
        reason=settled.reason or REASON_OF.get(transition),
        error=settled.error,
        result=settled.result,
        failure=settled.failure,
        updated_at=now,
    )


def _retry_at(counted: Task, settled: Settlement, task_type: TaskType, now: Instant) -> Instant | None:
    """When the same work is tried again, or None if it is not."""
    if settled.transition is _COMPLETE:
        return None
    match settled.transition:
        case Transition.RELEASE:
            return _its_place(counted, now)
        case Transition.SNOOZE:
            return now + (settled.after_ms or 0)
        case Transition.REAP if counted.crashes < MAX_CRASHES:
            return _its_place(counted, now)
        case Transition.RETRY if counted.errors <= task_type.max_retries:
            if settled.after_ms is not None:
                return now + settled.after_ms
            return now + back_off(task_type.retry, counted.errors, settled.chance)
        case _:
            return None


def _its_place(task: Task, now: Instant) -> Instant:
    """Whoever is interrupted keeps its place in the line: it is as due as it was. (A clock may have stepped back.)"""
    return min(task.scheduled_at, now)


def _wait_again(counted: Task, retry_at: Instant, now: Instant) -> Task:
    if counted.claimed_version == _REPLACED:
        series = counted.series
        if series is None:
            return _held(_restart_series(counted, now))
        # The fire being retried belongs to no old series any more: what the new one has in store begins now.
        counted = replace(counted, next_fire=series.next_after(now), opened_at=now)
    if counted.manual and counted.is_recurring:
        # Only a retry of a fire has one while it waits.
        counted = replace(counted, fire_at=None)
    return replace(_held(counted), scheduled_at=retry_at)


def _held(task: Task) -> Task:
    """The task waiting again, or paused if that was wanted during the run."""
    return replace(task, status=_held_back(task), want=Want.NONE, dirty=False)


def _held_back(task: Task) -> TaskStatus:
    return _PAUSED if task.want is Want.PAUSE else _PENDING


def _next_in_series(counted: Task, now: Instant) -> tuple[Task | None, tuple[RunRecord, ...]]:
    """The task waiting for its next fire (None if the series is over), and the fires that passed during the run."""
    series = None if counted.trigger is None else counted.series
    if series is None:
        # A single time that was written during the run is still to come.
        replaced = counted.claimed_version == _REPLACED
        return (_held(_restart_series(counted, now)) if replaced else None), ()
    next_fire, passed = _advance(counted, series, now)
    ran = counted.fires_run + (0 if counted.manual else 1)
    over = counted.max_runs is not None and ran >= counted.max_runs
    if over or next_fire is None or (counted.expires_at is not None and next_fire >= counted.expires_at):
        return None, passed
    return replace(_held(_awaiting(counted, next_fire)), fires_run=ran), passed


def _advance(counted: Task, series: AnyTrigger, now: Instant) -> tuple[Instant | None, tuple[RunRecord, ...]]:
    if counted.claimed_version == _REPLACED:
        # Edited during the run: the series that is written now starts now, whatever the old one had in mind.
        return series.next_after(now), ()
    if counted.manual or counted.fire_at is None or counted.next_fire is None:
        return counted.next_fire, ()
    assert counted.opened_at is not None, f"{counted.identity} ran but was never claimed"
    # Not from `fire_at`: after an edit that one may be a fire of the trigger before, and of none of this one's.
    after = fires.at_settle(series, counted.series_policy, counted.next_fire - 1, counted.opened_at, now)
    return after.next_fire, _range(counted, after.overlapped, RunStatus.SKIPPED, "overlap", now)


def _follow_up(counted: Task, task_type: TaskType, now: Instant) -> Task:
    """Activity arrived during the run: exactly one more run, whatever the cooldown."""
    return replace(
        _held(counted),
        scheduled_at=now + task_type.interval_ms,
        # A series that is over has no fire left that this run could count as.
        manual=counted.is_recurring,
        next_fire=None,
        fire_at=None,
        first_activity_at=counted.last_activity_at,
        coalesced=0,
        errors=0,
        crashes=0,
        snoozes=0,
        attempt=0,
    )


def _finish(task: Task, status: TaskStatus, task_type: TaskType, now: Instant) -> Task:
    ttl = task_type.dead_ttl_ms if status is _FAILED else task_type.task_ttl_ms
    return replace(
        task,
        status=status,
        want=_NO_WANT,
        dirty=False,
        parked=False,
        manual=False,
        next_fire=None,
        finished_at=now,
        purge_at=now + ttl,
        updated_at=now,
    )


def _remember(past: Past, settled: Settlement, task_type: TaskType, now: Instant, *, ended: bool) -> Past:
    """Success and failure both start the cooldown; a task that ended failed counts against the breaker."""
    if not ended or settled.transition in PUT_OFF:
        return past
    kept_ms = max(DAY, 2 * task_type.interval_ms)
    forget_at = max(now + kept_ms, past.forget_at or 0)
    if settled.transition is _COMPLETE:
        return Past(last_exec_at=now, last_claimed_at=past.last_claimed_at, forget_at=forget_at)
    remembered = replace(past, last_exec_at=now, forget_at=forget_at)
    if settled.transition is Transition.DISCARD:
        return remembered
    blocked_ms = max(task_type.max_retries * task_type.interval_ms * 2, DAY)
    # The count outlives the block by as much again: the one task that is let through must find it.
    forget_at = max(forget_at, now + 2 * blocked_ms)
    return replace(remembered, fail_count=past.fail_count + 1, fail_until=now + blocked_ms, forget_at=forget_at)


# --- what people ask for --------------------------------------------------------------------------------------------


def pause(entry: Entry, now: Instant) -> Step:
    """pending -> paused; running: paused when the run ends."""
    task = entry.task
    target = goes_to(Transition.PAUSE, task)
    if task is None or target is None:
        return _refuse(entry)
    if target is _SAME:
        # A wish to cancel is stronger than a wish to pause.
        want = Want.CANCEL if task.want is Want.CANCEL else Want.PAUSE
        return Step(Answer.OK, replace(task, want=want, updated_at=now), entry.past)
    # A run that was asked for is dropped where a fire is to come; a series that is over has nothing else to wait for.
    manual = task.manual and task.next_fire is None
    paused = replace(task, status=_PAUSED, want=Want.NONE, parked=False, manual=manual, updated_at=now)
    return Step(Answer.OK, paused, entry.past)


def resume(entry: Entry, task_type: TaskType, now: Instant) -> Step:
    """paused -> pending, at a fire that lies ahead; running: the wish to pause is taken back."""
    task = entry.task
    target = goes_to(Transition.RESUME, task)
    if task is None or target is None:
        return _refuse(entry)
    if target is _SAME:
        want = Want.CANCEL if task.want is Want.CANCEL else Want.NONE
        return Step(Answer.OK, replace(task, want=want, updated_at=now), entry.past)
    resumed = replace(task, status=_PENDING, updated_at=now)
    series = task.series
    if series is None or task.next_fire is None:
        return Step(Answer.OK, resumed, entry.past)
    due = fires.at_resume(series, task.series_policy, task.next_fire, now)
    runs = _range(task, due.skipped, RunStatus.SKIPPED, "paused", now)
    if due.next_fire is None:
        return Step(Answer.OK, _finish(resumed, _COMPLETED, task_type, now), entry.past, runs)
    return Step(Answer.OK, _awaiting(resumed, due.next_fire), entry.past, runs)


def cancel(entry: Entry, task_type: TaskType, now: Instant) -> Step:
    """pending, paused -> cancelled; running: the handler is told to stop, and the run's end cancels it."""
    task = entry.task
    target = goes_to(Transition.CANCEL, task)
    if task is None or target is None:
        return _refuse(entry)
    if target is _SAME:
        return Step(Answer.OK, replace(task, want=Want.CANCEL, updated_at=now), entry.past)
    cancelled = _finish(task, _CANCELLED, task_type, now)
    return Step(Answer.OK, cancelled, entry.past, _unclaimed(task, "cancelled", now))


def run_now(entry: Entry, now: Instant) -> Step:
    """pending, paused, completed, failed -> pending, due now. Never shifts the series; a paused one is paused again."""
    task = entry.task
    if task is None or goes_to(Transition.RUN_NOW, task) is None:
        return _refuse(entry)
    due = replace(task, status=_PENDING, scheduled_at=now, parked=False, updated_at=now)
    if task.status is _PAUSED:
        due = replace(due, want=Want.PAUSE)
    if not task.status.is_live:
        due = _revived(due)
    # A retry that waits is only brought forward: it still belongs to its fire.
    is_waiting_retry = task.is_recurring and task.fire_at is not None and task.status.is_live
    return Step(Answer.OK, replace(due, manual=not is_waiting_retry), entry.past)


def redrive(entry: Entry, now: Instant) -> Step:
    """failed -> pending, due now, with fresh counts; the breaker is closed, since a person has looked."""
    task = entry.task
    if task is None or goes_to(Transition.REDRIVE, task) is None:
        return _refuse(entry)
    due = _revived(replace(task, status=_PENDING, scheduled_at=now, updated_at=now))
    if task.is_recurring:
        due = replace(due, manual=True)
    return Step(Answer.OK, due, replace(entry.past, fail_count=0, fail_until=None))


def forgive(entry: Entry) -> Step:
    """No transition of the table: an operator closes the breaker of an identity, whatever its task does."""
    return Step(Answer.OK, entry.task, replace(entry.past, fail_count=0, fail_until=None))


def _revived(task: Task) -> Task:
    fresh = replace(task, errors=0, crashes=0, snoozes=0, attempt=0, reason=None, error=None, failure=None)
    return replace(fresh, fire_at=None, opened_at=None, result=None, progress=None, finished_at=None, purge_at=None)


def end(entry: Entry, task_type: TaskType, now: Instant) -> Step:
    """pending, paused -> completed: `expires_at` or `max_runs` was reached."""
    task = entry.task
    if task is None or goes_to(Transition.END, task) is None:
        return _refuse(entry)
    ended = replace(_finish(task, _COMPLETED, task_type, now), reason="expired")
    return Step(Answer.OK, ended, entry.past, _unclaimed(task, "expired", now))


def purge(entry: Entry) -> Step:
    """completed, failed, cancelled -> absent. The past is forgotten later, in its own time."""
    if goes_to(Transition.PURGE, entry.task) is None:
        return _refuse(entry)
    return Step(Answer.OK, None, entry.past)


def erase(entry: Entry, now: Instant) -> Step:
    """Whatever does not run -> absent, and its past is forgotten; running: told to stop, to be erased when it has."""
    task = entry.task
    target = goes_to(Transition.ERASE, task)
    if task is None or target is None:
        return _refuse(entry)
    if target is _SAME:
        return Step(Answer.OK, replace(task, want=Want.CANCEL, updated_at=now), entry.past)
    return Step(Answer.OK, None, NO_PAST)


def forget_past(entry: Entry) -> Step:
    """No transition of the table: what was before its task, if it has one, is not known any more."""
    return Step(Answer.OK, entry.task, NO_PAST)


# --- shared ---------------------------------------------------------------------------------------------------------


def _refuse(entry: Entry) -> Step:
    return Step(Answer.UNKNOWN if entry.task is None else Answer.REFUSED, entry.task, entry.past)


def _first_due(new: NewTask, now: Instant) -> tuple[Instant, Instant | None]:
    """When a new task is due, and the fire that it waits for if it recurs.

    A series that is given a `scheduled_at` starts there, inclusively: that is how a periodic type runs at once.
    """
    if new.trigger is None:
        return (now + new.delay_ms if new.scheduled_at is None else new.scheduled_at), None
    trigger = decode_trigger(new.trigger)
    if isinstance(trigger, Once):
        return trigger.at, None
    first = trigger.next_after(now if new.scheduled_at is None else new.scheduled_at - 1)
    if first is None:
        return now, None
    return _due_at(trigger, policy_of(new.policy), new.key, first), first


def _due_at(series: AnyTrigger, policy: Policy, key: str, fire: Instant) -> Instant:
    if policy.jitter_ms == 0:
        return fire
    return fires.jittered(fire, policy, key, series.next_after(fire))


def _awaiting(task: Task, next_fire: Instant) -> Task:
    """The recurring task waiting for a nominal fire, with fresh counts."""
    series = task.series
    assert series is not None, f"{task.identity} waits for a fire but does not recur"
    return replace(
        task,
        scheduled_at=_due_at(series, task.series_policy, task.key, next_fire),
        next_fire=next_fire,
        fire_at=None,
        opened_at=None,
        manual=False,
        parked=False,
        errors=0,
        crashes=0,
        snoozes=0,
        attempt=0,
    )


def _restart_series(task: Task, now: Instant) -> Task:
    """The task under its new trigger, as if it had been made now."""
    assert task.trigger is not None
    trigger = decode_trigger(task.trigger)
    if isinstance(trigger, Once):
        once = replace(task, scheduled_at=trigger.at, next_fire=None, fire_at=None, manual=False)
        return replace(once, errors=0, crashes=0, snoozes=0, attempt=0)
    first = trigger.next_after(now)
    return task if first is None else _awaiting(task, first)


def _unclaimed(task: Task, reason: str, now: Instant) -> tuple[RunRecord, ...]:
    """A record for the fires that were due but will not be run, because the series was changed or stopped.

    They begin with `next_fire`, also during a run: whatever lies before it is accounted for, or is what runs.
    """
    series = task.series
    # Fires at or after its end are none of its own.
    until = now if task.expires_at is None else min(now, task.expires_at - 1)
    once = None if task.trigger is None or series is not None else decode_trigger(task.trigger)
    if isinstance(once, Once) and once.at <= until and task.attempt == 0 and not task.manual:
        return _range(task, Span(once.at, once.at, 1), RunStatus.SKIPPED, reason, now)
    if series is None or task.next_fire is None or task.next_fire > until:
        return ()
    span = fires.count_fires(series, task.next_fire - 1, until)
    return _range(task, span, RunStatus.SKIPPED, reason, now)


def _range(task: Task, span: Span | None, status: RunStatus, reason: str, now: Instant) -> tuple[RunRecord, ...]:
    """One run record for a whole range of nominal fires (law 6: no silent skip)."""
    if span is None:
        return ()
    return (
        RunRecord(
            task_type=task.task_type,
            key=task.key,
            user_id=task.user_id,
            status=status,
            reason=reason,
            trigger_mode=task.trigger_mode,
            started_at=now,
            fire_at=span.first_at,
            last_fire_at=span.last_at,
            fires=span.count,
        ),
    )


def _run_of(task: Task, settled: Settlement, reason: str | None, now: Instant) -> RunRecord:
    started_at = task.claimed_at if task.claimed_at is not None else now
    fire_at = None if task.manual else task.fire_at
    return RunRecord(
        task_type=task.task_type,
        key=task.key,
        user_id=task.user_id,
        status=RUN_STATUS_OF[settled.transition],
        trigger_mode="manual" if task.manual else task.trigger_mode,
        fire_at=fire_at,
        started_at=started_at,
        duration_ms=settled.duration_ms,
        attempt=task.attempt,
        token=task.token,
        instance=task.instance,
        reason=reason,
        result=settled.result,
        error=settled.error,
        due_at=None if task.scheduled_at == fire_at else task.scheduled_at,
        failure=settled.failure,
    )


def _mode(trigger: str | None, task_type: TaskType) -> str:
    """What makes a task due: its own trigger's kind, or the mode of its type, which also names a periodic one."""
    if trigger is None or task_type.trigger_mode is TriggerMode.PERIODIC:
        return task_type.trigger_mode.value
    return decode_trigger(trigger).kind
