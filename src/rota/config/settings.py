"""The settings of the engine itself: where each stands, which attribute of `Config` holds it, and how it is read.

A new setting is one row here and one attribute with its default in `Config`. Everything else follows from the table:
files, environment and flags know it, misspellings of it are refused with a suggestion, `rota config show` prints it.
The settings of the server and of parts stand in their sections, in the same way.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from rota.config.metrics import METRICS_SECTION
from rota.config.section import Section, Setting
from rota.config.server import SERVER_SECTION
from rota.config.urls import BUS_SCHEMES, DATABASE_SCHEMES, STORE_SCHEMES, check_url
from rota.config.values import as_bool, as_duration, as_int, as_spool, as_text, as_zone
from rota.config.webhooks import WEBHOOKS_SECTION

__all__ = ["BASE_SECTIONS", "ENGINE_SETTINGS"]


def _url(value: object, schemes: tuple[str, ...]) -> str:
    return check_url(as_text(value), schemes)


ENGINE_SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("store", "store_url", partial(_url, schemes=STORE_SCHEMES)),
    Setting("database", "database_url", partial(_url, schemes=DATABASE_SCHEMES)),
    Setting("bus", "bus_url", partial(_url, schemes=BUS_SCHEMES)),
    Setting("spool", "spool_path", as_spool),
    Setting("timezone", "timezone", as_zone),
    Setting("lease", "lease_ms", as_duration),
    Setting("sweep_interval", "sweep_ms", as_duration),
    Setting("call_timeout", "call_timeout_ms", as_duration),
    Setting("scheduler.enabled", "enabled", as_bool),
    Setting("scheduler.executor.check_interval", "check_interval_ms", as_duration),
    Setting("scheduler.executor.max_concurrent", "max_concurrent", as_int),
)
"""Every single setting, in the order in which it is shown."""

BASE_SECTIONS: Final[tuple[Section[Any], ...]] = (SERVER_SECTION, METRICS_SECTION, WEBHOOKS_SECTION)
"""The sections that every configuration has; the others are those of parts."""
