"""What becomes of an event at a consumer: pure rules, over what its row in the inbox says.

    started   an instance has it, for as long as its lease
    done      its effect is committed: nothing is done again
    retrying  it has failed, or waits behind one of its key that has; tried from the inbox, the bus has done its part
    dead      given up: its attempts are used up, it can never succeed, or it has ended its process three times

A start counts as a crash until it has an end: so an event that ends its process is found out by nothing but its row.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

from rota.clock import Instant, Millis, parse_duration
from rota.core.lifecycle import MAX_CRASHES, SUSPECT_CRASHES
from rota.core.retry import back_off
from rota.core.task_type import RetryPolicy
from rota.runtime.signals import Duration

__all__ = [
    "Begin",
    "Classify",
    "Failure",
    "InboxRow",
    "InboxStatus",
    "Later",
    "NonRetriable",
    "after_failure",
    "how_to_begin",
]

MAX_ERROR: Final = 2_000
"""Characters of an error that are kept."""


class NonRetriable(Exception):
    """Raised by a handler: no attempt will ever succeed. The event is dead at once, with this reason."""


class Later(Exception):
    """Raised by a handler: not now, but after a while. Its key waits with it, and it counts nowhere."""

    def __init__(self, after: Duration, reason: str = "") -> None:
        super().__init__(reason or "The handler asked to wait.")
        self.after_ms: Millis = parse_duration(after, what="delay of Later")


Classify = Literal["retry", "dead"] | Later | None
"""What a hook may say about an error: try again, give up, wait; None: as usual."""


class InboxStatus(StrEnum):
    """What the inbox says of an event."""

    STARTED = "started"
    DONE = "done"
    RETRYING = "retrying"
    DEAD = "dead"


class InboxRow(NamedTuple):
    """What the rules look at."""

    status: InboxStatus
    crashes: int
    lease_until: Instant
    lease_token: str | None


class Begin(StrEnum):
    """What to do with an event that a bus has brought."""

    RUN = "run"
    ALONE = "alone"
    """It may have ended its process: run it while nothing else runs, and note it as started only then."""
    KNOWN = "known"
    """It is done, dead, or tried from the inbox: the bus has done its part."""
    BEHIND = "behind"
    """One of its key waits to be tried again: wait behind it, in the inbox."""
    HELD = "held"
    """Another instance has it, or one of its key, and may still be alive: ask again when the lease is over."""
    DEAD = "dead"
    """It has ended its process too often."""


def how_to_begin(row: InboxRow | None, ahead: InboxRow | None, token: str, now: Instant, *, alone: bool) -> Begin:
    """`row` is what the inbox has of the event itself, `ahead` the first open one of its key that came before it;
    `token` is of the instance that asks; `alone` says that nothing else runs there."""
    if row is None:
        return _how_to_begin_new(ahead, token, now)
    if row.status is not InboxStatus.STARTED:
        return Begin.KNOWN
    if row.lease_token == token and row.lease_until > now:
        return Begin.RUN
    if row.lease_until > now:
        return Begin.HELD
    if row.crashes >= MAX_CRASHES:
        return Begin.DEAD
    if ahead is not None and ahead.status is InboxStatus.RETRYING:
        return Begin.BEHIND  # whoever had both died before it could put this one behind the other
    return Begin.ALONE if row.crashes >= SUSPECT_CRASHES and not alone else Begin.RUN


def _how_to_begin_new(ahead: InboxRow | None, token: str, now: Instant) -> Begin:
    if ahead is None or (ahead.status is InboxStatus.STARTED and ahead.lease_token == token):
        return Begin.RUN  # what is ahead of it here runs before it
    if ahead.status is InboxStatus.RETRYING:
        return Begin.BEHIND
    # Started by another instance: if that one is dead, the bus brings the event to us, before this one.
    return Begin.HELD if ahead.lease_until > now else Begin.RUN


class Failure(NamedTuple):
    """What becomes of an event that has failed."""

    status: Literal[InboxStatus.RETRYING, InboxStatus.DEAD]
    attempts: int
    next_at: Instant
    error_class: str
    error: str


def after_failure(
    error: BaseException,
    said: Classify,
    attempts: int,
    *,
    max_attempts: int,
    retry: RetryPolicy,
    now: Instant,
    chance: float,
) -> Failure:
    """`attempts` is how many have failed before; `said` is what the program's own hook says about the error."""
    kind, text = type(error).__name__, (str(error) or type(error).__name__)[:MAX_ERROR]
    later = said if isinstance(said, Later) else error if isinstance(error, Later) and said is None else None
    if later is not None:
        return Failure(InboxStatus.RETRYING, attempts, now + later.after_ms, kind, text)
    attempts += 1
    is_final = isinstance(error, NonRetriable) if said is None else said == "dead"
    if is_final or attempts >= max_attempts:
        return Failure(InboxStatus.DEAD, attempts, 0, kind, text)
    return Failure(InboxStatus.RETRYING, attempts, now + back_off(retry, attempts, chance), kind, text)
