"""Alerts: one instance at a time looks at the rules, and firing and resolved are each told once over all of them."""

from __future__ import annotations

from rota.lazy import lazy

# Type checkers read the same names in `__init__.pyi`.
_HOMES = {
    "rota.alerts.alerts": (
        "AlertEvent",
        "Alerts",
        "Firing",
    ),
    "rota.alerts.duty": (
        "AlertDuty",
        "try_sink",
    ),
    "rota.alerts.operator": (
        "AlertOperator",
        "rules_as_they_stand",
    ),
    "rota.alerts.kinds": (
        "kinds_of",
        "rules_of",
        "shown_at",
        "shown_kinds",
    ),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
