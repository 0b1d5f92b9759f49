"""Tasks that failed for good: by type and reason, and back to work or away with them."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rota.app.time_range import TimeRange
from rota.app.views import task_query
from rota.core.task import Identity, Task, TaskStatus, Transition
from rota.dashboard import actions
from rota.dashboard.pages.failures import rows_of
from rota.dashboard.pages.lists import PAGE_SIZE, Bulk, bulk_of, filled, given_range, range_values, type_names
from rota.dashboard.view import Page, View
from rota.stores.base import MAX_PAGE, Store, TaskQuery, TaskSort

__all__ = ["identities_of", "show"]

NO_REASON: Final = "none"
MOST_GROUPS: Final = 6
BULK: Final = ((Transition.REDRIVE, "Redrive"), (Transition.PURGE, "Purge"))


async def show(view: View) -> Page:
    within = given_range(view)
    query = task_query(
        type=view.given("type"),
        status=TaskStatus.FAILED,
        user=view.given("user"),
        search=view.given("search"),
        failure=view.given("failure"),
        within=within,
        sort=view.given("sort") or TaskSort.NEWEST,
        cursor=view.given("cursor"),
        limit=MAX_PAGE,
    )
    reason = view.given("reason")
    store = await view.store()
    page, names, counts, groups = await asyncio.gather(
        filled(store, query), type_names(view), store.counts(), store.failures(query.task_type)
    )
    chosen = [task for task in page.items if reason in (None, task.reason or NO_REASON)]
    by_type = sorted(((of.failed, name) for name, of in counts.items() if of.failed), reverse=True)
    return Page(
        "dead_letters.html",
        "Dead letters",
        {
            "tasks": chosen[:PAGE_SIZE],
            "more_here": len(chosen) - PAGE_SIZE,
            "cursor": page.cursor,
            "looked_at": page.looked_at,
            **range_values(view, within),
            "looked": len(page.items),
            "query": query,
            "reason": reason,
            "by_type": [(name, failed) for failed, name in by_type],
            "total": sum(failed for failed, _ in by_type),
            "by_failure": rows_of(view, [group for group in groups if group.dead][:MOST_GROUPS]),
            "by_reason": Counter(task.reason or NO_REASON for task in page.items).most_common(12),
            "names": names,
            "actions_of": actions.of_task,
            "bulk": bulk_of(view, BULK, query) if reason is None else _named(view, chosen[:PAGE_SIZE]),
        },
        concerns=query.task_type or "*",
    )


def _named(view: View, tasks: Sequence[Task]) -> list[Bulk]:
    """The buttons for one reason. No filter outside knows reasons, so the tasks on the page are named."""
    names = [f"{task.task_type}/{task.key}" for task in tasks]
    identities = [{"task_type": task.task_type, "key": task.key} for task in tasks]
    return [
        Bulk(
            transition,
            label,
            shlex.join(["rota", "dlq", transition.value, *names]),
            view.call("POST", f"/api/dead-letters/{transition}", json.dumps({"identities": identities})),
        )
        for transition, label in BULK
        if tasks
    ]


async def identities_of(store: Store, query: TaskQuery, reason: str) -> list[Identity]:
    """The dead letters with a reason, of the first `MAX_PAGE` that match: the store keeps no index of reasons."""
    dead = task_query(
        type=query.task_type,
        status=TaskStatus.FAILED,
        user=query.user_id,
        search=query.search,
        failure=query.failure,
        within=TimeRange(query.since_at, query.until_at),
        sort=TaskSort.NEWEST,
        limit=MAX_PAGE,
    )
    page = await filled(store, dead)
    return [task.identity for task in page.items if (task.reason or NO_REASON) == reason]
