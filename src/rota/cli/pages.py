"""Lists: whole pages out of short ones, and lists that are shown again and again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final, TypeVar

import typer
from msgspec.structs import replace

from rota.app.time_range import TimeRange, time_range
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.target import known_type
from rota.clock import SystemClock
from rota.core.task import Task
from rota.stores.base import Page, Store, TaskQuery, TaskSort

__all__ = [
    "CursorOption",
    "LimitOption",
    "SearchOption",
    "SinceOption",
    "TaskSortOption",
    "TypeOption",
    "UntilOption",
    "WatchOption",
    "find_tasks",
    "show_from_store",
    "show_sorted",
    "since_and_until",
    "whole_page",
    "with_watch",
]

T = TypeVar("T")

TypeOption = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this task type.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 1000.")]
CursorOption = Annotated[
    str | None, typer.Option("--cursor", metavar="C", help="Where the last page ended, as it was printed.")
]
SearchOption = Annotated[
    str | None, typer.Option("--search", metavar="TEXT", help="Only those whose key or user id has this text in it.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="From then on: so long ago (2h), or ISO 8601.")
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Before then: so long ago (30m), or ISO 8601.")
]
TaskSortOption = Annotated[
    TaskSort, typer.Option("--sort", help="The order; with a minus the other way round.", show_default=True)
]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every 2 s, until Ctrl-C.")]

WATCH_SECONDS: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"


async def whole_page(
    fetch: Callable[[str | None, int], Awaitable[Page[T]]], limit: int, cursor: str | None = None
) -> Page[T]:
    """A page of `limit`, or all there is. One look at the store is bounded: it may find fewer though there are more."""
    items: list[T] = []
    while True:
        page = await fetch(cursor, limit - len(items))
        items += page.items
        cursor = page.cursor
        if cursor is None or len(items) >= limit:
            return Page(items, cursor, page.looked_at)


def show_sorted(
    cli: Cli, page: Page[T], items: Sequence[Mapping[str, object]], columns: Sequence[Column], *, empty: str
) -> None:
    """A page that may be sorted in another way than the list is kept: it is said where that is the order of a part."""
    more = {} if page.looked_at is None else {"looked_at": page.looked_at}
    cli.output.page(items, columns, cursor=page.cursor, empty=empty, **more)
    if page.looked_at is not None:
        cli.output.note(f"Sorted are {page.looked_at:,}; there are more. Narrow it, e.g. by --type or --status.")


async def find_tasks(store: Store, query: TaskQuery) -> Page[Task]:
    """The page of tasks that a query asks for."""
    return await whole_page(
        lambda cursor, limit: store.find(replace(query, cursor=cursor, limit=limit)), query.limit, query.cursor
    )


def since_and_until(cli: Cli, since: str | None, until: str | None) -> TimeRange:
    """The time range that was typed, by the clock of whoever typed it."""
    return time_range(since, until, now=SystemClock().now(), timezone=cli.config.timezone)


async def show_from_store(
    cli: Cli, show: Callable[[Store], Awaitable[None]], *, watch: bool, task_type: str | None = None
) -> None:
    """Show something of the store, once or until Ctrl-C. A type that it is about must be known."""
    async with cli.store() as store:
        if task_type is not None:
            await known_type(cli, store, task_type)
        await with_watch(cli, lambda: show(store), watch=watch)


async def with_watch(cli: Cli, show: Callable[[], Awaitable[None]], *, watch: bool) -> None:
    """Show something, once or until Ctrl-C, which is the usual way to end it and no failure."""
    await show()
    if not watch:
        return
    task = asyncio.current_task()
    assert task is not None
    try:
        while True:
            sys.stdout.flush()
            await asyncio.sleep(WATCH_SECONDS)
            if cli.output.on_terminal and not cli.output.as_json:
                sys.stdout.write(_CLEAR)
            await show()
    except asyncio.CancelledError:
        task.uncancel()
