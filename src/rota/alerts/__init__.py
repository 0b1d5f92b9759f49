"""Alerts: one instance at a time looks at the rules, and firing and resolved are each told once over all of them."""

from rota.alerts.alerts import AlertEvent, Alerts, Firing
from rota.alerts.duty import AlertDuty, rules_of, try_sink

__all__ = ["AlertDuty", "AlertEvent", "Alerts", "Firing", "rules_of", "try_sink"]
