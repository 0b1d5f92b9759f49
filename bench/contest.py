"""The part `peers`: all queues side by side, the limits beside them, and the page that says so; and Rota by itself."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from bench import report
from bench.fires import measure_fires
from bench.limits import measure_limits
from bench.page import JSON_FILE, write_page
from bench.queues import OWN_QUEUES, QUEUES, Queue
from bench.recovery import measure_recovery
from bench.results import Results, machine, read_results, today, write_results
from bench.scale import measure_pending, print_pending
from bench.side_by_side import Servers, servers, take_turns
from bench.summary import rows_of

__all__ = ["NotMeasured", "peers", "scale", "throughput"]

ROUNDS: Final = {"work": 3, "sleepers": 3, "latency": 3, "burst": 1, "idle": 1}
T = TypeVar("T")


class NotMeasured(Exception):
    """Something of this part has no figure; the message says what, and why."""


def peers() -> None:
    """Measure all, print it, and write the page."""
    results = _with_the_rest(_measure(QUEUES, ROUNDS))
    _print(results)
    write_results(results, JSON_FILE)
    for path in write_page(results):
        print(f"written: {path.name}")
    _complain(results)


def scale() -> None:
    """A million waiting tasks; the page takes them up, beside the rest that was measured there before."""
    pending = measure_pending()
    print_pending(pending)
    if JSON_FILE.exists():
        results = replace(read_results(JSON_FILE), pending=pending)
        write_results(results, JSON_FILE)
        write_page(results)


def throughput() -> None:
    """Rota by itself on every store, beside the limits."""
    results = _measure(OWN_QUEUES, {"work": 1})
    print(report.figure_table(results))
    print(f"\n{report.limit_table(results)}")
    _complain(results)


def _measure(queues: Sequence[Queue], rounds: dict[str, int]) -> Results:
    failed: dict[str, str] = {}
    with servers(queues) as places:
        where = machine(_redis_version(places))
        rows = rows_of(take_turns(queues, rounds, places))
        limits = _attempt("limits", lambda: measure_limits(places), failed)
    return Results(today(), where, rounds, rows, limits, not_measured=failed)


def _with_the_rest(results: Results) -> Results:
    """With what is of Rota alone, or needs no server: kills and next fires."""
    failed = dict(results.not_measured)
    return replace(
        results,
        recoveries=_attempt("recovery", measure_recovery, failed),
        fires=_attempt("fires", measure_fires, failed),
        not_measured=failed,
    )


def _attempt(part: str, measure: Callable[[], list[T]], failed: dict[str, str]) -> list[T]:
    """What goes wrong in one part is told with the others' figures, and ends none of them."""
    print(f"measuring: {part}", file=sys.stderr, flush=True)
    try:
        return measure()
    except Exception as error:
        traceback.print_exc()
        failed[part] = repr(error)[:300]
        return []


def _redis_version(places: Servers) -> str:
    return str(cast("dict[str, object]", places.redis.ask("INFO", "server"))["redis_version"])


def _print(results: Results) -> None:
    for shown in report.TABLES:
        print(f"{shown(results)}\n")


def _complain(results: Results) -> None:
    missing = report.shortfalls(results)
    if missing:
        raise NotMeasured("; ".join(missing))
