"""What every list has: filters in the URL, and pages by a cursor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from rota.app.time_range import TimeRange, time_range
from rota.app.views import task_query
from rota.core.task import Task, Transition
from rota.dashboard import actions
from rota.dashboard.view import View
from rota.stores.base import Page as StorePage
from rota.stores.base import Store, TaskQuery, TaskSort

__all__ = ["PAGE_SIZE", "Bulk", "bulk_of", "filled", "given_query", "given_range", "range_values", "type_names"]

PAGE_SIZE: Final = 50
MOST_LOOKS: Final = 8
"""How often a sparse filter is asked again before the page is shown as it is, with a way to go on."""


class Bulk(NamedTuple):
    """One button over a list: what it does to all that match, and the same in other places."""

    transition: Transition
    label: str
    command: str
    curl: str

    @property
    def named(self) -> str:
        """How the command begins that does it to the ticked ones, whose names follow."""
        return actions.named_command(self.transition, ())

    @property
    def danger(self) -> bool:
        return self.transition in actions.DANGEROUS

    @property
    def same(self) -> tuple[str, str]:
        """On the command line, and over HTTP."""
        return self.command, self.curl


def bulk_of(view: View, events: Iterable[tuple[Transition, str]], query: TaskQuery) -> list[Bulk]:
    """The buttons over a list that shows what matches a query."""
    return [
        Bulk(
            transition,
            label,
            actions.bulk_command(transition, query),
            actions.bulk_call(view.origin, transition, query),
        )
        for transition, label in events
        if actions.applies_to(transition, query.status)
    ]


def given_range(view: View) -> TimeRange:
    """The time range that the URL names, as it is now."""
    return time_range(view.given("since"), view.given("until"), now=view.now, timezone=view.timezone)


def range_values(view: View, within: TimeRange) -> dict[str, object]:
    """What a page with a time range shows of it: as it was said, and as instants for what is done to all that match."""
    return {"since": view.given("since"), "until": view.given("until"), "within": tuple(within.to_dict().items())}


def given_query(view: View) -> TaskQuery:
    """The filter that the URL names."""
    return task_query(
        type=view.given("type"),
        status=view.given("status"),
        without=view.given("without"),
        user=view.given("user"),
        owner=view.given("owner"),
        search=view.given("search"),
        within=given_range(view),
        sort=view.given("sort") or TaskSort.NEWEST,
        cursor=view.given("cursor"),
        limit=PAGE_SIZE,
    )


async def filled(store: Store, query: TaskQuery) -> StorePage[Task]:
    """A page as full as a few looks make it: the store looks at a bounded number of tasks in one."""
    items: list[Task] = []
    limit, looked_at = query.limit, None
    for _ in range(MOST_LOOKS):
        page = await store.find(replace(query, limit=limit - len(items)))
        items += page.items
        query = replace(query, cursor=page.cursor)
        looked_at = page.looked_at
        if page.cursor is None or len(items) >= limit:
            break
    return StorePage(items, query.cursor, looked_at)


async def type_names(view: View) -> list[str]:
    """What there is to choose from in a filter."""
    return [record.task_type.name for record in await view.app.types()]
