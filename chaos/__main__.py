"""`make chaos`: the promises, measured with the default lease. Exits with 1 if one is broken."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from chaos import scenarios
from rota.testing.servers import postgres_server


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with postgres_server(root / "postgres") as server, server.schema() as schema:
            stores = {"SQLite": f"sqlite:///{root}/rota.db", "PostgreSQL": schema}
            try:
                for name, url in stores.items():
                    asyncio.run(_all(name, url, root / name))
            except scenarios.Broken as error:
                print(f"BROKEN: {error}")
                return 1
    return 0


async def _all(name: str, url: str, folder: Path) -> None:
    for place in ("race", "kills", "freeze"):
        (folder / place).mkdir(parents=True)
    race = await scenarios.race(url, folder / "race", tasks=20_000, workers=3)
    print(
        f"{name}: {race.tasks:,} tasks on {race.workers} processes in {race.seconds:.1f} s, "
        f"each exactly once (shares {race.shares})"
    )
    kills = await scenarios.kills(url, folder / "kills", rounds=4, victims=5)
    print(
        f"{name}: {len(kills.recoveries)} kills -9 in mid-task, lease 10 s: running elsewhere after "
        f"p50 {kills.percentile(0.5):.1f} s, p99 {kills.percentile(0.99):.1f} s, max {max(kills.recoveries):.1f} s"
    )
    freeze = await scenarios.freeze(url, folder / "freeze")
    print(f"{name}: frozen past its lease: {freeze.stale_runs} lost run, {freeze.completed_runs} completed, none twice")


if __name__ == "__main__":
    sys.exit(main())
