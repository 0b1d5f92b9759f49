"""The settings of every call that Rota makes to an address that people name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.config.section import Section, Setting
from rota.config.values import as_bool

__all__ = ["WEBHOOKS_SECTION", "WebhooksConfig"]


@dataclass(frozen=True, kw_only=True)
class WebhooksConfig:
    """What a configuration says under `webhooks`."""

    allow_private: bool = False
    allow_http: bool = False


WEBHOOKS_SECTION: Final = Section(
    name="webhooks",
    values=WebhooksConfig,
    settings=(
        Setting("allow_private", "allow_private", as_bool),
        Setting("allow_http", "allow_http", as_bool),
    ),
)
