"""Alerts, as kinds, rules and a law: what can be looked at, what is, and when a condition is worth a word.

Kinds are an open set. Those of the engine are described here and read in `rota.alerts.reading`; a part brings more,
each with its measure (`Part.alert_kinds`). A rule names its kind, and whoever loads a rule says which kinds there are.

A condition must hold for a rule's hold time before it fires, and must be gone for as long before it is resolved, so
one that flaps says nothing new. Firing and resolved therefore alternate, whatever the condition does. The law is pure:
time is an argument, and so is what was known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from rota.clock import DAY, MINUTE, SECOND, Instant, Millis, format_duration
from rota.errors import InvalidConfig

__all__ = [
    "BUILT_IN",
    "ENGINE_KINDS",
    "LOG",
    "AlertChange",
    "AlertKind",
    "AlertRule",
    "AlertSink",
    "AlertState",
    "AlertStep",
    "AlertUnit",
    "EngineKind",
    "Known",
    "all_kinds",
    "step",
]

LOG: Final = "log"
"""The sink that is always there."""


class AlertUnit(StrEnum):
    """What the threshold of a kind is counted in."""

    NUMBER = "number"
    SHARE = "share"
    """0 to 1; people write 20%."""
    SECONDS = "seconds"
    """People write 10m."""
    SHARE_OR_NUMBER = "share or number"
    """Up to 1 a share, above that a number."""

    def shown(self, amount: float) -> str:
        """An amount as people read it."""
        if self is AlertUnit.SECONDS:
            return format_duration(round(amount) * SECOND)
        if self is AlertUnit.SHARE or (self is AlertUnit.SHARE_OR_NUMBER and amount <= 1):
            return f"{amount:.0%}"
        return f"{amount:,.0f}" if float(amount).is_integer() else f"{amount:,.2f}"


@dataclass(frozen=True, kw_only=True)
class AlertKind:
    """What rules can look at."""

    name: str
    about: str
    """What it looks at, for people: the end of the sentence "A rule of this kind looks at ..."."""
    unit: AlertUnit
    usual: float
    """The threshold of a rule that says none."""
    fires_below: bool = False
    """Whether less than the threshold is what fires; else it is the threshold, and more."""
    takes_type: bool = False
    """Whether its subjects are task types, or belong to one, so that a rule may name one `type`."""

    def completed(self, rule: AlertRule) -> AlertRule:
        """A rule with the usual threshold, if it says none."""
        return replace(rule, threshold=self.usual) if rule.threshold is None else rule

    def shown_limit(self, rule: AlertRule) -> str:
        """The threshold of a rule as people read it."""
        return f"{'below ' if self.fires_below else ''}{self.unit.shown(self.completed(rule).limit)}"

    def problems(self, rule: AlertRule) -> list[tuple[str, str]]:
        """What of a rule of this kind is impossible: the setting, and what to do."""
        found: list[tuple[str, str]] = []
        limit = self.completed(rule).limit
        if not 0 < limit <= 1e12:
            found.append(("threshold", "Use a number above 0."))
        elif self.unit is AlertUnit.SHARE and limit > 1:
            words = f"{'An' if self.name[0] in 'aeiou' else 'A'} {self.name.replace('_', ' ')}"
            found.append(("threshold", f"{words} is a share: use 0.01 to 1, or a percentage like '20%'."))
        if rule.type is not None and not self.takes_type:
            found.append(("type", f"A rule of the kind {self.name!r} is about no task type. Take it out."))
        return found


class EngineKind(StrEnum):
    """The names of the engine's own kinds."""

    FAILURE_RATE = "failure_rate"
    QUEUE_DEPTH = "queue_depth"
    OLDEST_PENDING = "oldest_pending"
    DEAD_LETTERS = "dead_letters"
    MISSED_FIRES = "missed_fires"
    BREAKER_OPEN = "breaker_open"
    INSTANCE_LOST = "instance_lost"


def _engine(name: EngineKind, usual: float, unit: AlertUnit, about: str) -> AlertKind:
    return AlertKind(name=name.value, about=about, unit=unit, usual=usual, takes_type=True)


ENGINE_KINDS: Final[Mapping[str, AlertKind]] = {
    kind.name: kind
    for kind in (
        _engine(
            EngineKind.FAILURE_RATE,
            0.5,
            AlertUnit.SHARE,
            "the share of runs within `window` that failed, if there were `at_least` so many; cancelled and discarded"
            " ones do not count",
        ),
        _engine(
            EngineKind.QUEUE_DEPTH,
            0.8,
            AlertUnit.SHARE_OR_NUMBER,
            "pending tasks; up to 1 a share of `max_pending`, above that a number",
        ),
        _engine(EngineKind.OLDEST_PENDING, 600.0, AlertUnit.SECONDS, "how long the first pending task is overdue"),
        _engine(EngineKind.DEAD_LETTERS, 1.0, AlertUnit.NUMBER, "failed tasks that wait for somebody to look"),
        _engine(
            EngineKind.MISSED_FIRES,
            1.0,
            AlertUnit.NUMBER,
            "nominal fires within `window` that were not run because nobody was there in time; one that was left out"
            " since the last run was still going on is none (the newest 200 records are looked at)",
        ),
        _engine(
            EngineKind.BREAKER_OPEN,
            1.0,
            AlertUnit.NUMBER,
            "users whose activity is refused because their tasks failed too often (up to 50 a type are counted)",
        ),
        _engine(
            EngineKind.INSTANCE_LOST, 60.0, AlertUnit.SECONDS, "how long an instance has been silent without a goodbye"
        ),
    )
}
"""What the engine can be asked about; `rota.alerts.reading` reads it."""


def all_kinds(more: Iterable[AlertKind] = ()) -> dict[str, AlertKind]:
    """The engine's kinds and those of parts, by their names."""
    kinds = dict(ENGINE_KINDS)
    for kind in more:
        if kinds.setdefault(kind.name, kind) is not kind:
            raise InvalidConfig(f"Two kinds of alerts are called {kind.name!r}. Call the one of your part otherwise.")
    return kinds


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `to` names sinks; `type` is one task type, or None for each of them."""

    name: str
    kind: str
    type: str | None = None
    threshold: float | None = None
    for_ms: Millis = MINUTE
    window_ms: Millis = 5 * MINUTE
    at_least: int = 10
    """Below so many runs in the window a failure rate says nothing."""
    to: tuple[str, ...] = (LOG,)

    @property
    def limit(self) -> float:
        """The threshold, or what is usual for the engine's kind. A rule of a part's kind is completed by that kind."""
        return ENGINE_KINDS[self.kind].usual if self.threshold is None else self.threshold

    def problems(self, sinks: Mapping[str, AlertSink], kinds: Mapping[str, AlertKind]) -> list[tuple[str, str]]:
        """What is impossible in it: the setting, and what to do."""
        if self.kind in kinds:
            found = kinds[self.kind].problems(self)
        else:
            found = [("kind", f"Nobody brings the kind {self.kind!r}.")]
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
        AlertRule(name="many_failures", kind=EngineKind.FAILURE_RATE),
        AlertRule(name="queue_nearly_full", kind=EngineKind.QUEUE_DEPTH),
        AlertRule(name="late", kind=EngineKind.OLDEST_PENDING, for_ms=2 * MINUTE),
        AlertRule(name="dead_letters", kind=EngineKind.DEAD_LETTERS, for_ms=0),
        AlertRule(name="missed_fires", kind=EngineKind.MISSED_FIRES, for_ms=0),
        AlertRule(name="breaker_open", kind=EngineKind.BREAKER_OPEN, for_ms=0),
        AlertRule(name="instance_lost", kind=EngineKind.INSTANCE_LOST, for_ms=15 * SECOND),
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
