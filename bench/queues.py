"""Who is measured, on which server, and with how much work: rates are per second, so slow ones get less of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bench.environments import OWN

__all__ = [
    "BULLMQ",
    "CASES",
    "OWN_QUEUES",
    "PYTHON_PEERS",
    "QUEUES",
    "ROTA_ON_REDIS",
    "ROTA_ON_SQLITE",
    "Queue",
    "Server",
]

CASES: Final = ("work", "sleepers", "latency", "burst", "idle")
LATENCY_TASKS: Final = 1_000
BURST_TASKS: Final = 10_000


class Server(StrEnum):
    MEMORY = "memory"
    SQLITE = "SQLite"
    POSTGRESQL = "PostgreSQL"
    REDIS = "Redis"


@dataclass(frozen=True)
class Queue:
    """One queue on one server."""

    name: str
    server: Server
    module: str
    environment: str = "peers"
    tasks: int = 5_000
    """How many no-ops it enqueues and runs."""
    cases: tuple[str, ...] = CASES

    @property
    def is_rota(self) -> bool:
        return self.environment == OWN

    def count(self, case: str) -> int:
        """How many tasks the case has for this queue."""
        match case:
            case "work":
                return self.tasks
            case "sleepers":
                return max(500, self.tasks // 4)
            case "latency":
                return LATENCY_TASKS
            case "burst":
                return BURST_TASKS
            case _:
                return 1


def _rota(server: Server, tasks: int) -> Queue:
    return Queue(f"rota on {server}", server, "bench.rota_peer", OWN, tasks)


def _pair(server: Server, tasks: int) -> Queue:
    return Queue(f"rota on {server}, 2 processes", server, "bench.rota_pair", OWN, tasks, ("work",))


def _peer(name: str, server: Server = Server.REDIS, *, tasks: int = 5_000, cases: tuple[str, ...] = CASES) -> Queue:
    environment = "arq" if name == "arq" else "peers"
    return Queue(name, server, f"bench.peers.{name}_peer", environment, tasks, cases)


_WITHOUT_BURST: Final = ("work", "sleepers", "latency", "idle")
"""For rq, which would run ten thousand for a minute, and for those that do not enqueue so many delayed ones in ten
seconds on a busy machine. The page says that they had no turn."""

ROTA_ON_REDIS: Final = _rota(Server.REDIS, 30_000)
ROTA_ON_SQLITE: Final = _rota(Server.SQLITE, 20_000)
OWN_QUEUES: Final = (
    _rota(Server.MEMORY, 20_000),
    ROTA_ON_SQLITE,
    _rota(Server.POSTGRESQL, 10_000),
    ROTA_ON_REDIS,
    _pair(Server.SQLITE, 6_000),
    _pair(Server.POSTGRESQL, 6_000),
    _pair(Server.REDIS, 10_000),
)
PYTHON_PEERS: Final = (
    _peer("arq"),
    _peer("saq", tasks=3_000),
    _peer("streaq"),
    _peer("taskiq"),
    _peer("dramatiq"),
    _peer("docket", tasks=3_000),
    _peer("rq", tasks=500, cases=_WITHOUT_BURST),
    _peer("celery", tasks=2_000, cases=_WITHOUT_BURST),
    _peer("procrastinate", Server.POSTGRESQL, tasks=2_000, cases=_WITHOUT_BURST),
    _peer("huey", Server.SQLITE, tasks=5_000),
)
BULLMQ: Final = Queue("bullmq", Server.REDIS, "bullmq", "node", ROTA_ON_REDIS.tasks)
QUEUES: Final = (*OWN_QUEUES, *PYTHON_PEERS, BULLMQ)
