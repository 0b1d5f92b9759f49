"""Everything at a glance: does it work, how fast, how late, what waits, what fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from rota.app.overview import MinuteView, Overview, overview
from rota.clock import Instant, Millis
from rota.dashboard import actions, words
from rota.dashboard.charts import Stack, bars, lines, log_height, nice_top, powers_up_to
from rota.dashboard.pages.failures import rows_of
from rota.dashboard.view import Page, View
from rota.errors import InvalidInput
from rota.stores.base import Failures

__all__ = ["show"]

WINDOWS: Final = (30, 60, 180, 720)
"""Minutes to choose from."""
MOST_COLUMNS: Final = 60
MOST_FAILURES: Final = 6


async def show(view: View) -> Page:
    minutes = _minutes(view.given("minutes"))
    store = await view.store()
    seen, records, attention, failures = await asyncio.gather(
        overview(view.app, minutes), view.app.types(), view.app.host.attention(), store.failures()
    )
    columns = _columns(seen.per_minute)
    top = nice_top(max([1, *(success + failed + aside for _, success, failed, aside, *_ in columns)]))
    powers = powers_up_to(_worst(column[5] for column in columns))
    return Page(
        "overview.html",
        "Overview",
        {
            "seen": seen,
            "minutes": minutes,
            "windows": WINDOWS,
            "health": _health(seen),
            "attention": attention,
            "actions_of": {record.task_type.name: actions.of_type(record) for record in records},
            "records": {record.task_type.name: record for record in records},
            "throughput": _throughput(view, columns, top),
            "per_column": _per_column(-(-minutes // len(columns))),
            "top": top,
            "lateness": _lateness(view, columns, powers),
            "late_axis": [words.span(10**power) for power in range(powers, -1, -1)],
            "first_at": columns[0][0],
            "failures": rows_of(view, _latest(failures, view.now)),
            "reasons": list(seen.reasons.items())[:8],
            "most_reasons": max([1, *seen.reasons.values()]),
            "oldest": max(seen.types, key=lambda one: one.oldest_pending_ms, default=None),
        },
        concerns="*",
    )


def _minutes(given: str | None) -> int:
    if given is None:
        return 60
    if not (given.isascii() and given.isdigit() and int(given[:6]) in WINDOWS):
        raise InvalidInput(f"The overview shows {', '.join(map(str, WINDOWS))} minutes, not {given[:20]!r}.")
    return int(given)


_Column = tuple[int, int, int, int, Millis | None, Millis | None]


def _columns(per_minute: Sequence[MinuteView]) -> list[_Column]:
    """At most so many columns as can be told apart: minutes are put together if there are more."""
    step = -(-len(per_minute) // MOST_COLUMNS)
    groups = [per_minute[start : start + step] for start in range(0, len(per_minute), step)]
    return [
        (
            group[0].start_at,
            sum(minute.success for minute in group),
            sum(minute.failed for minute in group),
            sum(minute.set_aside for minute in group),
            _worst(minute.late_p50_ms for minute in group),
            _worst(minute.late_p99_ms for minute in group),
        )
        for group in groups
    ]


def _latest(failures: Sequence[Failures], now: Instant) -> list[Failures]:
    """Groups that somebody wants to hear of, the one seen last first."""
    return [found for found in failures if not found.group.is_muted(now)][:MOST_FAILURES]


def _per_column(minutes: int) -> str:
    return "per minute" if minutes == 1 else f"per {minutes} minutes"


def _worst(values: Iterable[Millis | None]) -> Millis | None:
    return max((value for value in values if value is not None), default=None)


def _throughput(view: View, columns: Sequence[_Column], top: int) -> Markup:
    stacks = [
        Stack(
            (("success", success), ("error", failed), ("aside", aside)),
            f"{view.clock(at)}: {success:,} succeeded, {failed:,} failed, {aside:,} cancelled or discarded",
        )
        for at, success, failed, aside, _, _ in columns
    ]
    total = sum(success + failed + aside for _, success, failed, aside, _, _ in columns)
    return bars(stacks, top, f"runs over time, {total:,} in all")


def _lateness(view: View, columns: Sequence[_Column], powers: int) -> Markup:
    said = [
        f"{view.clock(at)}: half within {words.span(p50)}, 99 of 100 within {words.span(p99)}"
        if p99 is not None
        else f"{view.clock(at)}: nothing ran"
        for at, *_, p50, p99 in columns
    ]
    series = [
        (kind, [None if column[place] is None else log_height(column[place], powers) for column in columns])
        for kind, place in (("p99", 5), ("p50", 4))
    ]
    return lines(series, said, "lateness over time")


def _health(seen: Overview) -> list[tuple[str, str]]:
    """What is wrong, as (how bad, sentence); nothing if all is well."""
    found: list[tuple[str, str]] = []
    alive = [one for one in seen.instances if not one.is_silent]
    waiting = sum(one.pending + one.running for one in seen.types)
    if not alive and waiting:
        found.append(
            ("bad", f"No instance is running, and {words.count(waiting, 'task')} waiting. Start one: rota worker")
        )
    silent = len(seen.instances) - len(alive)
    if silent:
        found.append(("warn", f"{words.count(silent, 'instance')} went silent; their tasks run elsewhere."))
    found += [
        (
            "warn",
            f"{one.task_type} has {one.pending:,} pending of {one.max_pending:,}: new work is refused at the limit.",
        )
        for one in seen.types
        if one.pending >= 0.9 * one.max_pending
    ]
    handled = {name for one in alive for name in one.types}
    orphans = [one.task_type for one in seen.types if one.oldest_pending_ms and one.task_type not in handled and alive]
    if orphans:
        found.append(("warn", f"No instance has a handler for {', '.join(orphans[:5])}, and tasks are due."))
    return found
