"""One whole measurement as JSON, and back: the page and the charts are made from it, so they say what was measured."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench.fires import FireRate
from bench.limits import Limit
from bench.recovery import Recovery
from bench.scale import Pending
from bench.summary import Row

__all__ = ["Results", "machine", "read_results", "today", "write_results"]


@dataclass(frozen=True)
class Results:
    measured_on: str
    machine: str
    rounds: dict[str, int]
    rows: list[Row]
    limits: list[Limit] = field(default_factory=list[Limit])
    recoveries: list[Recovery] = field(default_factory=list[Recovery])
    fires: list[FireRate] = field(default_factory=list[FireRate])
    pending: list[Pending] = field(default_factory=list[Pending])
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
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def read_results(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)
