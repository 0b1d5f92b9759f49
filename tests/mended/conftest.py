"""What several of these tests start from."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def command_line_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the test's own folder, and the SQLite file in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_STORE", f"sqlite:///{tmp_path / 'rota.db'}")
