"""What a worker does with a subtask: have an agent asked, and wait for the result.

Whatever becomes of the row becomes of the task: done, put back for another try, given up, or no longer wanted. If this
worker dies, the next one finds the row as it is, waits on, and asks nobody twice.
"""

from __future__ import annotations

from typing import Final

from rota.batches.batch import Subtask, SubtaskStatus
from rota.batches.dispatching import Dispatching, TurnKind
from rota.batches.waiting import Waiting
from rota.clock import SECOND
from rota.errors import StoreUnavailable
from rota.runtime.run import Run
from rota.runtime.signals import Discard, Fail, Retry, Snooze

__all__ = ["SubtaskHandler"]

_AGAIN: Final = "2s"
"""After an outage of the database, or while a batch is paused, its turn comes again so soon."""


class SubtaskHandler:
    """The handler of the task type `detail_batch`."""

    def __init__(self, dispatching: Dispatching, waiting: Waiting) -> None:
        self._dispatching = dispatching
        self._waiting = waiting

    async def __call__(self, run: Run) -> str:
        try:
            turn = await self._dispatching.take_turn(run.key)
        except StoreUnavailable:
            raise Snooze(_AGAIN) from None
        match turn.kind:
            case TurnKind.DONE:
                return turn.why
            case TurnKind.OVER:
                raise Discard(turn.why)
            case TurnKind.PAUSED:
                raise Snooze(_AGAIN)
            case TurnKind.WAIT:
                return _answer(await self._waiting.wait(run.key))


def _answer(subtask: Subtask | None) -> str:
    if subtask is None:
        raise Discard("Its batch is no longer there.")
    match subtask.status:
        case SubtaskStatus.DONE:
            return f"{subtask.kept} items."
        case SubtaskStatus.FAILED:
            raise Fail(_said(subtask))
        case SubtaskStatus.CANCELLED:
            raise Discard("Its batch has ended.")
        case _:
            if subtask.wait_ms is not None:
                raise Snooze(subtask.wait_ms / SECOND)
            raise Retry(reason=_said(subtask))


def _said(subtask: Subtask) -> str:
    return f"{subtask.error_class or 'error'}: {subtask.error or 'no result came'}"
