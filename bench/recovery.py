"""Kill -9 of a worker in mid-task, with the settings that everybody begins with: how long until another one runs it."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.queues import ROTA_ON_REDIS, ROTA_ON_SQLITE, Server
from bench.side_by_side import Servers, servers
from chaos import scenarios

__all__ = ["Recovery", "measure_recovery"]

VICTIMS = 5


@dataclass(frozen=True)
class Recovery:
    """Seconds from the kill until the work ran elsewhere."""

    queue: str
    kills: int
    p50: float
    longest: float


def measure_recovery() -> list[Recovery]:
    with servers([ROTA_ON_REDIS, ROTA_ON_SQLITE]) as places:
        return [_recovery(server, places) for server in (Server.REDIS, Server.SQLITE)]


def _recovery(server: Server, places: Servers) -> Recovery:
    with places.place(server) as url, tempfile.TemporaryDirectory(dir=places.folder) as folder:
        kills = asyncio.run(scenarios.kills(url, Path(folder), rounds=1, victims=VICTIMS))
    return Recovery(f"rota on {server}", len(kills.recoveries), kills.percentile(0.5), max(kills.recoveries))
