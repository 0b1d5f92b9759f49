"""Everything at a glance: does it work, how fast, how late, what waits, what fails."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rota.app.overview import Overview, overview
from rota.clock import Instant
from rota.dashboard import actions, words
from rota.dashboard.charts import nice_top, powers_up_to
from rota.dashboard.over_time import columns_of, lateness, per_column, throughput, worst
from rota.dashboard.pages.failures import rows_of
from rota.dashboard.view import Page, View
from rota.errors import InvalidInput
from rota.part import Attention
from rota.stores.base import Failures

__all__ = ["Concern", "concerns_of", "show"]

WINDOWS: Final = (30, 60, 180, 720)
"""Minutes to choose from."""
MOST_FAILURES: Final = 6
MOST_NAMED: Final = 3
"""Subjects of one kind of alert that stand in the bar."""


@dataclass(frozen=True)
class Concern:
    """All of one kind that a person should look at, as one."""

    items: Sequence[Attention]

    @property
    def title(self) -> str:
        return self.items[0].title

    @property
    def path(self) -> str:
        return self.items[0].path

    @property
    def count(self) -> int:
        return len(self.items)

    @property
    def words(self) -> str:
        """What is the matter, in few words: the first subjects with how much it is now, or the sentence itself."""
        named = [f"{one.subject} {one.value}".strip() for one in self.items if one.subject]
        if not named:
            return self.items[0].text
        more = f" and {len(named) - MOST_NAMED:,} more" if len(named) > MOST_NAMED else ""
        return ", ".join(named[:MOST_NAMED]) + more


def concerns_of(attention: Sequence[Attention]) -> list[Concern]:
    """What needs a look, each kind once; of which there are most, first."""
    groups: defaultdict[tuple[str, str], list[Attention]] = defaultdict(list)
    for one in attention:
        groups[one.title, one.path].append(one)
    return sorted(map(Concern, groups.values()), key=lambda each: (-each.count, each.title))


async def show(view: View) -> Page:
    minutes = _minutes(view.given("minutes"))
    store = await view.store()
    seen, records, attention, failures = await asyncio.gather(
        overview(view.app, minutes), view.app.types(), view.app.host.attention(), store.failures()
    )
    columns = columns_of(seen.per_minute)
    top = nice_top(max([1, *(success + failed + aside for _, success, failed, aside, *_ in columns)]))
    powers = powers_up_to(worst(column[5] for column in columns))
    return Page(
        "overview.html",
        "Overview",
        {
            "seen": seen,
            "minutes": minutes,
            "windows": WINDOWS,
            "health": _health(seen),
            "concerns": concerns_of(attention),
            "actions_of": {record.task_type.name: actions.of_type(record) for record in records},
            "records": {record.task_type.name: record for record in records},
            "throughput": throughput(view, columns, top),
            "per_column": per_column(-(-minutes // len(columns))),
            "top": top,
            "lateness": lateness(view, columns, powers),
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


def _latest(failures: Sequence[Failures], now: Instant) -> list[Failures]:
    """Groups that somebody wants to hear of, the one seen last first."""
    return [found for found in failures if not found.group.is_muted(now)][:MOST_FAILURES]


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
