"""The program's own app in a test: on a store in memory, by a fake clock, and with nothing that leaves the machine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rota.app.moved import moved
from rota.app.rota import Rota
from rota.batches.section import BATCHES_SECTION
from rota.clock import Clock
from rota.config import Config
from rota.stores.memory import MemoryStore

__all__ = ["in_test"]

_HERE: Final = "rota_use"
"""Where a setting comes from, for whoever looks."""
_SECTIONS_THAT_CALL: Final = ("alerts", "prefect")
"""What a configuration says there is about calls to others."""


@contextmanager
def in_test(app: Rota, store: MemoryStore, clock: Clock, folder: Path) -> Generator[Rota]:
    """Have an app on this store, with its database in a file of this folder, until the block ends."""
    with moved(app, store, _config_in_test(app.config, store, folder), clock):
        yield app


def _config_in_test(config: Config, store: MemoryStore, folder: Path) -> Config:
    # Nothing here survives a power cut, and nothing needs to.
    urls = {"store": store.url, "database": f"sqlite:///{folder}/rota.db?synchronous=OFF", "bus": "local://"}
    sections = {name: values for name, values in config.section_values.items() if name not in _SECTIONS_THAT_CALL}
    sections[BATCHES_SECTION.name] = replace(BATCHES_SECTION.of(config), generator="offline")
    return replace(
        config,
        store_url=urls["store"],
        database_url=urls["database"],
        bus_url=urls["bus"],
        spool_path=None,
        sources=MappingProxyType({**config.sources, **dict.fromkeys((*urls, "spool", "batches.generator"), _HERE)}),
        section_values=MappingProxyType(sections),
    )
