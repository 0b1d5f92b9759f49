"""What a configuration may say about alerts: when rules are looked at, the rules, and the sinks that they go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from rota.clock import HOUR, SECOND, Millis
from rota.codec import warmed
from rota.config.section import Entries, Rule, Section, Setting
from rota.config.shown import hide, only_the_host
from rota.config.values import as_amount, as_argv, as_bool, as_duration, as_names
from rota.core.alert import AlertKind, AlertRule, AlertSink

__all__ = ["ALERTS_SECTION", "AlertsConfig"]

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


def _rule_problems(rule: AlertRule, alerts: AlertsConfig) -> list[tuple[str, str]]:
    return rule.problems(alerts.sinks)


def _sink_problems(sink: AlertSink, _: AlertsConfig) -> list[tuple[str, str]]:
    return sink.problems()


_RULES: Final = Entries(
    path="rules",
    attribute="rules",
    struct=AlertRule,
    readers={"threshold": as_amount, "to": as_names},
    required={"kind": f"Say what it looks at: {', '.join(kind.value for kind in AlertKind)}."},
    check=_rule_problems,
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
    entries=(_RULES, _SINKS),
)
