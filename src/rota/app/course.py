"""What became of a task, or of one run of it: the runs, what each has left, and where the time went."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.app.waterfall import Waterfall, round_of, round_of_task, waterfall
from rota.clock import Instant
from rota.core.run_details import RunDetails, decode_details
from rota.core.task import Identity, RunRecord, Task, TaskStatus
from rota.stores.base import DETAILED_RUNS, Page, RunQuery, RunRef, Store

__all__ = ["LATEST_RUNS", "Course", "course_of_run", "course_of_task"]

LATEST_RUNS: Final = 30


@dataclass(frozen=True, slots=True)
class Course:
    """One identity as it stands, with what is known of its runs."""

    task: Task | None
    runs: Page[RunRecord]
    """The latest ones, newest first."""
    details: Mapping[int, RunDetails]
    """What they have left, by their tokens; that of a run under way, too."""
    waterfall: Waterfall


async def course_of_task(store: Store, task: Task, now: Instant) -> Course:
    """What became of a task so far."""
    runs = await _runs_of(store, task.identity)
    details = await _left_by(store, task.identity, [*_under_way(task), *runs.items])
    attempts, is_part = round_of_task(task, runs.items)
    made_at = _made_for(task, attempts, runs.items)
    return Course(task, runs, details, waterfall(attempts, task if is_part else None, now, details, made_at=made_at))


async def course_of_run(store: Store, run: RunRecord, now: Instant) -> Course:
    """What became of one run: the other attempts at the same work, and the task if it still stands there."""
    identity = Identity(run.task_type, run.key)
    runs, (task,) = await asyncio.gather(_runs_of(store, identity), store.get([identity]))
    attempts = round_of(runs.items, run, None if task is None else task.created_at)
    details = await _left_by(store, identity, [*_under_way(task), *attempts])
    latest, is_part = ([], False) if task is None else round_of_task(task, runs.items)
    stands = task if is_part and any(each.token == run.token for each in latest) else None
    made_at = _made_for(task, attempts, runs.items)
    return Course(task, runs, details, waterfall(attempts, stands, now, details, made_at=made_at))


async def _runs_of(store: Store, identity: Identity) -> Page[RunRecord]:
    return await store.runs(RunQuery(task_type=identity.task_type, key=identity.key, limit=LATEST_RUNS))


def _under_way(task: Task | None) -> Sequence[Task]:
    return [task] if task is not None and task.status is TaskStatus.RUNNING else []


async def _left_by(store: Store, identity: Identity, runs: Sequence[Task | RunRecord]) -> Mapping[int, RunDetails]:
    """What these have left; it is kept of the latest ones only."""
    refs = [RunRef(*identity, run.token) for run in runs if run.token][: DETAILED_RUNS + 1]
    texts = await store.details(refs) if refs else []
    return {ref.token: decode_details(text) for ref, text in zip(refs, texts, strict=True) if text is not None}


def _made_for(task: Task | None, attempts: Sequence[RunRecord], runs: Sequence[RunRecord]) -> Instant | None:
    """When the task was made, if these are the first runs since then; a series was made long before."""
    if task is None or task.is_recurring:
        return None
    since = [run.token for run in runs if run.token and run.started_at >= task.created_at]
    ours = [run.token for run in attempts]
    return task.created_at if set(since) <= set(ours) and (not ours or set(ours) <= set(since)) else None
