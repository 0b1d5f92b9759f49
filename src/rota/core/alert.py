"""Alerts, as rules and as a law: what is looked at, and when a condition that comes and goes is worth a word.

A condition must hold for a rule's hold time before it fires, and must be gone for as long before it is resolved, so
one that flaps says nothing new. Firing and resolved therefore alternate, whatever the condition does. The law is pure:
time is an argument, and so is what was known before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from rota.clock import DAY, MINUTE, SECOND, Instant, Millis

__all__ = [
    "BUILT_IN",
    "DEFAULT_THRESHOLD",
    "LOG",
    "AlertChange",
    "AlertKind",
    "AlertRule",
    "AlertSink",
    "AlertState",
    "AlertStep",
    "Known",
    "step",
]

LOG: Final = "log"
"""The sink that is always there."""


class AlertKind(StrEnum):
    """What a rule looks at."""

    FAILURE_RATE = "failure_rate"
    """The share of runs within the window that were no success."""
    QUEUE_DEPTH = "queue_depth"
    """Pending tasks of a type: up to 1 a share of its max_pending, above that a number of tasks."""
    OLDEST_PENDING = "oldest_pending"
    """How many seconds the first pending task of a type is overdue."""
    DEAD_LETTERS = "dead_letters"
    """Failed tasks of a type that wait for somebody to look."""
    MISSED_FIRES = "missed_fires"
    """Nominal fires within the window that were not run."""
    BREAKER_OPEN = "breaker_open"
    """Users of a type whose activity is refused because their tasks failed too often."""
    INSTANCE_LOST = "instance_lost"
    """Seconds since an instance, which has not said goodbye, gave its last sign of life."""
    OUTBOX_LAG = "outbox_lag"
    """Events that wait to be sent."""


DEFAULT_THRESHOLD: Final[Mapping[AlertKind, float]] = {
    AlertKind.FAILURE_RATE: 0.5,
    AlertKind.QUEUE_DEPTH: 0.8,
    AlertKind.OLDEST_PENDING: 600.0,
    AlertKind.DEAD_LETTERS: 1.0,
    AlertKind.MISSED_FIRES: 1.0,
    AlertKind.BREAKER_OPEN: 1.0,
    AlertKind.INSTANCE_LOST: 60.0,
    AlertKind.OUTBOX_LAG: 1_000.0,
}


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `to` names sinks; `type` is one task type, or None for each of them."""

    name: str
    kind: AlertKind
    type: str | None = None
    threshold: float | None = None
    for_ms: Millis = MINUTE
    window_ms: Millis = 5 * MINUTE
    at_least: int = 10
    """Below so many runs in the window a failure rate says nothing."""
    to: tuple[str, ...] = (LOG,)

    @property
    def limit(self) -> float:
        """The threshold, or what is usual for the kind."""
        return DEFAULT_THRESHOLD[self.kind] if self.threshold is None else self.threshold

    def problems(self, sinks: Mapping[str, AlertSink]) -> list[tuple[str, str]]:
        """What is impossible in it: the setting, and what to do."""
        found: list[tuple[str, str]] = []
        if self.kind is AlertKind.OUTBOX_LAG:
            found.append(("kind", "There is no outbox in this version, so nothing of it can lag. Take the rule out."))
        if not 0 < self.limit <= 1e12:
            found.append(("threshold", "Use a number above 0."))
        elif self.kind is AlertKind.FAILURE_RATE and self.limit > 1:
            found.append(("threshold", "A failure rate is a share: use 0.01 to 1, or a percentage like '20%'."))
        if not 0 <= self.for_ms <= DAY:
            found.append(("for", "Use 0s to 1d."))
        if not MINUTE <= self.window_ms <= DAY:
            found.append(("window", "Use 1m to 1d."))
        if not 1 <= self.at_least <= 1_000_000:
            found.append(("at_least", "Use 1 to 1000000."))
        if not self.to:
            found.append(("to", f"Name a sink, like [{LOG}]."))
        unknown = [name for name in self.to if name != LOG and name not in sinks]
        if unknown:
            found.append(
                ("to", f"There is no sink {unknown[0]!r}. Add it under alerts.sinks, or use: {_names(sinks)}.")
            )
        return found


class AlertSink(msgspec.Struct, frozen=True, kw_only=True):
    """Where alerts go beside the log: a webhook or a command."""

    name: str
    webhook: str | None = None
    secret: str | None = None
    """What webhooks are signed with."""
    command: tuple[str, ...] = ()
    """The program and its arguments; it gets the alert as JSON on its standard input."""

    def __repr__(self) -> str:
        # The generated one would print the secret, and a webhook's address often is one too.
        return f"AlertSink({self.name!r}, {'webhook' if self.webhook else 'command'})"

    def problems(self) -> list[tuple[str, str]]:
        """What is impossible in it: the setting, and what to do."""
        found: list[tuple[str, str]] = []
        if self.name == LOG:
            found.append(("webhook", f"The sink {LOG!r} is always there and needs no settings. Use another name."))
        if bool(self.webhook) == bool(self.command):
            found.append(("webhook", "A sink has a webhook or a command, one of them."))
        if self.secret is not None and not self.webhook:
            found.append(("secret", "Only webhooks are signed. Take it out."))
        if self.secret is not None and len(self.secret) < 16:
            found.append(("secret", "It is too short to sign with. Use at least 16 characters."))
        return found


def _names(sinks: Mapping[str, AlertSink]) -> str:
    return ", ".join([LOG, *sorted(sinks)])


BUILT_IN: Final[Mapping[str, AlertRule]] = {
    rule.name: rule
    for rule in (
        AlertRule(name="many_failures", kind=AlertKind.FAILURE_RATE),
        AlertRule(name="queue_nearly_full", kind=AlertKind.QUEUE_DEPTH),
        AlertRule(name="late", kind=AlertKind.OLDEST_PENDING, for_ms=2 * MINUTE),
        AlertRule(name="dead_letters", kind=AlertKind.DEAD_LETTERS, for_ms=0),
        AlertRule(name="missed_fires", kind=AlertKind.MISSED_FIRES, for_ms=0),
        AlertRule(name="breaker_open", kind=AlertKind.BREAKER_OPEN, for_ms=0),
        AlertRule(name="instance_lost", kind=AlertKind.INSTANCE_LOST, for_ms=15 * SECOND),
    )
}
"""The rules that stand as long as nobody says otherwise; they go to the log."""


class AlertState(StrEnum):
    """Where one rule stands with one subject."""

    OK = "ok"
    PENDING = "pending"
    """Its condition holds, not yet long enough."""
    FIRING = "firing"
    CLEARING = "clearing"
    """It fires, but its condition is gone, not yet long enough."""

    @property
    def is_firing(self) -> bool:
        return self in (AlertState.FIRING, AlertState.CLEARING)


class AlertChange(StrEnum):
    """What is worth a word."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Known(NamedTuple):
    """What is known of a rule and a subject: its state, since when, and when somebody last looked."""

    state: AlertState
    since_at: Instant
    seen_at: Instant


class AlertStep(NamedTuple):
    """What one look leads to."""

    known: Known
    change: AlertChange | None


_TOWARDS: Final[Mapping[tuple[AlertState, bool], AlertState]] = {
    (AlertState.OK, True): AlertState.PENDING,
    (AlertState.OK, False): AlertState.OK,
    (AlertState.PENDING, True): AlertState.PENDING,
    (AlertState.PENDING, False): AlertState.OK,
    (AlertState.FIRING, True): AlertState.FIRING,
    (AlertState.FIRING, False): AlertState.CLEARING,
    (AlertState.CLEARING, True): AlertState.FIRING,
    (AlertState.CLEARING, False): AlertState.CLEARING,
}
_AT_LAST: Final[Mapping[AlertState, tuple[AlertState, AlertChange]]] = {
    AlertState.PENDING: (AlertState.FIRING, AlertChange.FIRING),
    AlertState.CLEARING: (AlertState.OK, AlertChange.RESOLVED),
}


def step(known: Known | None, holds: bool, now: Instant, *, hold_ms: Millis, gap_ms: Millis) -> AlertStep:
    """One look at a condition. Nobody can say what held while nobody looked: after `gap_ms` the hold starts anew.

    A clock that was set back makes a hold start anew too, so it never lasts longer than it should by the difference.
    """
    known = known or Known(AlertState.OK, now, now)
    state = _TOWARDS[known.state, holds]
    was_watched = 0 <= now - known.seen_at <= gap_ms and known.since_at <= now
    since_at = known.since_at if state is known.state and (was_watched or state not in _AT_LAST) else now
    if state in _AT_LAST and now - since_at >= hold_ms:
        state, change = _AT_LAST[state]
        return AlertStep(Known(state, now, now), change)
    return AlertStep(Known(state, since_at, now), None)
