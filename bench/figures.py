"""What is measured, by the names that the programs use: what it is called, its unit, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FIGURES", "Figure", "shown"]


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    explained: str
    more_is_better: bool = True
    digits: int = 0


FIGURES: Final = (
    Figure("schedule", "schedule/s", "new tasks a second, by key where the queue knows keys"),
    Figure("touch", "touch/s", "the same keys once more"),
    Figure("run", "run/s", "no-ops a second, 300 at a time (8 threads for those that use threads)"),
    Figure("sleepers", "sleepers/s", "tasks that sleep for 1 ms, 100 at a time"),
    Figure(
        "latency_p50_ms", "late p50 ms", "delayed tasks at 500 a second: due to start", more_is_better=False, digits=1
    ),
    Figure("latency_p99_ms", "late p99 ms", "the same", more_is_better=False, digits=1),
    Figure("burst_p50_ms", "burst p50 ms", "10,000 due within one second: due to start", more_is_better=False),
    Figure("burst_p99_ms", "burst p99 ms", "the same", more_is_better=False),
    Figure(
        "burst_done_s",
        "burst done s",
        "the same: from the first due time until all ran",
        more_is_better=False,
        digits=2,
    ),
    Figure("python_us", "Python us/run", "CPU of the worker process a run", more_is_better=False),
    Figure("node_us", "Node us/run", "the same of BullMQ", more_is_better=False),
    Figure("server_us", "Redis us/run", "CPU of the Redis server a run", more_is_better=False),
    Figure(
        "idle_commands",
        "idle cmd/s",
        "commands a second that an idle worker sends to Redis",
        more_is_better=False,
        digits=1,
    ),
    Figure("idle_cpu_percent", "idle CPU %", "CPU of an idle worker", more_is_better=False, digits=2),
)


def shown(value: float, figure: Figure) -> str:
    return f"{value:,.{figure.digits}f}"
