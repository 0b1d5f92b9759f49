"""Every (state, want, dirty, recurring) x transition, on every store.

The expectations below are written by hand, not taken from the code of `core/lifecycle.py`: what a transition answers
in each state, and where a run's end leads. Each store is compared with them, and whole records with a MemoryStore that
went the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from rota.clock import HOUR, MINUTE, SECOND, Instant
from rota.core.task import RunStatus, Task, TaskStatus, Transition, Want
from rota.stores.base import Counts
from rota.stores.memory import MemoryStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import SETTLING, Suite, World, hourly

__all__ = ["ANSWERS", "LEAVING", "SETTLING", "SITUATIONS", "Situation", "TestTable", "is_possible", "make_task"]

INTERVAL = 30 * MINUTE
ABSENT = "absent"
NO_TOKEN = 999_999_999

# What each transition answers in each state, and the state after it ("." = the same). Running tasks are left to LEAVING
# where the answer is "leave". A settle of something that does not run is stale, whatever its state.
_ANSWERS = """
transition    absent          pending         running      paused       completed       failed          cancelled
schedule created:pending exists:.        exists:.     exists:.     created:pending created:pending created:pending
update   unknown:.       ok:.            ok:.         ok:.         refused:.       refused:.       refused:.
touch    created:pending coalesced:.     coalesced:.  coalesced:.  created:pending created:pending created:pending
claim    nothing:.       claimed:running nothing:.    nothing:.    nothing:.       nothing:.       nothing:.
renew    stale:.         stale:.         ok:.         stale:.      stale:.         stale:.         stale:.
complete stale:.         stale:.         ok:leave     stale:.      stale:.         stale:.         stale:.
discard  stale:.         stale:.         ok:leave     stale:.      stale:.         stale:.         stale:.
retry    stale:.         stale:.         ok:leave     stale:.      stale:.         stale:.         stale:.
fail     stale:.         stale:.         ok:leave     stale:.      stale:.         stale:.         stale:.
snooze   stale:.         stale:.         ok:leave     stale:.      stale:.         stale:.         stale:.
release  stale:.         stale:.         ok:leave     stale:.      stale:.         stale:.         stale:.
reap     nothing:.       nothing:.       reaped:leave nothing:.    nothing:.       nothing:.       nothing:.
pause    unknown:.       ok:paused       ok:.         refused:.    refused:.       refused:.       refused:.
resume   unknown:.       refused:.       ok:.         ok:pending   refused:.       refused:.       refused:.
cancel   unknown:.       ok:cancelled    ok:.         ok:cancelled refused:.       refused:.       refused:.
run_now  unknown:.       ok:.            refused:.    ok:pending   ok:pending      ok:pending      refused:.
redrive  unknown:.       refused:.       refused:.    refused:.    refused:.       ok:pending      refused:.
end      unknown:.       ok:completed    refused:.    ok:completed refused:.       refused:.       refused:.
purge    unknown:.       refused:.       refused:.    refused:.    ok:absent       ok:absent       ok:absent
erase    unknown:.       ok:absent       ok:.         ok:absent    ok:absent       ok:absent       ok:absent
"""

# Where the end of a run leads; the first line that fits decides. The last column says when the task is due.
_LEAVING = """
transition                     want    dirty  recurring   state      due
*                         cancel  *      *           cancelled  -
retry                     pause   *      *           paused     back_off
retry                     none    *      *           pending    back_off
reap,release              pause   *      *           paused     same
reap,release              none    *      *           pending    same
snooze                    pause   *      *           paused     snoozed
snooze                    none    *      *           pending    snoozed
complete,discard,fail     pause   *      yes         paused     fire
complete,discard,fail     none    *      yes         pending    fire
complete,discard,fail     pause   yes    no          paused     interval
complete,discard,fail     none    yes    no          pending    interval
complete,discard          *       no     no          completed  -
fail                      *       no     no          failed     -
"""

_ROW_OF = {
    Transition.COMPLETE: RunStatus.SUCCESS,
    Transition.DISCARD: RunStatus.SKIPPED,
    Transition.RETRY: RunStatus.ERROR,
    Transition.FAIL: RunStatus.ERROR,
    Transition.SNOOZE: RunStatus.SKIPPED,
    Transition.RELEASE: RunStatus.SKIPPED,
    Transition.REAP: RunStatus.LOST,
}


def _parse_answers() -> dict[tuple[Transition, str], tuple[str, str]]:
    head, *lines = [line.split() for line in _ANSWERS.strip().splitlines()]
    answers: dict[tuple[Transition, str], tuple[str, str]] = {}
    for name, *cells in lines:
        for state, cell in zip(head[1:], cells, strict=True):
            answer, after = cell.split(":")
            answers[Transition(name), state] = (answer, state if after == "." else after)
    return answers


ANSWERS = _parse_answers()
"""(transition, state) -> (answer, state after)."""

LEAVING = [line.split() for line in _LEAVING.strip().splitlines()[1:]]
"""Lines of: events, want, dirty, recurring, state, due."""


class Situation(NamedTuple):
    """Where a task stands before the transition."""

    state: str
    want: Want
    dirty: bool
    recurring: bool

    def __str__(self) -> str:
        words = [self.state]
        words += [f"want_{self.want}"] if self.want is not Want.NONE else []
        words += ["dirty"] if self.dirty else []
        words += ["recurring"] if self.recurring else []
        return "-".join(words)


def is_possible(state: str, want: Want, dirty: bool) -> bool:
    """A wish and a late activity belong to a run. Only a paused task that is run by hand carries its wish ahead."""
    if state == TaskStatus.RUNNING:
        return True
    return not dirty and (want is Want.NONE or (state == TaskStatus.PENDING and want is Want.PAUSE))


def _situations() -> Iterator[Situation]:
    for state in (ABSENT, *TaskStatus):
        for want in Want:
            for dirty in (False, True):
                for recurring in (False, True):
                    if is_possible(state, want, dirty) and not (state == ABSENT and recurring):
                        yield Situation(str(state), want, dirty, recurring)


SITUATIONS = tuple(_situations())


async def make_task(world: World, situation: Situation, task_type: str, key: str = "k") -> Task | None:
    """Bring a fresh identity into a situation, by the verbs of the store alone."""
    state = situation.state
    if state == ABSENT:
        return None
    if situation.recurring:
        only_run = state in (TaskStatus.COMPLETED, TaskStatus.FAILED)
        await world.series(key, task_type, max_runs=1 if only_run else None)
    else:
        await world.schedule(key, task_type, scheduled_at=world.now + HOUR)
    match state:
        case TaskStatus.RUNNING:
            await _make_running(world, situation, task_type, key)
        case TaskStatus.COMPLETED | TaskStatus.FAILED:
            transition = Transition.COMPLETE if state == TaskStatus.COMPLETED else Transition.FAIL
            await world.settle(await world.claim_due(key, task_type), transition)
        case TaskStatus.CANCELLED:
            await world.apply(Transition.CANCEL, key, task_type)
        case TaskStatus.PAUSED:
            await world.apply(Transition.PAUSE, key, task_type)
        case _ if situation.want is Want.PAUSE:
            await world.apply(Transition.PAUSE, key, task_type)
            await world.apply(Transition.RUN_NOW, key, task_type)
        case _:
            pass
    return await world.there(key, task_type)


async def _make_running(world: World, situation: Situation, task_type: str, key: str) -> None:
    await world.claim_due(key, task_type)
    if situation.dirty:
        await world.touch(key, task_type)
    if situation.want is not Want.NONE:
        await world.apply(Transition.PAUSE if situation.want is Want.PAUSE else Transition.CANCEL, key, task_type)


async def fire(world: World, situation: Situation, transition: Transition, task_type: str, before: Task | None) -> str:
    """Let the transition happen; its answer in one word."""
    key = "k"
    match transition:
        case Transition.SCHEDULE:
            trigger = hourly(world.now) if situation.recurring else None
            return (await world.schedule(key, task_type, trigger=trigger)).outcome.value
        case Transition.UPDATE:
            return (await world.update(key, task_type, payload="edited")).answer.value
        case Transition.TOUCH:
            # Past the cooldown: this table is about states, the checks of an activity have tests of their own.
            world.clock.advance("30m")
            return (await world.touch(key, task_type)).outcome.value
        case Transition.CLAIM:
            if before is not None and before.status is TaskStatus.PENDING:
                world.clock.set(max(world.now, before.scheduled_at))
            return "claimed" if await world.claim(1, (task_type,)) else "nothing"
        case Transition.RENEW:
            return world.renew(_target(before, task_type)).answer.value
        case Transition.REAP:
            reaped = await world.tick_past_lease()
            return "reaped" if any(task.task_type == task_type for task in reaped) else "nothing"
        case _ if transition in SETTLING:
            after_ms = MINUTE if transition is Transition.SNOOZE else None
            return (await world.settle(_target(before, task_type), transition, after_ms=after_ms)).answer.value
        case _:
            return (await world.apply(transition, key, task_type)).answer.value


def _target(before: Task | None, task_type: str) -> Task:
    """The task to write back to; a token that was never handed out where nothing runs."""
    if before is not None and before.status is TaskStatus.RUNNING:
        return before
    nobody = Task(task_type=task_type, key="k", status=TaskStatus.RUNNING, scheduled_at=0, created_at=0, updated_at=0)
    return replace(nobody, token=NO_TOKEN)


class Expected(NamedTuple):
    answer: str
    state: str
    want: Want
    dirty: bool
    due: str
    rows: tuple[RunStatus, ...]


def expect(situation: Situation, transition: Transition) -> Expected:
    """What the two tables above say."""
    answer, state = ANSWERS[transition, situation.state]
    if state == "leave":
        _, _, _, _, state, due = next(line for line in LEAVING if _fits(line, situation, transition))
        return Expected(answer, state, Want.NONE, False, due, (_ROW_OF[transition],))
    want, dirty = situation.want, situation.dirty
    if situation.state == TaskStatus.RUNNING:
        answer, want = _wish(transition, answer, want)
        dirty = dirty or transition is Transition.TOUCH
    elif transition is Transition.RUN_NOW and situation.state == TaskStatus.PAUSED:
        want = Want.PAUSE
    elif state not in (TaskStatus.PENDING, TaskStatus.RUNNING):
        want = Want.NONE
    return Expected(answer, state, want, dirty, _due(transition, answer, state), ())


def _fits(line: Sequence[str], situation: Situation, transition: Transition) -> bool:
    events, want, dirty, recurring, *_ = line
    return (
        (events == "*" or transition in events.split(","))
        and want in ("*", situation.want)
        and dirty in ("*", "yes" if situation.dirty else "no")
        and recurring in ("*", "yes" if situation.recurring else "no")
    )


def _wish(transition: Transition, answer: str, want: Want) -> tuple[str, Want]:
    """What becomes of the wish of a running task. A wish to cancel is never taken back."""
    if want is Want.CANCEL:
        return ("cancel" if transition is Transition.RENEW else answer), want
    wishes = {
        Transition.PAUSE: Want.PAUSE,
        Transition.RESUME: Want.NONE,
        Transition.CANCEL: Want.CANCEL,
        Transition.ERASE: Want.CANCEL,
    }
    return answer, wishes.get(transition, want)


def _due(transition: Transition, answer: str, state: str) -> str:
    if answer == "created":
        return "interval" if transition is Transition.TOUCH else "made"
    if answer == "ok" and transition in (Transition.RUN_NOW, Transition.REDRIVE):
        return "now"
    return "same" if state in (TaskStatus.PENDING, TaskStatus.PAUSED, TaskStatus.RUNNING) else "-"


def due_times(label: str, situation: Situation, before: Task | None, now: Instant) -> set[Instant]:
    """The instants that a label of the table allows."""
    match label:
        case "same":
            assert before is not None
            return {before.scheduled_at}
        case "interval":
            return {now + INTERVAL}
        case "made":
            return {now + HOUR if situation.recurring else now}
        case "back_off":
            # base 10 s with a chance of one half
            return {now + 5 * SECOND}
        case "snoozed":
            return {now + MINUTE}
        case "fire":
            assert before is not None
            assert before.fire_at is not None
            return {before.fire_at + HOUR}
        case _:
            return {now}


class Observed(NamedTuple):
    """All that can be seen of an identity after the transition; tokens and run ids are each store's own."""

    answer: str
    task: Task | None
    rows: list[tuple[object, ...]]
    counts: Counts


async def observe(world: World, answer: str, task_type: str) -> Observed:
    task = await world.task("k", task_type)
    if task is not None:
        task = replace(task, token=int(task.token > 0), last_token=int(task.last_token > 0))
    runs = await world.runs("k", task_type)
    rows = [
        tuple(getattr(run, name) for name in run.__struct_fields__ if name not in ("run_id", "token")) for run in runs
    ]
    return Observed(answer, task, rows, await world.counts(task_type))


class TestTable(Suite):
    @pytest.mark.parametrize("situation", SITUATIONS, ids=str)
    async def test_every_event(self, world: World, situation: Situation) -> None:
        twin = World(MemoryStore(clock := FakeClock(world.now)), clock)
        wrong: list[str] = []
        for transition in Transition:
            wrong += [f"{transition}: {problem}" for problem in await self._try(world, twin, situation, transition)]
        assert wrong == []

    async def _try(self, world: World, twin: World, situation: Situation, transition: Transition) -> list[str]:
        task_type = f"on_{transition}"
        observed, problems = await self._walk(world, situation, transition, task_type)
        remembered, _ = await self._walk(twin, situation, transition, task_type)
        for name, here, there in zip(Observed._fields, observed, remembered, strict=True):
            if here != there:
                problems.append(f"{name} differs from memory: {here} instead of {there}")
        return problems

    async def _walk(
        self, world: World, situation: Situation, transition: Transition, task_type: str
    ) -> tuple[Observed, list[str]]:
        await world.type(task_type)
        before = await make_task(world, situation, task_type)
        rows_before = len(await world.runs("k", task_type))
        self._check_situation(before, situation)
        answer = await fire(world, situation, transition, task_type, before)
        after = await world.task("k", task_type)
        rows = tuple(run.status for run in (await world.runs("k", task_type))[rows_before:])
        await world.check_counts(task_type)
        expected = expect(situation, transition)
        problems = list(self._problems(expected, situation, before, after, answer, rows, world.now))
        if answer in ("refused", "stale", "unknown", "exists", "nothing") and after != before:
            problems.append(f"it answered {answer} and yet changed {before} to {after}")
        return await observe(world, answer, task_type), problems

    def _check_situation(self, task: Task | None, situation: Situation) -> None:
        state = ABSENT if task is None else task.status
        assert state == situation.state
        if task is not None:
            assert (task.want, task.dirty, task.is_recurring) == situation[1:]

    def _problems(
        self,
        expected: Expected,
        situation: Situation,
        before: Task | None,
        after: Task | None,
        answer: str,
        rows: tuple[RunStatus, ...],
        now: Instant,
    ) -> Iterator[str]:
        if answer != expected.answer:
            yield f"it answered {answer} instead of {expected.answer}"
        state = ABSENT if after is None else after.status.value
        if state != expected.state:
            yield f"it is {state} instead of {expected.state}"
        if rows != expected.rows:
            yield f"it wrote the rows {rows} instead of {expected.rows}"
        if after is None or state != expected.state:
            return
        if (after.want, after.dirty) != (expected.want, expected.dirty):
            yield f"want and dirty are {after.want}, {after.dirty} instead of {expected.want}, {expected.dirty}"
        if not is_possible(after.status, after.want, after.dirty):
            yield f"it is in an impossible situation: {after.status}, {after.want}, {after.dirty}"
        if expected.due != "-":
            due = due_times(expected.due, situation, before, now)
            if after.scheduled_at not in due:
                yield f"it is due at {after.scheduled_at} instead of {sorted(due)} ({expected.due})"
