"""Events: nothing is published that was not committed, and nothing committed is lost."""

from __future__ import annotations

from rota.lazy import lazy

# Type checkers read the same names in `__init__.pyi`.
_HOMES = {
    "rota.events.consumer": ("Effect",),
    "rota.events.delivery": (
        "Later",
        "NonRetriable",
    ),
    "rota.events.envelope": ("Event",),
    "rota.events.events": ("Events",),
    "rota.events.handles": ("Handles",),
    "rota.events.outbox": ("Outbox",),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
