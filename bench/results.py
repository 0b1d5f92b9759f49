"""One whole measurement as JSON, and back: the page and the charts are made from it, so they say what was measured."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.fires import FireRate
from bench.limits import Limit
from bench.recovery import Recovery
from bench.summary import Row, Spread

__all__ = ["Results", "machine", "read_results", "write_results"]


@dataclass(frozen=True)
class Results:
    measured_on: str
    machine: str
    rounds: dict[str, int]
    rows: list[Row]
    limits: list[Limit] = field(default_factory=list[Limit])
    recoveries: list[Recovery] = field(default_factory=list[Recovery])
    fires: list[FireRate] = field(default_factory=list[FireRate])
    not_measured: dict[str, str] = field(default_factory=dict[str, str])
    """Parts that failed as a whole, with the reason."""

    def row(self, queue: str) -> Row | None:
        return next((row for row in self.rows if row.queue == queue), None)


def machine(redis_version: str) -> str:
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()},"
        f" SQLite {sqlite3.sqlite_version}, Redis {redis_version}; load {os.getloadavg()[0]:.1f} at the start"
    )


def today() -> str:
    return time.strftime("%d %B %Y", time.gmtime())


def write_results(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")


def read_results(path: Path) -> Results:
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    lists: dict[str, Any] = {"limits": Limit, "recoveries": Recovery, "fires": FireRate}
    made = {name: [kind(**one) for one in said[name]] for name, kind in lists.items()}
    return Results(**{**said, **made, "rows": _rows(said["rows"])})


def _rows(said: Sequence[dict[str, Any]]) -> list[Row]:
    return [Row(**{**row, "figures": {name: Spread(**one) for name, one in row["figures"].items()}}) for row in said]
