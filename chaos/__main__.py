"""`make chaos`: the promises, measured with the default lease. Exits with 1 if one is broken.

`python -m chaos redis` tries one store only: sqlite, postgresql or redis.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from chaos import scenarios
from chaos.storm import storm
from rota.testing.redis_servers import redis_server
from rota.testing.servers import postgres_server

STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "redis": "Redis"}


def main(arguments: Sequence[str]) -> int:
    unknown = sorted(set(arguments) - set(STORES))
    if unknown:
        print(f"There is no store {unknown[0]!r} to try. Choose among: {', '.join(STORES)}.")
        return 2
    try:
        for scheme in arguments or STORES:
            with tempfile.TemporaryDirectory() as folder, _store(scheme, Path(folder)) as url:
                asyncio.run(_all(scheme, url, Path(folder)))
    except scenarios.Broken as error:
        print(f"BROKEN: {error}")
        return 1
    return 0


@contextmanager
def _store(scheme: str, folder: Path) -> Generator[str]:
    if scheme == "sqlite":
        yield f"sqlite:///{folder}/rota.db"
    elif scheme == "postgresql":
        with postgres_server(folder / "postgres") as server, server.schema() as schema:
            yield schema
    else:
        with redis_server(folder / "redis-data") as server:
            yield server.url


async def _all(scheme: str, url: str, folder: Path) -> None:
    name = STORES[scheme]
    for place in ("race", "kills", "freeze", "storm"):
        (folder / place).mkdir(parents=True)
    await _race(name, url, folder / "race")
    await _kills(name, url, folder / "kills")
    freeze = await scenarios.freeze(url, folder / "freeze")
    print(f"{name}: frozen past its lease: {freeze.stale_runs} lost run, {freeze.completed_runs} completed, none twice")
    if scheme == "redis":
        await _storm(name, url, folder / "storm")


async def _race(name: str, url: str, folder: Path) -> None:
    race = await scenarios.race(url, folder, tasks=20_000, workers=3)
    print(
        f"{name}: {race.tasks:,} tasks on {race.workers} processes in {race.seconds:.1f} s, "
        f"each exactly once (shares {race.shares})"
    )


async def _kills(name: str, url: str, folder: Path) -> None:
    kills = await scenarios.kills(url, folder, rounds=4, victims=5)
    print(
        f"{name}: {len(kills.recoveries)} kills -9 in mid-task, lease 10 s: running elsewhere after "
        f"p50 {kills.percentile(0.5):.1f} s, p99 {kills.percentile(0.99):.1f} s, max {max(kills.recoveries):.1f} s"
    )


async def _storm(name: str, url: str, folder: Path) -> None:
    seen = await storm(url, folder)
    print(
        f"{name}: {seen.tasks:,} tasks of 5 types on 4 processes, {seen.kills} kills -9 in {seen.seconds:.0f} s: "
        f"0 lost, 0 twice at once, {seen.stale_writes:,} stale writes all refused, {seen.poisoned} poisoned; "
        f"{len(seen.recoveries)} runs killed in the middle, running elsewhere after "
        f"p50 {seen.percentile(0.5):.1f} s, p99 {seen.percentile(0.99):.1f} s, max {max(seen.recoveries):.1f} s"
    )


if __name__ == "__main__":
    # Line by line, also into a pipe: each scenario takes a minute or two, and silence looks like a hang.
    assert isinstance(sys.stdout, TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
