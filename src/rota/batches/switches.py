"""The way back, for operators: stop taking batches on, or ask for each in one call, without subtasks.

freeze    nothing new is taken on; what is there goes on, to its end (`drain` waits for that)
degrade   what comes is one large call each, without subtasks, until the trouble is over
restore   both are taken back
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, select

from rota.clock import Instant
from rota.database.tables.batches import batch_switches
from rota.database.upsert import insert_new

__all__ = ["DEGRADED", "FROZEN", "restore", "switch_on", "switches_on"]

FROZEN: Final = "frozen"
DEGRADED: Final = "degraded"

_ON: Final = select(batch_switches.c.name)


def switches_on(connection: Connection) -> frozenset[str]:
    """Those that somebody has set."""
    return frozenset(connection.execute(_ON).scalars())


def switch_on(connection: Connection, name: str, by: str, now: Instant) -> None:
    """Set one; again is harmless."""
    connection.execute(insert_new(connection, batch_switches), {"name": name, "by": by, "at": now})


def restore(connection: Connection) -> frozenset[str]:
    """Take all of them back; which those were."""
    found = switches_on(connection)
    connection.execute(delete(batch_switches))
    return found
