"""Where the time of a task went: its attempts as rows over one axis of time, waiting apart from working. Pure.

One round is shown: all attempts at the same work, from its making or its fire until it is settled. A round may not be
over: what still goes on has no end, and whoever draws it says up to when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from rota.clock import Instant, Millis, isoformat
from rota.core.run_details import NO_DETAILS, RunDetails, Step
from rota.core.task import Identity, RunRecord, RunStatus, Task, TaskStatus

__all__ = ["MAX_ATTEMPTS", "Phase", "Row", "Stretch", "Waterfall", "round_of", "round_of_task", "waterfall"]

MAX_ATTEMPTS: Final = 20
"""Attempts of a round that are shown, at most: the last ones."""
_FARTHEST: Final = 10
"""How many times its own length another task may have begun later, to be shown on one axis."""
_LONGEST_LEAD: Final = 0.5
"""How much of the axis may be taken by the time before anything was due: one made for next week says so in words."""


class Phase(StrEnum):
    """What a stretch of time was spent on."""

    HELD = "held"
    """Not due yet: it was made for later, or put off."""
    BACK_OFF = "back_off"
    """After a failure, until it is due again."""
    WAITING = "waiting"
    """Due, and not claimed yet."""
    STARTING = "starting"
    """Claimed, and the handler has not begun yet."""
    WORKING = "working"
    """The handler runs."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of time; without an end it goes on."""

    phase: Phase
    from_at: Instant
    to_at: Instant | None

    def lasted_ms(self, now: Instant) -> Millis:
        return max(0, (now if self.to_at is None else self.to_at) - self.from_at)


@dataclass(frozen=True, slots=True)
class Row:
    """One line: an attempt, a step within it, or a moment like the end."""

    kind: str
    """made, attempt, step, next, settled; or before, after: another task that has to come first, or follows."""
    label: str
    outcome: str
    """How it ended, or where it stands: success, error, lost, skipped, running, pending, completed, failed, ..."""
    stretches: tuple[Stretch, ...] = ()
    at: Instant | None = None
    """The moment that it is about, where it has no stretches."""
    depth: int = 0
    token: int | None = None
    run_id: str | None = None
    """None while it runs: its record comes with its end."""
    reason: str | None = None
    task: Identity | None = None
    """Another task that the row is about."""

    def waited_ms(self, now: Instant) -> Millis:
        """How long it was due or claimed, and nobody worked on it."""
        waits = (Phase.WAITING, Phase.STARTING)
        return sum(each.lasted_ms(now) for each in self.stretches if each.phase in waits)

    def worked_ms(self, now: Instant) -> Millis:
        return sum(each.lasted_ms(now) for each in self.stretches if each.phase is Phase.WORKING)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The rows of one round, in order of time, and the axis that they lie on."""

    from_at: Instant
    to_at: Instant
    now: Instant
    is_open: bool
    """Whether it goes on."""
    rows: tuple[Row, ...] = ()

    @property
    def waited_ms(self) -> Millis:
        return sum(row.waited_ms(self.now) for row in self.rows if row.task is None)

    @property
    def worked_ms(self) -> Millis:
        """A step is part of its attempt."""
        return sum(row.worked_ms(self.now) for row in self.rows if row.depth == 0 and row.task is None)

    def beside(self, kind: str, task: Task, its: Waterfall) -> Row | None:
        """What came of another task, as one row of this one; None if that was long before or after."""
        stretches = tuple(each for row in its.rows if row.depth == 0 for each in row.stretches)
        worked = [each.from_at for each in stretches if each.phase is not Phase.HELD]
        length = self.to_at - self.from_at
        if not worked or not self.from_at - length <= min(worked) <= self.to_at + _FARTHEST * length:
            return None
        shown = tuple(each for each in stretches if each.phase is not Phase.HELD)
        return Row(kind, task.task_type, task.status.value, shown, task=task.identity)

    def with_others(self, others: Sequence[Row]) -> Waterfall:
        """With rows of other tasks above and below, on an axis that holds them all."""
        above = [row for row in others if row.kind == "before"]
        below = [row for row in others if row.kind != "before"]
        rows = (*above, *self.rows, *below)
        is_open = self.is_open or any(each.to_at is None for row in others for each in row.stretches)
        return Waterfall(*_axis(rows, self.now, is_open=is_open), self.now, self.is_open, rows)

    def to_dict(self) -> dict[str, object]:
        """Plain values: times as ISO 8601 in UTC."""
        return {
            "from_at": isoformat(self.from_at),
            "to_at": isoformat(self.to_at),
            "is_open": self.is_open,
            "waited_ms": self.waited_ms,
            "worked_ms": self.worked_ms,
            "rows": [_row_to_dict(row) for row in self.rows],
        }


def _row_to_dict(row: Row) -> dict[str, object]:
    return {
        "kind": row.kind,
        "label": row.label,
        "outcome": row.outcome,
        "reason": row.reason,
        "depth": row.depth,
        "token": row.token,
        "run_id": row.run_id,
        "task": None if row.task is None else row.task._asdict(),
        "at": isoformat(row.at),
        "stretches": [
            {"phase": each.phase.value, "from_at": isoformat(each.from_at), "to_at": isoformat(each.to_at)}
            for each in row.stretches
        ],
    }


# --- which runs are one round -----------------------------------------------------------------------------------------

_SERIES: Final = frozenset({"cron", "interval", "periodic"})


def round_of(
    runs: Sequence[RunRecord], run: RunRecord | None = None, made_at: Instant | None = None
) -> list[RunRecord]:
    """The attempts at the same work, oldest first, out of the runs of one identity, newest first: those that `run`
    belongs to, or the latest ones. Runs before and after `made_at` have nothing to do with each other."""
    attempts = [each for each in runs if each.token]
    at = 0 if run is None else next((at for at, each in enumerate(attempts) if each.token == run.token), None)
    if at is None or not attempts:
        return [] if run is None else [run]
    first = last = at
    while last + 1 < len(attempts) and _goes_on(attempts[last + 1], attempts[last], made_at):
        last += 1
    while first > 0 and _goes_on(attempts[first], attempts[first - 1], made_at):
        first -= 1
    return attempts[first : last + 1][::-1]


def _goes_on(run: RunRecord, later: RunRecord, made_at: Instant | None) -> bool:
    """Whether the later one is another attempt at the same work."""
    if made_at is not None and run.started_at < made_at <= later.started_at:
        return False
    if later.trigger_mode in _SERIES and run.fire_at != later.fire_at:
        return False
    return later.attempt == _next_attempt(run)


def _next_attempt(run: RunRecord) -> int | None:
    """The number of the attempt that follows a run; None if it was the last one."""
    if run.status is RunStatus.SUCCESS or run.reason == "discarded":
        return None
    # What was put off is no attempt: the next one has its number.
    return run.attempt + (run.status is not RunStatus.SKIPPED)


def round_of_task(task: Task, runs: Sequence[RunRecord]) -> tuple[list[RunRecord], bool]:
    """The round that a task is in, out of its runs, newest first: its attempts so far, oldest first, and whether the
    task as it stands is part of it. A series that waits for its next fire shows what ran last."""
    latest = round_of(runs, made_at=task.created_at)
    if not latest or latest[-1].started_at < task.created_at:
        return [], True
    last = latest[-1]
    if task.status is TaskStatus.RUNNING:
        goes_on = task.attempt == _next_attempt(last) and (not task.is_recurring or task.fire_at == last.fire_at)
        return (latest if goes_on else []), True
    if not task.status.is_live:
        return (latest if task.last_token == last.token else []), True
    if task.attempt + 1 == _next_attempt(last):
        return latest, True
    return (latest, False) if task.is_recurring and task.scheduled_at > last.started_at else ([], True)


# --- rows -------------------------------------------------------------------------------------------------------------


def waterfall(
    runs: Sequence[RunRecord],
    task: Task | None,
    now: Instant,
    details: Mapping[int, RunDetails] | None = None,
    *,
    made_at: Instant | None = None,
) -> Waterfall:
    """The rows of one round: its runs, oldest first, and the task as it stands if that is part of it. `details` are
    what the runs have left, by their tokens; `made_at` is when the task was made, if it was made for this round."""
    left = details or {}
    rows: list[Row] = [] if made_at is None else [Row("made", "Made", "made", at=made_at)]
    before = None if made_at is None else _Before(made_at, has_failed=False)
    shown = runs[-MAX_ATTEMPTS:]
    over_by = [*(_over_by(run, later) for run, later in pairwise(shown)), _settled_by(task)]
    for run, by in zip(shown, over_by, strict=False):
        begun = _begun_at(run, left.get(run.token, NO_DETAILS), by)
        ended = begun + run.duration_ms
        lead = _until_claimed(run.was_due_at or run.started_at, run.started_at, before)
        rows.append(_attempt_of(run, (*lead, *_handled(run.started_at, begun, ended))))
        rows += _steps(left.get(run.token, NO_DETAILS).steps, begun, ended, run.token)
        before = _Before(ended, has_failed=run.status in (RunStatus.ERROR, RunStatus.LOST))
    if task is not None:
        rows += _as_it_stands(task, before, left.get(task.token, NO_DETAILS), now)
    is_open = task is not None and task.status in (TaskStatus.PENDING, TaskStatus.RUNNING)
    from_at, to_at = _axis(rows, now, is_open=is_open)
    return Waterfall(from_at, to_at, now, is_open, tuple(rows))


def _begun_at(run: RunRecord, details: RunDetails, over_by: Instant | None) -> Instant:
    """When the handler began. How long it had waited was counted from when the claim was sent, a little before the
    store wrote it: the run was over by the time of what came after it, so it did not begin later than that allows."""
    begun = run.started_at + details.waited_ms
    return begun if over_by is None else max(run.started_at, min(begun, over_by - run.duration_ms))


def _over_by(run: RunRecord, later: RunRecord) -> Instant:
    """The moment by which a run was over: it has to be before the next attempt is due, or is claimed."""
    due_at = later.was_due_at
    return due_at if due_at is not None and due_at >= run.started_at + run.duration_ms else later.started_at


def _settled_by(task: Task | None) -> Instant | None:
    """The same of the last run, by what the task says."""
    if task is None or task.status is TaskStatus.RUNNING:
        return None if task is None else task.claimed_at
    return task.updated_at


class _Before(NamedTuple):
    """What an attempt comes after: the end of the one before it, or the making."""

    at: Instant
    has_failed: bool


def _attempt_of(run: RunRecord, stretches: tuple[Stretch, ...]) -> Row:
    return Row(
        kind="attempt",
        label=f"Attempt {max(1, run.attempt)}",
        outcome=run.status.value,
        stretches=stretches,
        token=run.token,
        run_id=run.run_id,
        reason=run.reason,
    )


def _as_it_stands(task: Task, before: _Before | None, details: RunDetails, now: Instant) -> Iterable[Row]:
    """What goes on, what comes next, or how it ended."""
    if task.status is TaskStatus.RUNNING and task.claimed_at is not None:
        begun = task.claimed_at + details.waited_ms
        lead = _until_claimed(task.scheduled_at, task.claimed_at, before)
        stretches = (*lead, *_handled(task.claimed_at, begun, None))
        yield Row("attempt", f"Attempt {max(1, task.attempt)}", "running", stretches, token=task.token)
        yield from _steps(details.steps, begun, None, task.token)
    elif task.status is TaskStatus.PENDING:
        lead = tuple(_until_claimed(task.scheduled_at, None, before, now))
        yield Row("next", f"Attempt {task.attempt + 1}", task.status.value, lead)
    elif not task.status.is_live and task.finished_at is not None:
        yield Row("settled", "Settled", task.status.value, at=task.finished_at, reason=task.reason)


def _until_claimed(
    due_at: Instant, claimed_at: Instant | None, before: _Before | None, now: Instant | None = None
) -> Iterable[Stretch]:
    """From what came before until it was due, and from then until it was claimed."""
    if before is not None and before.at < due_at:
        yield Stretch(Phase.BACK_OFF if before.has_failed else Phase.HELD, before.at, due_at)
    # What was interrupted keeps its place: it was due before its last attempt had ended.
    since = due_at if before is None else max(due_at, before.at)
    if (claimed_at is not None and since < claimed_at) or (now is not None and since < now):
        yield Stretch(Phase.WAITING, since, claimed_at)


def _handled(claimed_at: Instant, begun: Instant, ended: Instant | None) -> Iterable[Stretch]:
    if begun > claimed_at:
        yield Stretch(Phase.STARTING, claimed_at, begun)
    yield Stretch(Phase.WORKING, begun, ended)


def _steps(steps: Iterable[Step], begun: Instant, ended: Instant | None, token: int) -> Iterable[Row]:
    """The named parts of an attempt; one that had not ended lasted as long as the attempt."""
    for step in steps:
        to_at = ended if step.to_ms is None else begun + step.to_ms
        stretch = Stretch(Phase.WORKING, begun + step.from_ms, to_at)
        yield Row("step", step.name, _ended(step, ended), (stretch,), depth=1, token=token, reason=step.error)


def _ended(step: Step, ended: Instant | None) -> str:
    if step.error is not None:
        return "error"
    if step.to_ms is not None:
        return "success"
    return "running" if ended is None else "lost"


def _axis(rows: Sequence[Row], now: Instant, *, is_open: bool) -> tuple[Instant, Instant]:
    """From when to when: all of it, but for a long time before anything was due."""
    stretches = [each for row in rows for each in row.stretches]
    seen: list[Instant] = [row.at for row in rows if row.at is not None]
    for each in stretches:
        seen += [each.from_at] if each.to_at is None else [each.from_at, each.to_at]
    if is_open or not seen:
        seen.append(now)
    first, last = min(seen), max(seen)
    busy: Instant = min((each.from_at for each in stretches if each.phase is not Phase.HELD), default=first)
    from_at = max(first, round(busy - (last - busy) * _LONGEST_LEAD))
    return from_at, max(last, from_at + 1)
