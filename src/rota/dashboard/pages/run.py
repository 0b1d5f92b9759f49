"""One run: what it was, where its time went, what it left, and the failed ones of its type before and after it."""

from __future__ import annotations

import asyncio

from rota.api.paths import KeyInPath
from rota.app.as_test import as_test, import_of
from rota.app.course import course_of_run
from rota.app.neighbours import failed_beside
from rota.core.run_details import NO_DETAILS
from rota.dashboard import actions
from rota.dashboard.view import Page, View
from rota.dashboard.waterfall import drawn
from rota.errors import UnknownRun
from rota.stores.base import RunQuery

__all__ = ["show"]


async def show(view: View, run_id: KeyInPath) -> Page:
    store = await view.store()
    page = await store.runs(RunQuery(run_id=run_id, limit=1))
    if not page.items:
        raise UnknownRun(f"There is no run {run_id!r}. The run log is kept for a limited time.")
    run = page.items[0]
    course, beside = await asyncio.gather(course_of_run(store, run, view.now), failed_beside(store, run))
    details = course.details.get(run.token)
    task = course.task
    payload = (details or NO_DETAILS).payload or (None if task is None else task.payload)
    return Page(
        "run.html",
        f"Run {run.run_id}",
        {
            "run": run,
            "task": task,
            "details": details,
            "payload": payload,
            "fall": drawn(view, course.waterfall, here=run.run_id),
            "beside": beside,
            "again": None if task is None else actions.again(task),
            "test": as_test(run, task, payload, import_of(view.app, run.task_type)),
        },
        concerns=run.task_type,
        within="runs",
    )
