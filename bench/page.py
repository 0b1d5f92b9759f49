"""`docs/benchmarks.md` and its charts, written from the JSON of one measurement."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench import report
from bench.charts import Bar, bar_chart
from bench.environments import ROOT
from bench.figures import FIGURES, Figure, shown
from bench.queues import OWN_QUEUES
from bench.results import Results

__all__ = ["JSON_FILE", "page_of", "write_page"]

CHARTS: Final = ROOT / "docs" / "benchmarks"
JSON_FILE: Final = CHARTS / "results.json"
_PAGE: Final = ROOT / "docs" / "benchmarks.md"
_DRAWN: Final = ("schedule", "run", "sleepers", "latency_p50_ms", "latency_p99_ms", "burst_done_s")
_OWN: Final = frozenset(queue.name for queue in OWN_QUEUES)


def write_page(results: Results) -> list[Path]:
    """Write the page and the charts; what was written."""
    CHARTS.mkdir(parents=True, exist_ok=True)
    _PAGE.write_text(page_of(results), encoding="utf-8")
    drawn = [figure for figure in FIGURES if figure.name in _DRAWN]
    return [_PAGE, *(_write_chart(results, figure) for figure in drawn)]


def _write_chart(results: Results, figure: Figure) -> Path:
    path = CHARTS / f"{figure.name}.svg"
    better = "more" if figure.more_is_better else "less"
    chart = bar_chart(figure.title, f"{figure.explained} ({better} is better)", _bars(results, figure))
    path.write_text(chart, "utf-8")
    return path


def _bars(results: Results, figure: Figure) -> list[Bar]:
    found = [(row.queue, row.figures[figure.name]) for row in results.rows if figure.name in row.figures]
    found.sort(key=lambda one: one[1].median, reverse=figure.more_is_better)
    return [
        Bar(name, one.median, one.low, one.high, shown(one.median, figure), is_own=name in _OWN) for name, one in found
    ]


def page_of(results: Results) -> str:
    parts = (_opening(results), _figures(results), _limits(results), _configured(results), [_again()])
    return "\n\n".join(one for part in parts for one in part) + "\n"


def _opening(results: Results) -> Iterable[str]:
    rounds = ", ".join(f"{case} {many}" for case, many in results.rounds.items())
    yield "# Benchmarks"
    yield "This page is written by `make bench PARTS=peers` from what it measured; nobody edits it."
    yield (
        f"Measured on {results.measured_on}: {results.machine}. All queues did the same work in one run, one after the"
        " other in every round, on the same servers, emptied between turns. Figures are medians, with the lowest and"
        f" the highest round beside them (rounds: {rounds}). Compare figures of one run only: machines differ, and this"
        " one is shared."
    )


def _figures(results: Results) -> Iterable[str]:
    yield "## How many times"
    yield report.ratio_table(results)
    yield "## Figures"
    yield "\n".join(f"- **{figure.title}**: {figure.explained}." for figure in FIGURES)
    yield report.figure_table(results)
    yield "\n".join(f"![{name}](benchmarks/{name}.svg)" for name in _DRAWN)
    yield _caveats(results)
    missing = report.shortfalls(results)
    if missing:
        yield "Not measured:"
        yield "\n".join(f"- {one}" for one in missing)


def _caveats(results: Results) -> str:
    """What makes these figures less than the whole truth, beside them and not in a note elsewhere."""
    not_given = ", ".join(report.without_turn(results)) or "none"
    caveats = (
        "`run` and `sleepers` count from the first job that ran: no worker's start is in them.",
        "Slow queues had fewer tasks.",
        "Queues that take one job a call had 200 callers, Rota 1,000; nobody searched for the best number.",
        "The best peer of a figure may be on another server, without keys, or in bulk.",
        f"Not given the burst, and so in none of its ratios: {not_given}.",
        "The burst and the idle worker were measured in one round: they have no spread.",
    )
    return "Read them with this in mind:\n\n" + "\n".join(f"- {one}" for one in caveats)


def _limits(results: Results) -> Iterable[str]:
    yield "## The limit beside each figure"
    yield (
        "What this machine does with nothing of Rota in between, measured once, after the rounds. A share above 100%"
        " says that the machine was busier then than during the rounds: that limit is not one."
    )
    yield report.limit_table(results)
    yield "## After a kill"
    yield "Rota's are measured; those of the others are what their documentation says of the default settings."
    yield report.recovery_table(results)
    if results.pending:
        yield "## A million waiting tasks"
        yield "Tasks of user, device and agent without a payload; a claim takes 50 of them."
        yield report.pending_table(results)
    yield "## Next fires of schedules"
    yield "100,000 cron schedules of five kinds in one zone (a tenth of them for the others), made already."
    yield report.fires_table(results)


def _configured(results: Results) -> Iterable[str]:
    yield "## How each was configured"
    yield (
        "Each with the fast options of its documentation; asyncio queues run on uvloop, and look for garbage as seldom"
        " as `rota worker` does. Rota gives up no promise for speed: every end of a run is in the store, with its run"
        " log, before the clock stops; the others' clocks stop"
        " when the last job has run, acknowledged or not."
    )
    yield "\n".join(f"- **{row.queue}** {row.version}, {row.tasks:,} tasks: {row.settings}." for row in results.rows)
    cannot = [f"- {row.queue}, {what}: {why}." for row in results.rows for what, why in row.cannot.items()]
    if cannot:
        yield "What some of them have no way to do:"
        yield "\n".join(cannot)


def _again() -> str:
    return (
        "## Run it again\n\n"
        "```sh\n"
        "make bench PARTS=peers            # all of this; sets up what it needs below build/, about 17 minutes\n"
        "make bench PARTS=scale            # a thousand to a million waiting tasks\n"
        "python -m bench --quick --json    # three figures, less than a minute\n"
        "```"
    )
