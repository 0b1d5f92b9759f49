"""The command line, called as a person calls it, in an empty folder with an empty environment."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
import typer

# Test modules are imported by file, not by path: what they share must be found.
sys.path.insert(0, str(Path(__file__).parent))

from command_line import CallRota, Said

from rota.cli import main


@pytest.fixture(autouse=True)
def _quiet_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    for name in list(os.environ):
        if name.startswith("ROTA_") or name in ("TZ", "TIMEZONE"):
            monkeypatch.delenv(name)
    # Nor has the terminal that the tests are started from: a narrow one would cut tables short.
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("LINES", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_STORE", f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    yield
    # A command that logs has sent the log to this test's stderr, which is gone now.
    structlog.reset_defaults()


@pytest.fixture
def rota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CallRota:
    def call(*arguments: str, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        assert "Traceback (most recent call last)" not in said.out + said.err
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person at the terminal was asked, who always says no."""
    asked: list[str] = []

    def no(question: str, **_: object) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("rota.cli.bulk.is_person", lambda: True)
    monkeypatch.setattr(typer, "confirm", no)
    return asked


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with one type of each kind that a command cares about."""
    path = tmp_path / "rota.yaml"
    path.write_text(
        """
scheduler:
  tasks:
    memory_compression: {interval: 30m}
    nightly: {trigger_mode: cron, cron: "0 3 * * *", timezone: Europe/Berlin}
    agent: {trigger_mode: once, description: "prompts of people"}
    asleep: {enabled: false}
"""
    )
    return path
