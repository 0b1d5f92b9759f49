"""`make bench`: prints what it measured, with the machine's own yardstick beside it."""

from __future__ import annotations

import asyncio
import platform
import sqlite3
import tempfile
from pathlib import Path

from bench.against import compare
from bench.agents import agents
from bench.lists import lists
from bench.scale import scale
from bench.service import service
from bench.throughput import asyncio_rate, measure
from rota.testing.servers import postgres_server


def main() -> None:
    yardstick = asyncio.run(asyncio_rate())
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    print(f"yardstick: {yardstick:,.0f} empty asyncio tasks a second under a timeout")
    print(f"{'store':<24}{'schedule/s':>12}{'touch again/s':>15}{'run/s':>10}{'run : yardstick':>18}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _row("SQLite, synchronous=FULL", f"sqlite:///{root}/rota.db", 20_000, yardstick)
        with postgres_server(root / "postgres", durable=True) as server, server.schema() as schema:
            _row("PostgreSQL 16", schema, 10_000, yardstick)
    compare()
    scale()
    agents()
    lists()
    service()


def _row(name: str, url: str, tasks: int, yardstick: float) -> None:
    rates = asyncio.run(measure(url, tasks))
    ratio = f"1 : {yardstick / rates.runs:.1f}"
    print(f"{name:<24}{rates.schedules:>12,.0f}{rates.touches:>15,.0f}{rates.runs:>10,.0f}{ratio:>18}")


if __name__ == "__main__":
    main()
