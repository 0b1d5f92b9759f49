"""The unit of work: what one atomic step has read and decided, written in one go at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeVar, TypeVarTuple

from rota.clock import Instant, Millis
from rota.core import plain
from rota.core import serial as serials
from rota.core.lifecycle import Step
from rota.core.task import NO_PAST, Entry, Identity, RunRecord, RunStatus, Settlement, Task, TaskStatus
from rota.core.task_type import TaskType
from rota.errors import UnknownTaskType
from rota.stores.base import RunLeft, TypeRecord
from rota.stores.transaction import Completion, Transaction

__all__ = ["SOON_MS", "TOTALS", "Work", "unit_of_work"]

T = TypeVar("T")
Args = TypeVarTuple("Args")

SOON_MS: Millis = 2_000
"""Only what is due this soon wakes others: anything later is seen by their next tick in time."""

_NOTHING = Entry(None, NO_PAST)
TOTALS = {RunStatus.SUCCESS: "succeeded_total", RunStatus.ERROR: "errored_total", RunStatus.LOST: "lost_total"}
"""The kept counter in which a run counts that ended so."""


class Work:
    """Entries as they are after the steps so far, over entries as they were. Two steps on one identity chain."""

    def __init__(self, transaction: Transaction, now: Instant | None = None) -> None:
        self.transaction = transaction
        self.now = transaction.now() if now is None else now
        self.types = transaction.types()
        self.earliest_due_at: Instant | None = None
        """The earliest due time that this step has made, for waking whoever waits."""
        self._before: dict[Identity, Entry] = {}
        self._after: dict[Identity, Entry] = {}
        self._runs: list[RunRecord] = []
        self._completions: list[Completion] = []
        self._left: list[RunLeft] = []
        self._left_by: list[str | None] = []
        self._deltas: defaultdict[str, defaultdict[str, int]] = defaultdict(partial(defaultdict[str, int], int))
        self._holds_serials = False
        self._effective: dict[str, TaskType] = {}
        self._followed = {name for record in self.types.values() for name in record.task_type.after}

    # --- reading ---

    def load(self, identities: Iterable[Identity]) -> None:
        missing = {identity for identity in identities if identity not in self._after}
        if missing:
            # Rows are always locked in the same order, so that two groups never wait for each other.
            found = self.transaction.load(sorted(missing))
            for identity in missing:
                self._before[identity] = self._after[identity] = found.get(identity, _NOTHING)

    def adopt(self, entries: Iterable[Entry]) -> list[Task]:
        """Take in entries that the transaction found by other means; the tasks as this step sees them."""
        tasks: list[Task] = []
        for entry in entries:
            assert entry.task is not None
            identity = entry.task.identity
            if identity not in self._after:
                self._before[identity] = self._after[identity] = entry
            current = self._after[identity].task
            if current is not None:
                tasks.append(current)
        return tasks

    def entry(self, identity: Identity) -> Entry:
        return self._after[identity]

    def type_of(self, name: str) -> TaskType:
        """The settings that count, with what an operator has overridden."""
        found = self._effective.get(name)
        if found is None:
            found = self._effective[name] = self.type_record(name).effective
        return found

    def type_record(self, name: str) -> TypeRecord:
        record = self.types.get(name)
        if record is None:
            raise UnknownTaskType(f"The store knows no task type {name!r}. Register it first, or check the spelling.")
        return record

    def pending(self, task_type: str) -> int:
        """How many tasks of the type wait, with what this step has added and taken."""
        return self.transaction.pending(task_type) + self._deltas[task_type]["pending"]

    # --- deciding ---

    def apply(self, step: Step, identity: Identity) -> None:
        """Take over what the lifecycle decided."""
        self._move(identity, Entry(step.task, step.past))
        for run in step.runs:
            self._record(run)
        if step.completed and step.task is not None and identity.task_type in self._followed:
            task = step.task
            self._completions.append(Completion(*identity, task.user_id, task.device_id, task.agent_id, task.trace))

    def claim_plain(self, task_type: TaskType, claimed: Sequence[Task]) -> bool:
        """Write plain tasks that one claim has taken, and count them; False if the store has no shorter way."""
        if not claimed:
            return False
        step = plain.claim(claimed[0], task_type, self.now)
        if not self.transaction.claim_plain(task_type.name, {task.key: task.token for task in claimed}, step):
            return False
        self._count_alike(task_type.name, plain.WAITING, step, len(claimed))
        for task in claimed:
            # As it was loaded it is not known any more.
            identity = task.identity
            del self._before[identity], self._after[identity]
        return True

    def end_plain(self, task_type: str, succeeded: Mapping[str, Settlement]) -> Collection[str]:
        """The keys of the plain tasks among these, of which nothing was loaded so far: they are ended, and counted."""
        if task_type in self._followed or task_type not in self.types:
            return ()
        success = plain.success(self.type_of(task_type), self.now)
        ended = self.transaction.end_plain(task_type, succeeded, success)
        self._count_alike(task_type, plain.RUNNING, success, len(ended))
        return ended

    def _count_alike(self, task_type: str, sample: Entry, step: Step, times: int) -> None:
        assert sample.task is not None
        assert step.task is not None
        counters = self._deltas[task_type]
        counters[sample.task.status] -= times
        counters[step.task.status] += times
        for run in step.runs:
            counters[TOTALS[run.status]] += times

    def set_task(self, task: Task) -> None:
        """A change that is no step of the lifecycle: a task is parked or un-parked."""
        self._move(task.identity, Entry(task, self._after[task.identity].past))

    def keep_details(self, left: RunLeft, user_id: str | None) -> None:
        """Keep what a run has left; its user may want it removed."""
        self._left.append(left)
        self._left_by.append(user_id)

    def coalesced(self, task_type: str) -> None:
        self._deltas[task_type]["coalesced_total"] += 1

    def _move(self, identity: Identity, entry: Entry) -> None:
        before, past = self._after[identity]
        task = entry.task
        if task is before and entry.past is past:
            return
        counters = self._deltas[identity.task_type]
        if before is not None:
            counters[before.status] -= 1
        if task is not None:
            counters[task.status] += 1
            if before is None or (not before.status.is_live and task.status.is_live):
                counters["created_total"] += 1
            if task.status is TaskStatus.PENDING and not task.parked:
                due_at = task.scheduled_at
                self.earliest_due_at = due_at if self.earliest_due_at is None else min(self.earliest_due_at, due_at)
        self._after[identity] = entry

    def _record(self, run: RunRecord) -> None:
        self._runs.append(run)
        total = TOTALS.get(run.status)
        if total is not None:
            self._deltas[run.task_type][total] += 1

    # --- writing ---

    def finish(self) -> None:
        """Write everything, and count it at the very end. Whoever counts holds a row that everybody counts in: one who
        then waited for a serial, while its holder waited to count, would wait for ever."""
        self.flush()
        deltas = {name: {k: v for k, v in counts.items() if v} for name, counts in self._deltas.items()}
        deltas = {name: counts for name, counts in sorted(deltas.items()) if counts}
        if deltas:
            self.transaction.count(deltas)
            self._deltas.clear()

    def flush(self) -> None:
        """Write what was decided so far; then let those in who waited for a serial that is free now."""
        freed = {
            (identity.task_type, before.task.serial)
            for identity, before in self._before.items()
            if before.task is not None
            and before.task.serial is not None
            and serials.stopped_competing(before.task, self._after[identity].task, self.now)
        }
        self._write()
        if freed:
            self.unpark(self.hold_serials(freed))

    def hold_serials(self, serials: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Hold serials until this step ends; those that are held. It waits for the first ones that it asks for, in the
        order in which everybody does. Later ones that somebody else holds are left out: who holds some and waits for
        others may be waited for."""
        held = self.transaction.lock_serials(sorted(serials), wait=not self._holds_serials)
        self._holds_serials = True
        return sorted(held)

    def unpark(self, held: Sequence[tuple[str, str]]) -> None:
        """Let the best that is parked under each serial back into its lane, as many as there are permits free."""
        for task_type, pairs in groupby(sorted(held), key=itemgetter(0)):
            waited_for = self.transaction.with_parked(task_type, [serial for _, serial in pairs])
            if not waited_for:
                continue
            running = self.transaction.running_under(task_type, waited_for)
            for serial in sorted(waited_for):
                self._unpark_best(task_type, serial, running.get(serial, 0))
        self._write()

    def _unpark_best(self, task_type: str, serial: str, running: int) -> None:
        aging_ms = self.types[task_type].task_type.aging_ms
        waiting = self.adopt(self.transaction.parked(task_type, serial, aging_ms, limit=1))
        if not waiting:
            return
        free = waiting[0].permits - running
        if free > 1:
            waiting = self.adopt(self.transaction.parked(task_type, serial, aging_ms, limit=free))
        for task in waiting[: max(free, 0)]:
            self.set_task(serials.unpark(task))

    def _write(self) -> None:
        changes = [
            (identity, before, after)
            for identity, before in self._before.items()
            if before is not (after := self._after[identity])
        ]
        transaction = self.transaction
        if changes:
            transaction.write(changes)
            self._before = dict(self._after)
        if self._runs:
            transaction.log(self._runs)
            self._runs = []
        if self._left:
            transaction.put_details(self._left, self._left_by, self.now)
            self._left, self._left_by = [], []
        if self._completions:
            transaction.append_completions(self._completions)
            self._completions = []


def unit_of_work(
    now: Instant | None, verb: Callable[[Work, *Args], T], args: tuple[*Args], transaction: Transaction
) -> tuple[T, bool]:
    """The verb as one step: its answer, and whether it made something due soon; the other instances are told."""
    work = Work(transaction, now)
    answer = verb(work, *args)
    work.finish()
    is_soon = work.earliest_due_at is not None and work.earliest_due_at <= work.now + SOON_MS
    if is_soon:
        transaction.poke()
    return answer, is_soon
