"""What was measured, as people read it: tables in Markdown, which a terminal shows as well, and ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bench.figures import FIGURES, Figure, shown
from bench.limits import share_of
from bench.queues import BULLMQ, PYTHON_PEERS, ROTA_ON_REDIS
from bench.results import Results
from bench.summary import Row, best_of, ratio

__all__ = [
    "TABLES",
    "figure_table",
    "fires_table",
    "limit_table",
    "pending_table",
    "ratio_table",
    "recovery_table",
    "shortfalls",
    "table",
]

_GROUPS = (
    ("schedule", "touch", "run", "sleepers"),
    ("latency_p50_ms", "latency_p99_ms", "burst_p50_ms", "burst_p99_ms", "burst_done_s"),
    ("python_us", "node_us", "server_us", "idle_commands", "idle_cpu_percent"),
)
"""Figures that stand in one table."""


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown: names to the left, figures to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def figure_table(results: Results) -> str:
    """Median, and the lowest and the highest round below it."""
    return "\n\n".join(_figures(results, [one for one in FIGURES if one.name in group]) for group in _GROUPS)


def _figures(results: Results, figures: Sequence[Figure]) -> str:
    with_any = [row for row in results.rows if any(figure.name in row.figures for figure in figures)]
    head = ["queue", *(figure.title for figure in figures)]
    return table(head, [[row.queue, *(_cell(row, figure) for figure in figures)] for row in with_any])


def _cell(row: Row, figure: Figure) -> str:
    found = row.figures.get(figure.name)
    if found is None:
        return "-"
    reach = "" if found.rounds == 1 else f" ({shown(found.low, figure)}..{shown(found.high, figure)})"
    return shown(found.median, figure) + reach


def ratio_table(results: Results) -> str:
    """How many times better Rota on Redis is; below 1 it is worse."""
    return table(["Rota on Redis is better by", "best Python peer", "ratio", "BullMQ"], _ratios(results))


def _ratios(results: Results) -> Iterable[Sequence[str]]:
    own, bullmq = results.row(ROTA_ON_REDIS.name), results.row(BULLMQ.name)
    peers = [row for row in results.rows if row.queue in {queue.name for queue in PYTHON_PEERS}]
    for figure in FIGURES:
        better = figure.more_is_better
        best = best_of(peers, figure.name, more_is_better=better)
        own_value = None if own is None else own.median(figure.name)
        if best is None or own_value is None:
            continue
        other = None if bullmq is None else bullmq.median(figure.name)
        to_best = ratio(own_value, best.value, more_is_better=better)
        to_bullmq = ratio(own_value, other, more_is_better=better)
        yield figure.title, f"{best.queue} {shown(best.value, figure)}", _times(to_best), _times(to_bullmq)


def _times(found: float | None) -> str:
    return "-" if found is None else f"{found:.1f}"


def limit_table(results: Results) -> str:
    rows = {row.queue: row for row in results.rows}
    lines: list[Sequence[str]] = []
    for limit in results.limits:
        share = share_of(limit, rows)
        own = "-" if share is None else f"{limit.queue}: {limit.figure}, {share:.0%}"
        lines.append((limit.what, f"{limit.rate:,.0f}", own))
    return table(["limit", "a second", "Rota reaches"], lines)


def recovery_table(results: Results) -> str:
    measured = [
        (one.queue, f"p50 {one.p50:.1f} s, longest {one.longest:.1f} s of {one.kills} kills")
        for one in results.recoveries
    ]
    documented = [
        (row.queue, row.recovery) for row in results.rows if row.recovery and not row.queue.startswith("rota")
    ]
    return table(["queue", "after kill -9, by default"], [*measured, *documented])


def fires_table(results: Results) -> str:
    lines = [(one.library, one.failed or f"{one.rate:,.0f}") for one in results.fires]
    return table(["library", "next fires a second"], lines)


def pending_table(results: Results) -> str:
    """What a million waiting tasks change."""
    head = ["store", "bytes a task", "claim at 1,000: p50, p99 ms", "at 1,000,000: p50, p99 ms", "p99 ratio"]
    lines = [
        (
            one.store,
            "-" if one.bytes_a_task is None else f"{one.bytes_a_task:.0f}",
            f"{one.few_p50:.1f}, {one.few_p99:.1f}",
            f"{one.many_p50:.1f}, {one.many_p99:.1f}",
            f"{one.many_p99 / one.few_p99:.2f}",
        )
        for one in results.pending
    ]
    return table(head, lines)


TABLES: Final = (figure_table, ratio_table, limit_table, recovery_table, fires_table, pending_table)
"""All of them, as a terminal shows them."""


def shortfalls(results: Results) -> list[str]:
    """What was not measured, in sentences: parts and queues that failed."""
    parts = [f"{part}: {why}" for part, why in results.not_measured.items()]
    turns = [f"{row.queue}, {case}: {why}" for row in results.rows for case, why in row.failed.items()]
    return [*parts, *turns]


def without_turn(results: Results, figure: str = "burst_done_s", case: str = "burst") -> list[str]:
    """Queues that were not given this case: they are in no ratio of it."""
    return [
        row.queue
        for row in results.rows
        if figure not in row.figures and not {case} & (row.cannot.keys() | row.failed.keys())
    ]
