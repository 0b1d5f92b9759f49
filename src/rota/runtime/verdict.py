"""How a run ended, as the store is told: the one place that reads a handler's answer.

Why a run had to stop decides how it is settled:

    timeout      retry, reason timeout, whatever the handler still returned
    cancelled    discard, reason cancelled (the store makes it `cancelled`)
    shutdown     release: unfinished work runs elsewhere, no retry is burned
    fenced       release: the lease could not be renewed, somebody else may own the task by now
    late         release: the claim was too old to begin with, and the handler was never called
    lost         nothing: somebody else does own it

After being told to stop, but not for its timeout or a lost lease, a handler that explicitly returns True, a text or a
dict is taken at its word: the work is done. A bare return is not that: it is what a handler does that looked at
`run.cancelled` and left.
"""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Final

import msgspec

from rota.clock import Millis, format_duration
from rota.codec import to_json
from rota.core.task import Transition
from rota.runtime.signals import Discard, Fail, Retry, Signal, Snooze
from rota.stores.base import MAX_TEXT

__all__ = ["REASONS", "SUCCESS", "StopCause", "Verdict", "after_stop", "of_error", "of_stop", "of_value", "shortened"]

REASONS: Final = frozenset({"error", "timeout", "cancelled", "lost", "poison", "rate_limited", "discarded"})
"""The reason classes: what dashboards and alerts group by."""


class StopCause(StrEnum):
    """Why a run was told to stop before it had ended by itself."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    """Somebody wants the task cancelled."""
    SHUTDOWN = "shutdown"
    LOST = "lost"
    """The store says that the token is stale: somebody else owns the task."""
    FENCED = "fenced"
    """The lease could not be renewed in time, so somebody else may own the task."""
    LATE = "late"
    """Its claim was so old when it was its turn that somebody else may own the task: it was never begun."""


class Verdict(msgspec.Struct, frozen=True):
    """What a settlement says beyond whose it is."""

    transition: Transition
    reason: str | None = None
    error: str | None = None
    result: str | None = None
    after_ms: Millis | None = None
    is_explicit: bool = True
    """False for a bare return, which a handler also makes when it was told to stop and left."""


SUCCESS: Final = Verdict(Transition.COMPLETE)
_BARE: Final = Verdict(Transition.COMPLETE, is_explicit=False)
_FAILED: Final = Verdict(Transition.RETRY, "error", "The handler returned False.")
_RETURNS = "Return True or None (done), False (failed), a text or dict (done, kept), or Retry, Snooze, Fail or Discard."


def of_value(value: object) -> Verdict:
    """What a returned value means."""
    match value:
        case None:
            return _BARE
        case True:
            return SUCCESS
        case False:
            return _FAILED
        case Signal():
            return _of_signal(value)
        case str():
            return Verdict(Transition.COMPLETE, result=shortened(value))
        case dict():
            return _of_dict(value)  # pyright: ignore[reportUnknownArgumentType]  # any dict will do
        case _:
            return _of_nonsense(value)


def of_error(error: BaseException) -> Verdict:
    """What a raised exception means, also one that cannot be read: whatever was raised, the run has an end."""
    try:
        return _of_signal(error) if isinstance(error, Signal) else _of_failure(error)
    except BaseException:  # a signal of the handler's own making may be as broken as the handler
        return Verdict(Transition.RETRY, "error", shortened(f"{type(error).__name__} (it cannot be read)"))


def of_stop(cause: StopCause, timeout_ms: Millis) -> Verdict | None:
    """What becomes of a run that was told to stop; None if there is nothing left to settle."""
    match cause:
        case StopCause.TIMEOUT:
            limit = format_duration(timeout_ms)
            return Verdict(
                Transition.RETRY, "timeout", f"It ran longer than its timeout of {limit}. Raise it, or do less."
            )
        case StopCause.CANCELLED:
            return Verdict(Transition.DISCARD, "cancelled")
        case StopCause.SHUTDOWN:
            return Verdict(Transition.RELEASE)
        case StopCause.FENCED:
            return Verdict(
                Transition.RELEASE, "lost", "The lease could not be renewed: the store did not answer in time."
            )
        case StopCause.LATE:
            return Verdict(
                Transition.RELEASE, "lost", "It was not begun: when it was its turn, its lease had nearly run out."
            )
        case StopCause.LOST:
            return None


def after_stop(verdict: Verdict | None, cause: StopCause, timeout_ms: Millis) -> Verdict | None:
    """What becomes of a run that ended like this (None: by its cancellation) after it was told to stop."""
    is_done = verdict is not None and verdict.transition is Transition.COMPLETE and verdict.is_explicit
    if is_done and cause not in (StopCause.TIMEOUT, StopCause.LOST):
        return verdict
    return of_stop(cause, timeout_ms)


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """The text as a store can keep it: no NUL, no lone surrogate, not too many characters."""
    text = text[:most].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _of_signal(signal: Signal) -> Verdict:
    match signal:
        case Retry():
            reason = signal.reason if signal.reason in REASONS else "error"
            return Verdict(Transition.RETRY, reason, shortened(_described(signal)), after_ms=signal.after_ms)
        case Fail():
            return Verdict(Transition.FAIL, "error", shortened(_described(signal)))
        case Snooze():
            return Verdict(Transition.SNOOZE, after_ms=signal.after_ms)
        case Discard():
            return Verdict(Transition.DISCARD, "discarded", result=shortened(signal.reason))
        case _:
            return _of_failure(signal)


def _of_failure(error: BaseException) -> Verdict:
    return Verdict(Transition.RETRY, "error", shortened(_described(error)))


def _of_dict(value: dict[object, object]) -> Verdict:
    try:
        return Verdict(Transition.COMPLETE, result=shortened(to_json(value).decode()))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        return _of_nonsense(value, f" as JSON ({error})")


def _of_nonsense(value: object, how: str = "") -> Verdict:
    """Nobody knows what it means, and trying again would return the same: a dead letter that says what to change."""
    if inspect.iscoroutine(value):
        value.close()
        return Verdict(
            Transition.FAIL, "error", "The handler returned a coroutine that nobody awaits. Declare it async."
        )
    kind = type(value).__name__
    return Verdict(Transition.FAIL, "error", f"The handler returned a {kind} that is not understood{how}. {_RETURNS}")


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # an exception's own __str__ may be as broken as its handler, and raise what it likes
        text = "(its message cannot be shown)"
    if isinstance(error, Signal):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
