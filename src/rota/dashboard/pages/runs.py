"""The run log."""

from __future__ import annotations

import asyncio
import shlex
from itertools import chain

from rota.app.views import choice
from rota.core.task import RunStatus
from rota.dashboard.pages.lists import PAGE_SIZE, given_range, range_values, type_names
from rota.dashboard.view import Page, View
from rota.stores.base import RunQuery, RunSort

__all__ = ["show"]


async def show(view: View) -> Page:
    status = view.given("status")
    within = given_range(view)
    query = RunQuery(
        task_type=view.given("type"),
        key=view.given("key"),
        status=None if status is None else choice(RunStatus, status, "status"),
        user_id=view.given("user"),
        since_at=within.since_at,
        until_at=within.until_at,
        sort=choice(RunSort, view.given("sort") or RunSort.NEWEST, "order"),
        cursor=view.given("cursor"),
        limit=PAGE_SIZE,
    )
    store = await view.store()
    page, names = await asyncio.gather(store.runs(query), type_names(view))
    return Page(
        "runs.html",
        "Runs",
        {
            "runs": page.items,
            "cursor": page.cursor,
            "looked_at": page.looked_at,
            **range_values(view, within),
            "query": query,
            "is_filtered": any((query.task_type, query.key, query.status, query.user_id, *within)),
            "names": names,
            "statuses": list(RunStatus),
            "command": _command(query),
            "curl": view.call("GET", view.path("/api/runs", task_type=query.task_type, **_given(query))),
        },
        concerns=query.task_type or "*",
    )


def _given(query: RunQuery) -> dict[str, str | None]:
    return {"key": query.key, "status": query.status, "user": query.user_id}


def _command(query: RunQuery) -> str:
    said = {"type": query.task_type, **_given(query)}
    options = [[f"--{name}", value] for name, value in said.items() if value is not None]
    return shlex.join(["rota", "run", "ls", *chain.from_iterable(options)])
