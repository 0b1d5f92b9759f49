"""Alerts: one instance at a time looks at the rules, and firing and resolved are each told once over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import lazy

if TYPE_CHECKING:
    from rota.alerts.alerts import AlertEvent, Alerts, Firing
    from rota.alerts.duty import AlertDuty, rules_of, try_sink

__all__ = ["AlertDuty", "AlertEvent", "Alerts", "Firing", "rules_of", "try_sink"]

_HOMES = {
    "rota.alerts.alerts": (
        "AlertEvent",
        "Alerts",
        "Firing",
    ),
    "rota.alerts.duty": (
        "AlertDuty",
        "rules_of",
        "try_sink",
    ),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
