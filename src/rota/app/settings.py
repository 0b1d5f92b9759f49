"""Loading a configuration that knows the settings of every built-in part, and of the parts that somebody adds.

Nothing but the sections of the parts is imported here: to know a setting is cheap, to have the part is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rota.agents.section import AGENTS_SECTION
from rota.alerts.section import ALERTS_SECTION
from rota.config import Config, Section, read_config
from rota.config.server import SERVER_SECTION
from rota.config.webhooks import WEBHOOKS_SECTION
from rota.memory.section import MEMORY_SECTION

__all__ = ["BUILT_IN_SECTIONS", "load_config", "sections_of"]

BUILT_IN_SECTIONS: Final[tuple[Section[Any], ...]] = (
    SERVER_SECTION,
    ALERTS_SECTION,
    WEBHOOKS_SECTION,
    MEMORY_SECTION,
    AGENTS_SECTION,
)
"""In the order in which `rota config show` has them."""


def load_config(
    source: str | Path | Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
    sections: Sequence[Section[Any]] = (),
) -> Config:
    """The configuration of this process.

    `source` is a YAML file or a mapping of the same shape. Without one the file that ROTA_CONFIG names is read, else
    `rota.yaml` in the working directory, if it is there. `flags` has settings by path ("scheduler.enabled") or by the
    last name alone ("max_concurrent"). `sections` are those of your own parts, beside the built-in ones. Raises
    `InvalidConfig` with every problem that was found.
    """
    own = [section for section in sections if section not in BUILT_IN_SECTIONS]
    return read_config(source, environ=environ, flags=flags, sections=(*BUILT_IN_SECTIONS, *own))


def sections_of(config: Config) -> tuple[Section[Any], ...]:
    """The sections of a configuration and the built-in ones, which one that was made by hand does not have."""
    return (*BUILT_IN_SECTIONS, *(section for section in config.sections if section not in BUILT_IN_SECTIONS))
