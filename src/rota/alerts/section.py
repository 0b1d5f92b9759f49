"""What a configuration may say about alerts: when rules are looked at, the rules, and the sinks that they go to.

A rule's kind is one of the engine's, or one that a part brings. Who loads a configuration says which parts those are
(`section_with`), so a kind that nobody brings is refused with every other mistake, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import msgspec

from rota.clock import HOUR, SECOND, Millis
from rota.codec import warmed
from rota.config.section import Entries, Rule, Section, Setting
from rota.config.shown import hide, only_the_host
from rota.config.values import as_amount, as_argv, as_bool, as_duration, as_names
from rota.core.alert import ENGINE_KINDS, AlertKind, AlertRule, AlertSink, all_kinds
from rota.core.task_type import did_you_mean
from rota.errors import InvalidConfig

__all__ = ["ALERTS_SECTION", "AlertsConfig", "refuse_kind", "section_with"]

MoreKinds = Callable[[], Iterable[AlertKind]]
"""Asked only if a rule names a kind that is not the engine's: to know a part costs more than to know a setting."""

warmed(msgspec.json.Decoder(AlertRule))
warmed(msgspec.json.Decoder(AlertSink), '{"name":"s"}')


@dataclass(frozen=True, kw_only=True)
class AlertsConfig:
    """What a configuration says under `alerts`."""

    enabled: bool = True
    check_ms: Millis = 15 * SECOND
    defaults: bool = True
    """Whether the built-in rules stand beside the given ones. A given rule of the same name takes its place."""
    rules: Mapping[str, AlertRule] = field(default_factory=lambda: MappingProxyType({}))
    sinks: Mapping[str, AlertSink] = field(default_factory=lambda: MappingProxyType({}))


def refuse_kind(kind: object, kinds: Iterable[str]) -> str:
    """What to say to somebody who names a kind that nobody brings."""
    known = list(kinds)
    hint = did_you_mean(kind, known)
    everything = f" There are: {', '.join(known)}." if hint.endswith("?") else ""
    return (
        f"{hint}{everything} A kind of a part is known where its part is: give it to Rota(..., parts=[...]),"
        " and name that app in ROTA_APP for `rota`."
    )


def _sink_problems(sink: AlertSink, _: AlertsConfig) -> list[tuple[str, str]]:
    return sink.problems()


def _rules(more: MoreKinds) -> Entries[AlertRule]:
    def kinds_for(name: str) -> Mapping[str, AlertKind]:
        return ENGINE_KINDS if name in ENGINE_KINDS else all_kinds(more())

    def as_kind(value: object) -> str:
        name = value if isinstance(value, str) else ""
        kinds = kinds_for(name)
        if name in kinds:
            return name
        raise InvalidConfig(refuse_kind(value, kinds))

    return Entries(
        path="rules",
        attribute="rules",
        struct=AlertRule,
        readers={"kind": as_kind, "threshold": as_amount, "to": as_names},
        required={
            "kind": f"Say what it looks at: {', '.join(ENGINE_KINDS)}. `rota alert kinds` lists those of parts, too."
        },
        check=lambda rule, alerts: rule.problems(alerts.sinks, kinds_for(rule.kind)),
        unset={"type": "each", "threshold": "as is usual for the kind"},
    )


_SINKS: Final = Entries(
    path="sinks",
    attribute="sinks",
    struct=AlertSink,
    readers={"command": as_argv},
    check=_sink_problems,
    masks={"secret": hide, "webhook": only_the_host},
)

ALERTS_SECTION: Final = Section(
    name="alerts",
    values=AlertsConfig,
    settings=(
        Setting("enabled", "enabled", as_bool),
        Setting("check_interval", "check_ms", as_duration),
        Setting("defaults", "defaults", as_bool),
    ),
    rules=(Rule("check_interval", lambda alerts: SECOND <= alerts.check_ms <= HOUR, "Use 1s to 1h; '15s' is usual."),),
    entries=(_rules(tuple), _SINKS),
)


def section_with(more: MoreKinds) -> Section[AlertsConfig]:
    """The section, for a configuration whose rules may be of more kinds than the engine's."""
    return replace(ALERTS_SECTION, entries=(_rules(more), _SINKS))
