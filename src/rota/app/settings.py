"""Loading a configuration that knows the settings of every built-in part, and of the parts that somebody adds.

Nothing but the sections of the parts is imported here: to know a setting is cheap, to have the part is not. Only a
rule whose kind is not the engine's makes it ask the parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rota.agents.section import AGENTS_SECTION
from rota.alerts.section import ALERTS_SECTION, section_with
from rota.batches.section import BATCHES_SECTION
from rota.config import Config, Section, read_config
from rota.config.metrics import METRICS_SECTION
from rota.config.server import SERVER_SECTION
from rota.config.webhooks import WEBHOOKS_SECTION
from rota.core.alert import AlertKind, all_kinds
from rota.events.section import EVENTS_SECTION, PREFECT_SECTION
from rota.memory.section import MEMORY_SECTION

__all__ = ["BUILT_IN_SECTIONS", "load_config", "sections_of"]

BUILT_IN_SECTIONS: Final[tuple[Section[Any], ...]] = (
    SERVER_SECTION,
    METRICS_SECTION,
    ALERTS_SECTION,
    WEBHOOKS_SECTION,
    MEMORY_SECTION,
    AGENTS_SECTION,
    EVENTS_SECTION,
    PREFECT_SECTION,
    BATCHES_SECTION,
)
"""In the order in which `rota config show` has them."""


def load_config(
    source: str | Path | Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
    sections: Sequence[Section[Any]] = (),
    alert_kinds: Iterable[AlertKind] = (),
) -> Config:
    """The configuration of this process.

    `source` is a YAML file or a mapping of the same shape. Without one the file that ROTA_CONFIG names is read, else
    `rota.yaml` in the working directory, if it is there. `flags` has settings by path ("scheduler.enabled") or by the
    last name alone ("max_concurrent"). `sections` and `alert_kinds` are those of your own parts, beside the built-in
    ones. Raises `InvalidConfig` with every problem that was found.
    """
    own = [section for section in sections if section not in BUILT_IN_SECTIONS]
    kinds = tuple(alert_kinds)
    built_in = _with_kinds(kinds) if kinds else _WITHOUT_OWN_KINDS
    return read_config(source, environ=environ, flags=flags, sections=(*built_in, *own))


def sections_of(config: Config) -> tuple[Section[Any], ...]:
    """The sections of a configuration and the built-in ones, which one that was made by hand does not have."""
    built_in = {section.name for section in BUILT_IN_SECTIONS}
    return (*BUILT_IN_SECTIONS, *(section for section in config.sections if section.name not in built_in))


def _with_kinds(own: Sequence[AlertKind]) -> tuple[Section[Any], ...]:
    """The built-in sections, where rules may be of these kinds and of those of the built-in parts."""
    # Of two that are called the same whoever wrote the part hears at once; a built-in part may be given as one's own.
    names = all_kinds(own)
    alerts = section_with(lambda: (*own, *(kind for kind in _kinds_of_built_in_parts() if kind.name not in names)))
    return tuple(alerts if section is ALERTS_SECTION else section for section in BUILT_IN_SECTIONS)


def _kinds_of_built_in_parts() -> Iterator[AlertKind]:
    from rota.app.parts import built_in_parts

    for part in built_in_parts():
        yield from part.alert_kinds()


_WITHOUT_OWN_KINDS: Final = _with_kinds(())
