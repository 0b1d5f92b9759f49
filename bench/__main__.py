"""`make bench`: prints what it measures, part by part, with how long each took.

`python -m bench peers service` measures these parts only. `python -m bench --quick --json` prints three figures of Rota
and of the best peers as one JSON object, in less than a minute. Exits with 1 if something could not be measured, after
the rest has been, and with 2 if it was told something that it does not know.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

from bench.agents import agents
from bench.batches import batches
from bench.contest import NotMeasured, peers, scale, throughput
from bench.events import events
from bench.failures import failures
from bench.hops import hops
from bench.lists import lists
from bench.memory import memory
from bench.quick import is_whole, quick_json, quick_lines, quick_rows
from bench.service import service

PARTS: Mapping[str, Callable[[], None]] = {
    "throughput": throughput,
    "peers": peers,
    "scale": scale,
    "lists": lists,
    "service": service,
    "failures": failures,
    "memory": memory,
    "agents": agents,
    "hops": hops,
    "events": events,
    "batches": batches,
}
"""What there is to measure, in the order in which it is."""


def main(arguments: Sequence[str]) -> int:
    try:
        told = _parser().parse_args(arguments)
    except SystemExit as wrong:
        return int(wrong.code or 0)
    if _is_contradictory(told):
        print("Write --quick with or without --json and without parts, or parts alone.", file=sys.stderr)
        return 2
    if told.quick:
        return _quick(as_json=told.json)
    return _measure_parts(told.parts or PARTS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Measure Rota, by itself and beside other queues.")
    parser.add_argument("parts", nargs="*", metavar="PART", type=_part, help=f"among: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="three figures of Rota and the best peers")
    parser.add_argument("--json", action="store_true", help="with --quick: as one JSON object")
    return parser


def _is_contradictory(told: argparse.Namespace) -> bool:
    return bool(told.quick and told.parts) or (told.json and not told.quick)


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"there is no part {name!r} to measure; choose among: {', '.join(PARTS)}")
    return name


def _quick(*, as_json: bool) -> int:
    printed = quick_json(quick_rows())
    print(json.dumps(printed, indent=1) if as_json else quick_lines(printed))
    return 0 if is_whole(printed) else 1


def _measure_parts(names: Sequence[str] | Mapping[str, object]) -> int:
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()},"
        f" {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    failed = [name for name in names if not _is_measured(name)]
    if failed:
        print(f"\nNot measured: {', '.join(failed)}. The reason stands above.")
    return 1 if failed else 0


def _is_measured(name: str) -> bool:
    """Measure one part, with how long that took; what is wrong with it does not keep the others from their turn."""
    print(f"\n== {name} ==", flush=True)
    started = time.monotonic()
    try:
        PARTS[name]()
    except NotMeasured as missing:
        print(f"Not measured: {missing}")
        return False
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
