"""Triggers: when something is due. Pure rules, no clock and no store."""

from rota.triggers.base import AnyTrigger, Trigger, decode_trigger, encode_trigger, parse_trigger
from rota.triggers.cron import Cron
from rota.triggers.explain import Explanation, explain
from rota.triggers.interval import LONGEST_INTERVAL, SHORTEST_INTERVAL, Interval
from rota.triggers.once import Once
from rota.triggers.series import (
    CATCH_UP_LIMIT,
    Claim,
    Misfire,
    Overlap,
    Policy,
    Settle,
    Span,
    at_claim,
    at_resume,
    at_settle,
    count_fires,
    jittered,
)
from rota.triggers.zone import default_timezone, zone

__all__ = [
    "CATCH_UP_LIMIT",
    "LONGEST_INTERVAL",
    "SHORTEST_INTERVAL",
    "AnyTrigger",
    "Claim",
    "Cron",
    "Explanation",
    "Interval",
    "Misfire",
    "Once",
    "Overlap",
    "Policy",
    "Settle",
    "Span",
    "Trigger",
    "at_claim",
    "at_resume",
    "at_settle",
    "count_fires",
    "decode_trigger",
    "default_timezone",
    "encode_trigger",
    "explain",
    "jittered",
    "parse_trigger",
    "zone",
]
