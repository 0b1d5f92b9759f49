"""What a transaction does last, however early it is known.

Whoever takes a lock that everybody wants takes it here, just before the commit: it is held for a moment, and nobody who
holds it waits for anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Engine, event

__all__ = ["LastSteps"]

_STEPS: Final = "rota last steps"
"""Where a connection keeps what is still to be done in its transaction."""


class LastSteps:
    """For the connections of some engines, whoever uses them."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        for engine in engines:
            event.listen(engine, "commit", _take)
            event.listen(engine, "checkin", _forget)

    @staticmethod
    def add(connection: Connection, name: str, step: Callable[[Connection], object]) -> None:
        """Do this before the transaction is committed; once, however often it is asked for under one name."""
        connection.info.setdefault(_STEPS, {})[name] = step


def _take(connection: Connection) -> None:
    for step in connection.info.pop(_STEPS, {}).values():
        step(connection)


def _forget(_connection: Any, record: Any) -> None:
    """It was rolled back."""
    record.info.pop(_STEPS, None)
