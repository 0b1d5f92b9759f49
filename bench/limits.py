"""What no scheduler on this machine could pass, measured in the same run: Rota is shown as a share of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.limits_asyncio import asyncio_rate, bare_task_rate
from bench.limits_redis import bare_redis
from bench.limits_sql import bare_postgres, bare_sqlite
from bench.peers.measured import run_on_fast_loop
from bench.queues import Server
from bench.side_by_side import Servers
from bench.summary import Row

__all__ = ["Limit", "measure_limits", "share_of"]

TASKS: Final = 10_000


@dataclass(frozen=True)
class Limit:
    """A rate, what it is of, and the figure of Rota that it bounds; none where it is only a yardstick."""

    what: str
    rate: float
    queue: str = ""
    figure: str = ""


def measure_limits(places: Servers) -> list[Limit]:
    return [*_loop_limits(), *_redis_limits(places), *_sql_limits(places)]


def share_of(limit: Limit, rows: Mapping[str, Row]) -> float | None:
    """Rota's figure by the limit's; None where there is nothing to compare."""
    row = rows.get(limit.queue)
    own = None if row is None else row.median(limit.figure)
    return None if own is None else own / limit.rate


def _loop_limits() -> Sequence[Limit]:
    memory = f"rota on {Server.MEMORY}"
    return [
        Limit(
            "asyncio on uvloop: tasks that do nothing, 300 at a time", run_on_fast_loop(bare_task_rate()), memory, "run"
        ),
        Limit("the same under a timeout", run_on_fast_loop(asyncio_rate()), memory, "run"),
    ]


def _redis_limits(places: Servers) -> Sequence[Limit]:
    limits = bare_redis(places, TASKS)
    queue = f"rota on {Server.REDIS}"
    what = "Redis: Rota's own {} calls, replayed over one socket"
    return [
        Limit(what.format("touch"), limits.schedules, queue, "schedule"),
        Limit(what.format("second touch"), limits.touches, queue, "touch"),
        Limit(what.format("claim and settle"), limits.runs, queue, "run"),
    ]


def _sql_limits(places: Servers) -> Sequence[Limit]:
    """A run's two transactions of the same rows, by the bare driver."""
    what = "{}: the rows of a run in bare transactions of the driver"
    with places.place(Server.SQLITE) as url:
        sqlite = bare_sqlite(url.removeprefix("sqlite:///"), TASKS)
    with places.place(Server.POSTGRESQL) as url:
        postgres = bare_postgres(url, TASKS)
    return [
        Limit(what.format("SQLite, synchronous=FULL"), sqlite, f"rota on {Server.SQLITE}", "run"),
        Limit(what.format("PostgreSQL"), postgres, f"rota on {Server.POSTGRESQL}", "run"),
    ]
