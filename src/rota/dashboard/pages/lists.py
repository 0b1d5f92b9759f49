"""What every list has: filters in the URL, and pages by a cursor."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from rota.core.task import Task, TaskStatus
from rota.dashboard.view import View
from rota.stores.base import Page as StorePage
from rota.stores.base import Store, TaskQuery
from rota.tasks import choice

__all__ = ["PAGE_SIZE", "filled", "given_query", "type_names"]

PAGE_SIZE: Final = 50
MOST_LOOKS: Final = 8
"""How often a sparse filter is asked again before the page is shown as it is, with a way to go on."""


def given_query(view: View) -> TaskQuery:
    """The filter that the URL names."""
    status, without = view.given("status"), view.given("without")
    return TaskQuery(
        task_type=view.given("type"),
        status=None if status is None else choice(TaskStatus, status, "status"),
        without=None if without is None else choice(TaskStatus, without, "status"),
        user_id=view.given("user"),
        owner=view.given("owner"),
        search=view.given("search"),
        cursor=view.given("cursor"),
        limit=PAGE_SIZE,
    )


async def filled(store: Store, query: TaskQuery) -> StorePage[Task]:
    """A page as full as a few looks make it: the store looks at a bounded number of tasks in one."""
    items: list[Task] = []
    limit = query.limit
    for _ in range(MOST_LOOKS):
        page = await store.find(replace(query, limit=limit - len(items)))
        items += page.items
        query = replace(query, cursor=page.cursor)
        if page.cursor is None or len(items) >= limit:
            break
    return StorePage(items, query.cursor)


async def type_names(view: View) -> list[str]:
    """What there is to choose from in a filter."""
    return [record.task_type.name for record in await view.app.types()]
