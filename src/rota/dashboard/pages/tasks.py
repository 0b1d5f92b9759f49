"""All tasks, by a filter that lives in the URL, and what can be done to many of them at once."""

from __future__ import annotations

import asyncio
from typing import Final

from rota.app.time_range import TimeRange
from rota.app.views import is_filtered
from rota.core.task import TaskStatus, Transition
from rota.dashboard import actions
from rota.dashboard.pages.lists import bulk_of, filled, given_query, range_values, type_names
from rota.dashboard.view import Page, View

__all__ = ["BULK", "show"]

BULK: Final = (
    (Transition.PAUSE, "Pause"),
    (Transition.RESUME, "Resume"),
    (Transition.RUN_NOW, "Run now"),
    (Transition.REDRIVE, "Redrive"),
    (Transition.CANCEL, "Cancel"),
    (Transition.PURGE, "Purge"),
)


async def show(view: View) -> Page:
    query = given_query(view)
    store = await view.store()
    page, names, counts = await asyncio.gather(filled(store, query), type_names(view), store.counts())
    by_status = {
        status.value: sum(getattr(of, status.value) for name, of in counts.items() if query.task_type in (None, name))
        for status in TaskStatus
    }
    return Page(
        "tasks.html",
        "Tasks",
        {
            "tasks": page.items,
            "cursor": page.cursor,
            "looked_at": page.looked_at,
            **range_values(view, TimeRange(query.since_at, query.until_at)),
            "query": query,
            "is_filtered": is_filtered(query),
            "names": names,
            "statuses": list(TaskStatus),
            "by_status": by_status,
            "actions_of": actions.of_task,
            "bulk": bulk_of(view, BULK, query),
        },
        concerns=query.task_type or "*",
    )
