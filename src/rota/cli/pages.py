"""Lists: whole pages out of short ones, and lists that are shown again and again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

import typer
from msgspec.structs import replace

from rota.cli.invocation import Cli
from rota.cli.target import known_type
from rota.core.task import Task
from rota.stores.base import Page, Store, TaskQuery

__all__ = [
    "CursorOption",
    "LimitOption",
    "SearchOption",
    "TypeOption",
    "WatchOption",
    "find_tasks",
    "show_from_store",
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
            return Page(items, cursor)


async def find_tasks(store: Store, query: TaskQuery) -> Page[Task]:
    """The page of tasks that a query asks for."""
    return await whole_page(
        lambda cursor, limit: store.find(replace(query, cursor=cursor, limit=limit)), query.limit, query.cursor
    )


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
