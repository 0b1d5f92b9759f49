"""Why a task waits, in words: everything that holds it back, where it stands in line, and how long that may take.

Pure: whoever asks has looked at everything at one moment (`WaitFacts`). The reasons come in the order in which a person
would want to hear them: what somebody has switched off, then what the task itself waits for, then what it shares with
others. An estimate is made of what really ran lately; where nothing did, there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from rota.clock import MINUTE, SECOND, Instant, Millis, format_duration
from rota.core import bucket as buckets
from rota.core import lifecycle
from rota.core.task import Past, Task, TaskStatus, Want
from rota.core.task_type import RateLimit, TaskType

__all__ = ["ABSENT", "Reason", "WaitExplanation", "WaitFacts", "explain"]

ABSENT: Final = "absent"
"""The state of an identity that has no task."""


class Reason(NamedTuple):
    """One thing that holds a task back, or that became of it: a stable code, and the words for it."""

    code: str
    text: str


class WaitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one identity, of its type and of those who serve it, at one moment."""

    task_type: TaskType
    """The settings that count, with what an operator has overridden."""
    is_enabled: bool
    is_frozen: bool
    is_draining: bool
    task: Task | None
    past: Past
    now: Instant
    ahead: int
    is_more_ahead: bool
    """Whether more than that may be before it."""
    running: int
    serial_running: int
    tokens: float | None
    """What the bucket of its `rate_limit` holds, and of its `start_limit`; None without one."""
    start_tokens: float | None = None
    arrived: tuple[str, ...]
    before: Mapping[str, TaskStatus | None] = {}
    """The types that it comes after, and the state of their tasks with the same key."""
    instances: int = 1
    """How many live instances serve the type."""
    ran: int = 0
    """How many runs of the type ended lately, and in how long a time."""
    ran_within_ms: Millis = 10 * MINUTE


class WaitExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task waits."""

    state: str
    reasons: tuple[Reason, ...]
    position: int | None = None
    """Its place in line, from 1; None unless it is due and waits."""
    position_is_more: bool = False
    estimate_ms: Millis | None = None
    """How long until it starts, as things go; None where nobody can say."""
    due_at: Instant | None = None
    summary: str = ""


def explain(facts: WaitFacts) -> WaitExplanation:
    """Everything that can be said about when a task runs."""
    task = facts.task
    if task is None:
        return _explained(facts, ABSENT, [*_absent(facts)])
    match task.status:
        case TaskStatus.RUNNING:
            return _explained(facts, task.status, [_running(task, facts.now)])
        case TaskStatus.PENDING:
            return _pending(facts, task)
        case TaskStatus.PAUSED:
            reasons = [_paused(task), *_switched_off(facts)]
            return _explained(facts, task.status, reasons, due_at=task.scheduled_at)
        case _:
            return _explained(facts, task.status, [_finished(task), *_refused(facts)])


def _explained(
    facts: WaitFacts,
    state: str,
    reasons: list[Reason],
    *,
    due_at: Instant | None = None,
    estimate_ms: Millis | None = None,
) -> WaitExplanation:
    summary = " ".join(reason.text for reason in reasons[:2])
    return WaitExplanation(
        state=str(state), reasons=tuple(reasons), due_at=due_at, estimate_ms=estimate_ms, summary=summary
    )


# --- what waits -----------------------------------------------------------------------------------------------------


def _pending(facts: WaitFacts, task: Task) -> WaitExplanation:
    held = [*_switched_off(facts), *_nobody(facts), *_not_due(task, facts.now)]
    is_due = task.scheduled_at <= facts.now
    crowded = [*_crowded(facts, task)] if is_due else []
    line = [] if held or crowded else [_in_line(facts)]
    reasons = [*held, *crowded, *line]
    estimate_ms = None if any(reason.code in _FOR_EVER for reason in reasons) else _estimate(facts, task)
    explained = _explained(facts, task.status, reasons, due_at=task.scheduled_at, estimate_ms=estimate_ms)
    if not is_due:
        return explained
    return msgspec.structs.replace(explained, position=facts.ahead + 1, position_is_more=facts.is_more_ahead)


_FOR_EVER = frozenset({"disabled", "frozen", "no_handler"})
"""What holds a task back until somebody does something: no estimate can know when."""


def _switched_off(facts: WaitFacts) -> Iterator[Reason]:
    name = facts.task_type.name
    if not facts.is_enabled:
        yield Reason("disabled", f"The type {name} is switched off; nothing of it starts until it is switched on.")
    if facts.is_frozen:
        yield Reason("frozen", f"The type {name} is frozen: an operator lets nothing of it start until it is thawed.")


def _nobody(facts: WaitFacts) -> Iterator[Reason]:
    if not facts.instances:
        yield Reason("no_handler", f"No live instance serves the type {facts.task_type.name}. Start a worker for it.")


def _not_due(task: Task, now: Instant) -> Iterator[Reason]:
    left = task.scheduled_at - now
    if left <= 0:
        return
    if task.errors or task.crashes:
        tries = task.errors + task.crashes
        cause = f" ({task.reason})" if task.reason else ""
        yield Reason(
            "retry_backoff",
            f"It failed {_times(tries)}{cause} and is tried again in {_span(left)}.",
        )
    elif task.snoozes:
        yield Reason("snoozed", f"Its handler has put it off; it is due in {_span(left)}.")
    else:
        yield Reason("due_later", f"It is due in {_span(left)}.")


def _crowded(facts: WaitFacts, task: Task) -> Iterator[Reason]:
    if task.serial is not None and facts.serial_running >= task.permits:
        yield Reason(
            "serial_busy",
            f"{_count(facts.serial_running, 'task runs', 'tasks run')} under its serial {task.serial!r}, which has"
            f" {_count(task.permits, 'place', 'places')}.",
        )
    yield from _limited("rate_limited", facts.task_type.rate_limit, facts.tokens, task.cost)
    yield from _limited("start_limited", facts.task_type.start_limit, facts.start_tokens, 1)
    concurrency = facts.task_type.concurrency
    if concurrency is not None and facts.instances and facts.running >= concurrency * facts.instances:
        yield Reason(
            "concurrency",
            f"{_count(facts.running, 'task', 'tasks')} of the type run, as many as"
            f" {_count(facts.instances, 'instance', 'instances')} may run at once ({concurrency} each).",
        )


def _limited(code: str, limit: RateLimit | None, tokens: float | None, amount: int) -> Iterator[Reason]:
    if limit is None or tokens is None:
        return
    wait_ms = buckets.wait_for(buckets.Bucket(tokens, 0), min(amount, limit.burst), limit.rate)
    if wait_ms:
        yield Reason(
            code,
            f"The type may start {limit.rate:g} a second (at most {limit.burst} at once); the next one can start in"
            f" {_span(wait_ms)}.",
        )


def _in_line(facts: WaitFacts) -> Reason:
    if facts.ahead == 0:
        return Reason("next_in_line", "It is due and next in line: it starts as soon as an instance has a free slot.")
    more = "more than " if facts.is_more_ahead else ""
    return Reason("in_line", f"It is due, and {more}{_count(facts.ahead, 'task goes', 'tasks go')} before it.")


def _estimate(facts: WaitFacts, task: Task) -> Millis | None:
    """Until it is due, and then as long as those before it take at the pace of late."""
    until_due = max(0, task.scheduled_at - facts.now)
    if facts.ahead == 0 and until_due:
        return until_due
    if facts.is_more_ahead or not facts.ran:
        return None
    pace = (facts.ahead + 1) * facts.ran_within_ms // facts.ran
    return max(until_due, pace)


# --- what does not wait ---------------------------------------------------------------------------------------------


def _running(task: Task, now: Instant) -> Reason:
    since = _span(max(0, now - (task.claimed_at or now)))
    by = f" on {task.instance}" if task.instance else ""
    wish = {Want.CANCEL: " It was told to stop.", Want.PAUSE: " It is paused when this run ends."}.get(task.want, "")
    progress = f" Its progress: {task.progress[:200]}." if task.progress else ""
    return Reason("running", f"It has been running for {since}{by}.{progress}{wish}")


def _paused(task: Task) -> Reason:
    why = f" ({task.reason})" if task.reason else ""
    return Reason("paused", f"It is paused{why} and waits until it is resumed.")


def _finished(task: Task) -> Reason:
    why = f": {task.reason}" if task.reason else ""
    error = f" ({task.error[:200]})" if task.error and task.status is TaskStatus.FAILED else ""
    return Reason("finished", f"It is {task.status}{why}{error}.")


def _absent(facts: WaitFacts) -> Iterator[Reason]:
    name, missing = facts.task_type.name, [each for each in facts.task_type.after if each not in facts.arrived]
    if facts.task_type.after and missing:
        yield Reason("waiting_for", f"It comes after others and waits: {', '.join(_missing(facts, missing))}.")
    else:
        yield Reason("absent", f"There is no such task of the type {name}.")
    yield from _refused(facts)


def _missing(facts: WaitFacts, names: list[str]) -> Iterator[str]:
    for name in names:
        match facts.before.get(name):
            case None:
                yield f"{name} has not completed for it yet"
            case TaskStatus.FAILED:
                yield f"{name} has failed, and must be redriven first"
            case TaskStatus.COMPLETED:
                yield f"{name} completed before its last run and has not again"
            case status:
                yield f"{name} is {status}"


def _refused(facts: WaitFacts) -> Iterator[Reason]:
    """Why new activity would make no task, or a later one."""
    yield from _switched_off(facts)
    name, past, now = facts.task_type.name, facts.past, facts.now
    if facts.is_draining:
        yield Reason("draining", f"The type {name} is being drained: nothing new is taken on.")
    if lifecycle.breaker_is_open(past, facts.task_type, now):
        left = _span((past.fail_until or now) - now)
        yield Reason(
            "breaker_open",
            f"{_count(past.fail_count, 'task', 'tasks')} in a row failed, so activity is not taken on for another"
            f" {left}, or until the breaker is reset.",
        )
    elif past.last_exec_at is not None and now < past.last_exec_at + facts.task_type.interval_ms:
        left = _span(past.last_exec_at + facts.task_type.interval_ms - now)
        yield Reason("cooldown", f"It ran lately; its cooldown ends in {left}.")


# --- words ----------------------------------------------------------------------------------------------------------


def _span(span: Millis) -> str:
    """A duration that is easy to read: whole seconds from one second on."""
    return format_duration(span if span < SECOND else -(-span // SECOND) * SECOND)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
