"""The settings of the metrics and health that a worker shows over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.config.section import Rule, Section, Setting
from rota.config.server import is_host
from rota.config.values import as_int, as_text

__all__ = ["METRICS_SECTION", "MetricsConfig"]


@dataclass(frozen=True, kw_only=True)
class MetricsConfig:
    """What a configuration says under `metrics`. It is for `rota worker`; the service shows them on its own port."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: a worker shows nothing."""


METRICS_SECTION: Final = Section(
    name="metrics",
    values=MetricsConfig,
    settings=(Setting("host", "host", as_text), Setting("port", "port", as_int)),
    rules=(
        Rule(
            "host",
            lambda metrics: is_host(metrics.host),
            "Use a name or an address to bind to, like '127.0.0.1' or '0.0.0.0'.",
        ),
        Rule(
            "port",
            lambda metrics: metrics.port is None or 0 <= metrics.port <= 65_535,
            "Use 1 to 65535, or 0 for any that is free.",
        ),
    ),
)
