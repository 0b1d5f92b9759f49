"""The next fires of 100,000 schedules: Rota's triggers beside croniter and APScheduler's."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from typing import Final

from bench.environments import ROOT, EnvironmentAbsent, python_of
from bench.peers.cron_expressions import COUNT, NOW, ZONE, expressions
from bench.side_by_side import run_program
from rota.clock import from_datetime
from rota.triggers import Cron

__all__ = ["FireRate", "measure_fires"]

OTHERS: Final = ("croniter", "apscheduler")


@dataclass(frozen=True)
class FireRate:
    """Next fires a second, of triggers that are made already; or why not."""

    library: str
    rate: float = 0.0
    failed: str = ""


def measure_fires() -> list[FireRate]:
    return [FireRate("rota", _own_rate()), *(_rate_of(library) for library in OTHERS)]


def _own_rate() -> float:
    triggers = [Cron(expression, ZONE) for expression in expressions(COUNT)]
    now = from_datetime(NOW)
    started = time.perf_counter()
    for trigger in triggers:
        assert trigger.next_after(now) is not None
    return COUNT / (time.perf_counter() - started)


def _rate_of(library: str) -> FireRate:
    try:
        said = run_program([str(python_of("peers")), "-m", "bench.peers.cron_rate", library], ROOT)
    except (EnvironmentAbsent, subprocess.SubprocessError) as error:
        return FireRate(library, failed=str(error)[:160])
    return FireRate(library, json.loads(said)["rate"])
