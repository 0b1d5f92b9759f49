"""`make bench`: prints what it measures, part by part, with how long each took.

`python -m bench throughput service` measures these parts only. Exits with 1 if a part could not be measured, after
the others have been.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.against import compare
from bench.agents import agents
from bench.batches import batches
from bench.events import events
from bench.hops import hops
from bench.lists import lists
from bench.memory import memory
from bench.scale import scale
from bench.service import service
from bench.throughput import asyncio_rate, measure
from rota.testing.servers import postgres_server


def throughput() -> None:
    """Schedules, touches and runs a second on the SQL stores; Redis has its row among the peers."""
    yardstick = asyncio.run(asyncio_rate())
    print(f"yardstick: {yardstick:,.0f} empty asyncio tasks a second under a timeout")
    print(f"{'store':<24}{'schedule/s':>12}{'touch again/s':>15}{'run/s':>10}{'run : yardstick':>18}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _row("SQLite, synchronous=FULL", f"sqlite:///{root}/rota.db", 20_000, yardstick)
        with postgres_server(root / "postgres", durable=True) as server, server.schema() as schema:
            _row("PostgreSQL 16", schema, 10_000, yardstick)


def _row(name: str, url: str, tasks: int, yardstick: float) -> None:
    rates = asyncio.run(measure(url, tasks))
    ratio = f"1 : {yardstick / rates.runs:.1f}"
    print(f"{name:<24}{rates.schedules:>12,.0f}{rates.touches:>15,.0f}{rates.runs:>10,.0f}{ratio:>18}", flush=True)


PARTS: Mapping[str, Callable[[], None]] = {
    "throughput": throughput,
    "peers": compare,
    "scale": scale,
    "lists": lists,
    "service": service,
    "memory": memory,
    "agents": agents,
    "hops": hops,
    "events": events,
    "batches": batches,
}
"""What there is to measure, in the order in which it is."""


def main(arguments: Sequence[str]) -> int:
    unknown = sorted(set(arguments) - set(PARTS))
    if unknown:
        print(f"There is no part {unknown[0]!r} to measure. Choose among: {', '.join(PARTS)}.")
        return 2
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()},"
        f" {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    failed = [name for name in arguments or PARTS if not _is_measured(name)]
    if failed:
        print(f"\nNot measured: {', '.join(failed)}. The reason stands above.")
    return 1 if failed else 0


def _is_measured(name: str) -> bool:
    """Measure one part, with how long that took; what is wrong with it does not keep the others from their turn."""
    print(f"\n== {name} ==", flush=True)
    started = time.monotonic()
    try:
        PARTS[name]()
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return False
    print(f"({name} took {time.monotonic() - started:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
