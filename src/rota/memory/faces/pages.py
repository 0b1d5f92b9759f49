"""Users' memories: all of them in numbers, and one of them with what was merged from what, and what comes next."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from typing import Final

from rota.access import Role
from rota.api.paths import UserInPath, quote_key
from rota.app.views import choice
from rota.clock import Instant
from rota.core.task import Task
from rota.dashboard import actions
from rota.dashboard.actions import Action
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View
from rota.memory import MEMORY_TYPES, Memory, Scope, State, memory_of
from rota.memory.contexts import cursor_of
from rota.memory.memory import Lineage
from rota.memory.search import Found
from rota.memory.statistics import Figures, Statistics
from rota.memory.types import MEMORY_COMPRESSION
from rota.stores.base import TaskQuery

__all__ = ["PILLS", "Upkeep", "one", "show"]

LARGEST: Final = 50
MERGES: Final = 10
MOST_SOURCES: Final = 20
"""How many sources of one merge are shown: there may be thousands."""
MOST_DEVICES: Final = 10
"""How many of a user's tasks of one type are explained."""
PILLS: Final = {State.FRESH: "pending", State.KEPT: "completed", State.MERGED: "off"}
"""Which colour a state has."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """One task that keeps a user's memory up, and why it waits."""

    task: Task
    summary: str
    due_at: Instant
    actions: list[Action]


async def show(view: View) -> Page:
    """All memories together, and whose are the largest."""
    statistics = Statistics(await memory_of(view.app).contexts())
    (figures, counted_at), largest = await asyncio.gather(statistics.in_all(), statistics.largest(LARGEST))
    values = {
        "figures": figures,
        "saved": _saved(figures),
        "counted_at": counted_at,
        "largest": largest,
        "user_id": view.given("user"),
    }
    return Page("memory.html", "Memory", values, concerns="*")


async def one(view: View, user_id: UserInPath) -> Page:
    """One user: what is kept, what became of what, what comes next and why."""
    memory = memory_of(view.app)
    contexts = await memory.contexts()
    state, text = view.given("state"), view.given("text")
    chosen = None if state is None else choice(State, state, "state")
    page, figures, merges, upkeep, watermarks, found = await asyncio.gather(
        contexts.page(
            Scope(user_id),
            states=() if chosen is None else (chosen,),
            limit=PAGE_SIZE,
            cursor=cursor_of(view.given("cursor")),
        ),
        memory.figures(user_id),
        _merges(memory, user_id),
        _upkeep(view, user_id),
        contexts.watermarks(user_id),
        _found(memory, user_id, text),
    )
    values = {
        "user_id": user_id,
        "contexts": page.contexts,
        "cursor": page.cursor,
        "state": chosen,
        "states": list(State),
        "pills": PILLS,
        "figures": figures,
        "saved": _saved(figures),
        "merges": merges,
        "most_sources": MOST_SOURCES,
        "upkeep": upkeep,
        "watermarks": watermarks,
        "found": found,
        "text": text,
        "commands": _commands(view, user_id),
        "user_url": view.url(f"/memory/{quote_key(user_id)}"),
    }
    return Page("memory_user.html", user_id, values, concerns=MEMORY_COMPRESSION.name, within="memory")


def _saved(figures: Figures) -> int | None:
    """Of a hundred contexts, how many need not be read any more: others say the same."""
    captured = figures.contexts - figures.results
    stands = figures.contexts - figures.merged
    return None if captured <= 0 else max(0, round(100 * (1 - stands / captured)))


async def _merges(memory: Memory, user_id: str) -> list[Lineage]:
    """The latest results, each with its sources: before and after."""
    contexts = await memory.contexts()
    page = await contexts.page(Scope(user_id), only_results=True, limit=MERGES)
    sources = await asyncio.gather(
        *(contexts.sources(user_id, result.id, limit=MOST_SOURCES) for result in page.contexts)
    )
    return [Lineage(result, some) for result, some in zip(page.contexts, sources, strict=True)]


async def _found(memory: Memory, user_id: str, text: str | None) -> list[Found]:
    return [] if text is None else await memory.search(user_id, text)


async def _upkeep(view: View, user_id: str) -> list[Upkeep]:
    store = await view.store()
    pages = await asyncio.gather(
        *(
            store.find(TaskQuery(task_type=task_type.name, user_id=user_id, limit=MOST_DEVICES))
            for task_type in MEMORY_TYPES
        )
    )
    tasks = [task for page in pages for task in page.items]
    reasons = await asyncio.gather(*(view.app.tasks.explain(task.task_type, key=task.key) for task in tasks))
    return [
        Upkeep(task, waiting.summary, task.scheduled_at, actions.of_task(task))
        for task, waiting in zip(tasks, reasons, strict=True)
    ]


def _commands(view: View, user_id: str) -> list[tuple[str, str]]:
    user, api = shlex.quote(user_id), f"/api/memory/{quote_key(user_id)}"
    return [
        (f"rota memory ls {user}", view.call("GET", f"{api}/contexts")),
        (f"rota memory search {user} TEXT", view.call("GET", f"{api}/search?text=TEXT")),
        (f"rota memory compress {user}", ""),
        (f"rota memory stats {user}", view.call("GET", f"{api}/stats")),
    ]


PAGES: Final = Pages(
    menu=(MenuEntry("memory", "/memory", "Memory", "m", Role.VIEWER, "Work"),),
    shown=(("/memory", show, Role.VIEWER), ("/memory/{user_id}", one, Role.OPERATOR)),
    templates="rota.memory.faces",
)
