"""Failures by groups: what fails, how often, for whom and since when; and one group, with what it left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from rota.api.paths import quote_key
from rota.app.failures import FailureInfo, one_failure, those_dead
from rota.clock import HOUR, Instant
from rota.core.failure import FailureGroup
from rota.core.run_details import RunDetails, decode_details
from rota.core.task import RunRecord
from rota.dashboard import actions, words
from rota.dashboard.charts import Bar, Stack, bars, nice_top, spark
from rota.dashboard.pages.lists import PAGE_SIZE, filled, type_names
from rota.dashboard.view import Page, View
from rota.masking import masker
from rota.stores.base import MOST_COUNTED, Failures, RunQuery, RunRef, Store

__all__ = ["FailureRow", "one", "rows_of", "show"]

LATEST_RUNS: Final = 20
HOURS_IN_A_ROW: Final = 24
MUTES: Final = (("1h", "1 hour"), ("4h", "4 hours"), ("1d", "1 day"), ("7d", "7 days"), ("30d", "30 days"))


@dataclass(frozen=True, slots=True)
class FailureRow:
    """A group of failures as a row of a list."""

    group: FailureGroup
    info: FailureInfo
    chart: Markup
    url: str
    actions: Sequence[actions.Action]

    @property
    def said(self) -> str:
        """What went wrong, in a line."""
        return f"{self.info.exception}: {self.info.message}" if self.info.message else self.info.exception

    @property
    def dead(self) -> str:
        """How many wait to be redriven: those beyond the first so many are not counted."""
        return words.number(self.info.dead) + ("+" if self.info.dead >= MOST_COUNTED else "")


def rows_of(view: View, found: Iterable[Failures]) -> list[FailureRow]:
    """The groups as rows, in their order."""
    return [_row(view, each) for each in found]


def _row(view: View, found: Failures) -> FailureRow:
    group = found.group
    info = FailureInfo.of(found, view.now)
    return FailureRow(
        group,
        info,
        _spark(view, group),
        view.url(f"/failures/{quote_key(group.task_type)}/{group.id}"),
        actions.of_failure(group, dead=found.dead, is_muted=group.is_muted(view.now)),
    )


async def show(view: View) -> Page:
    task_type = view.given("type")
    store = await view.store()
    found, names = await asyncio.gather(store.failures(task_type), type_names(view))
    rows = rows_of(view, found)
    heard = [row for row in rows if not row.group.is_muted(view.now)]
    is_muted_shown = view.given("muted") == "shown"
    return Page(
        "failures.html",
        "Failures",
        {
            "rows": [row for row in rows if row not in heard] if is_muted_shown else heard,
            "is_muted_shown": is_muted_shown,
            "muted": len(rows) - len(heard),
            "task_type": task_type,
            "names": names,
            "same": [
                (
                    "rota failures ls" + ("" if task_type is None else f" --type {task_type}"),
                    view.call("GET", view.path("/api/failures", task_type=task_type)),
                )
            ],
        },
        concerns=task_type or "*",
    )


async def one(view: View, task_type: str, failure: str) -> Page:
    store = await view.store()
    found = await one_failure(store, task_type, failure)
    query = RunQuery(task_type=task_type, failure=failure, limit=LATEST_RUNS)
    runs, dead = await asyncio.gather(store.runs(query), filled(store, those_dead(found.group)))
    last = runs.items[0] if runs.items else None
    row = _row(view, found)
    return Page(
        "failure.html",
        row.said,
        {
            "row": row,
            "info": row.info,
            "last": last,
            "details": None if last is None else await _details(store, last),
            "last_error": None if last is None or last.error is None else masker().text(last.error),
            "runs": runs.items,
            "tasks": dead.items[:PAGE_SIZE],
            "actions_of": actions.of_task,
            "mutes": MUTES,
            "chart": _chart(view, found.group),
            "chart_from": found.group.chart(view.now)[0][0],
            "chart_top": _top(view, found.group),
            "same": [
                (f"rota failures show {task_type}/{failure}", view.call("GET", f"/api/failures/{task_type}/{failure}"))
            ],
        },
        concerns=task_type,
        within="failures",
    )


async def _details(store: Store, run: RunRecord) -> RunDetails | None:
    """What the latest run has left: its traceback stands for that of all."""
    (text,) = await store.details([RunRef(run.task_type, run.key, run.token)])
    return None if text is None else decode_details(text)


def _spark(view: View, group: FailureGroup) -> Markup:
    hours = group.chart(view.now, HOURS_IN_A_ROW)
    most = max(1, *(count for _, count in hours))
    drawn = [Bar("error" if count else "blank", count / most, _said(view, at, count)) for at, count in hours]
    total = sum(count for _, count in hours)
    return spark(drawn, HOURS_IN_A_ROW, f"{words.count(total, 'failure')} in the last {HOURS_IN_A_ROW} hours")


def _chart(view: View, group: FailureGroup) -> Markup:
    hours = group.chart(view.now)
    stacks = [Stack((("error", count),), _said(view, at, count)) for at, count in hours]
    total = sum(count for _, count in hours)
    return bars(stacks, _top(view, group), f"{words.count(total, 'failure')} in the last {len(hours)} hours")


def _top(view: View, group: FailureGroup) -> int:
    return nice_top(max(1, *(count for _, count in group.chart(view.now))))


def _said(view: View, at: Instant, count: int) -> str:
    return f"{view.clock(at)[5:16]} to {view.clock(at + HOUR)[11:16]}: {words.count(count, 'failure')}"
