"""`python -m bench --quick --json`: the three figures that matter most, in less than a minute, as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bench.queues import BULLMQ, PYTHON_PEERS, ROTA_ON_REDIS, ROTA_ON_SQLITE
from bench.side_by_side import servers, take_turns
from bench.summary import Row, best_of, ratio, rows_of

__all__ = ["is_whole", "quick_json", "quick_lines", "quick_rows"]

_PEERS: Final = tuple(queue for queue in PYTHON_PEERS if queue.name in ("taskiq", "dramatiq"))
QUEUES: Final = (
    replace(ROTA_ON_REDIS, tasks=20_000),
    replace(ROTA_ON_SQLITE, tasks=10_000),
    *(replace(queue, tasks=3_000) for queue in _PEERS),
    replace(BULLMQ, tasks=20_000),
)
ROUNDS: Final = {"work": 1, "latency": 1}
FIGURES: Final = {"schedule": ("schedule", True), "run": ("run", True), "latency_ms": ("latency_p50_ms", False)}
"""What each key shows, and whether more of it is better."""


def quick_rows() -> list[Row]:
    with servers(QUEUES) as places:
        return rows_of(take_turns(QUEUES, ROUNDS, places))


def quick_json(rows: Sequence[Row]) -> dict[str, dict[str, object]]:
    """What is printed: a figure that was not measured is null, and `not_measured` says why."""
    of_queue = {row.queue: row for row in rows}
    return {key: _compared(of_queue, figure, more_is_better) for key, (figure, more_is_better) in FIGURES.items()}


def quick_lines(printed: Mapping[str, Mapping[str, object]]) -> str:
    """The same for people."""
    return "\n".join(
        f"{key}: " + ", ".join(f"{name} {_rounded(value)}" for name, value in compared.items())
        for key, compared in printed.items()
    )


def _rounded(value: object) -> object:
    return f"{value:,.1f}" if isinstance(value, float) else value


def is_whole(printed: Mapping[str, Mapping[str, object]]) -> bool:
    return not any("not_measured" in compared for compared in printed.values())


def _compared(of_queue: Mapping[str, Row], figure: str, more_is_better: bool) -> dict[str, object]:
    peers = [of_queue[queue.name] for queue in _PEERS if queue.name in of_queue]
    best = best_of(peers, figure, more_is_better=more_is_better)
    own, bullmq = (_median(of_queue, queue.name, figure) for queue in (ROTA_ON_REDIS, BULLMQ))
    best_value = None if best is None else best.value
    compared: dict[str, object] = {
        "rota": own,
        "rota_sqlite": _median(of_queue, ROTA_ON_SQLITE.name, figure),
        "best_peer": best_value,
        "peer": None if best is None else best.queue,
        "among": [queue.name for queue in _PEERS],
        "bullmq": bullmq,
        "ratio": ratio(own, best_value, more_is_better=more_is_better),
        "ratio_bullmq": ratio(own, bullmq, more_is_better=more_is_better),
    }
    why = _not_measured(of_queue, figure)
    return {**compared, "not_measured": why} if why else compared


def _median(of_queue: Mapping[str, Row], queue: str, figure: str) -> float | None:
    return of_queue[queue].median(figure) if queue in of_queue else None


def _not_measured(of_queue: Mapping[str, Row], figure: str) -> dict[str, str]:
    """By queue, why this figure is missing."""
    case = "latency" if figure.startswith("latency") else "work"
    missing = [queue.name for queue in QUEUES if _median(of_queue, queue.name, figure) is None]
    return {name: _reason(of_queue.get(name), case) for name in missing}


def _reason(row: Row | None, case: str) -> str:
    if row is None:
        return "had no turn"
    return row.failed.get(case) or row.cannot.get(case) or "told no such figure"
