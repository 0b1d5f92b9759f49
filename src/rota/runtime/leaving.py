"""What a run that is over leaves: the group that its failure belongs to, and its details.

A success that has said nothing leaves nothing, and nothing is done for it here.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from rota.clock import Millis
from rota.codec import to_json
from rota.core.failure import Failure, failure_of_reason, normalised
from rota.core.run_details import NO_DETAILS
from rota.core.task import Task, Transition
from rota.masking import masker
from rota.runtime.details import as_kept, fitting
from rota.runtime.raised import Raised, raised_by, where_it_is
from rota.runtime.run import decode_payload
from rota.runtime.running import Running
from rota.runtime.signals import Signal
from rota.runtime.verdict import StopCause, Verdict
from rota.stores.base import MAX_TEXT

__all__ = ["Left", "left_by", "left_so_far"]

MAX_PAYLOAD: Final = 8_192
"""Characters of a payload that is kept with a failed run; a longer one is only at its task, for as long as that is."""
_FAILURES: Final = frozenset({Transition.RETRY, Transition.FAIL})


class Left(NamedTuple):
    """What goes with the end of a run."""

    error: str | None
    failure: str | None = None
    details: str | None = None


def left_by(running: Running, verdict: Verdict) -> Left:
    """What a run leaves that ended like this."""
    has_failed = verdict.transition in _FAILURES
    if not has_failed:
        return Left(verdict.error, None, None if running.details is None else left_so_far(running))
    error = None if verdict.error is None else as_kept(verdict.error, MAX_TEXT)
    raised = _raised(running)
    running.failure = _failure_of(raised, verdict, error)
    details = NO_DETAILS if running.details is None else running.details.gathered()
    details = replace(
        details,
        exception=None if raised is None else raised.kind,
        place=None if raised is None else raised.place or None,
        traceback=None if raised is None else _text(raised.traceback),
        payload=_payload(running.task),
    )
    return Left(error, running.failure.id, fitting(details, _waited_ms(running)))


def left_so_far(running: Running) -> str | None:
    """The same of a run that is still under way."""
    return None if running.details is None else fitting(running.details.gathered(), _waited_ms(running))


def _waited_ms(running: Running) -> Millis:
    return max(0, round((running.started - running.claimed_since) * 1_000))


def _raised(running: Running) -> Raised | None:
    """What was raised, or where the run was when its time was over."""
    if running.raised is not None:
        return running.raised
    if running.cause is StopCause.TIMEOUT:
        return where_it_is(_frame_of(running.thread), running.stopped_by, "timeout")
    error = running.error
    if isinstance(error, Signal):
        # It asks for something; why it does may stand behind it.
        error = error.__cause__ or error.__context__
    return None if error is None else raised_by(error)


def _frame_of(thread: int | None) -> FrameType | None:
    """Where a thread is now."""
    if thread is None:
        return None
    return sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # there is no other way


def _failure_of(raised: Raised | None, verdict: Verdict, error: str | None) -> Failure:
    if raised is None or not raised.kind:
        return failure_of_reason(verdict.reason or "error", error or "")
    if raised.kind == "timeout":
        return Failure("timeout", raised.place, "")
    return Failure(raised.kind, raised.place, normalised(masker().text(raised.message)))


def _text(text: str) -> str | None:
    return as_kept(text, len(text)) if text else None


def _payload(task: Task) -> str | None:
    if task.payload is None or len(task.payload) > MAX_PAYLOAD:
        return None
    try:
        return to_json(masker().value(decode_payload(task))).decode()
    except (ValueError, TypeError, msgspec.MsgspecError):
        return None
