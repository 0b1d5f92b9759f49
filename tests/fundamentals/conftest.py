"""What the fundamentals start from: an app on a SQLite file, and a clock that moves only when told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota import Rota
from rota.testing import FakeClock


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    """Neither a rota.yaml nor a ROTA_* variable of the machine has a say here."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("ROTA_") or name in ("TIMEZONE", "TZ"):
            monkeypatch.delenv(name)


@pytest.fixture
def clock() -> FakeClock:
    """It is Monday, 2026-01-05T09:00:00Z."""
    return FakeClock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rota.db'}"


@pytest.fixture
def app(url: str, clock: FakeClock) -> Rota:
    return Rota(url, clock=clock)
