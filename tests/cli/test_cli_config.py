"""`rota config show`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CallRota


def settings(rota: CallRota, *arguments: str) -> dict[str, tuple[str, str]]:
    said = rota("config", "show", "--json", *arguments)
    assert said.code == 0
    return {row["path"]: (row["value"], row["source"]) for row in said.json["items"]}


def test_every_value_has_its_source(rota: CallRota, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_LEASE", "20s")

    shown = settings(rota)

    assert shown["lease"] == ("20s", "environment ROTA_LEASE")
    assert shown["sweep_interval"] == ("1s", "default")
    assert shown["scheduler.tasks.nightly.cron"][0] == "0 3 * * *"
    assert config.name in shown["scheduler.tasks.nightly.cron"][1]


def test_the_flag_wins(rota: CallRota) -> None:
    shown = settings(rota, "--store", "postgresql://ada:secret@db.example/rota")

    assert shown["store"] == ("postgresql://ada:***@db.example/rota", "flag --store")


def test_secrets_are_masked_everywhere(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE", "postgresql://ada:hunter2@db.example/rota")

    said = rota("config", "show")

    assert said.code == 0
    assert "hunter2" not in said.out + said.err
    assert "***" in said.out


def test_warnings_are_shown(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_COLOUR", "blue")

    assert "ROTA_COLOUR" in rota("config", "show", "--json").json["warnings"][0]
    assert "warning: No setting is called ROTA_COLOUR" in rota("config", "show").err


def test_no_store_is_made(rota: CallRota, tmp_path: Path) -> None:
    rota("config", "show")

    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scheduler: {tsks: {}}", "Did you mean 'tasks'?"),
        ("lease: forever", "lease is 'forever'"),
        ("scheduler: [", "rota.yaml"),
        ("scheduler: {tasks: {x: {trigger_mode: cron, cron: '99 * * * *'}}}", "scheduler.tasks.x.cron"),
    ],
)
@pytest.mark.parametrize("command", ["config show", "task ls", "up", "schedule explain 30m"])
def test_a_bad_file_is_2_for_every_command(rota: CallRota, tmp_path: Path, text: str, words: str, command: str) -> None:
    (tmp_path / "rota.yaml").write_text(text)

    said = rota(*command.split(), "--json")

    assert (said.code, said.out) == (2, "")
    assert said.error["code"] == "invalid_config"
    assert words in said.error["message"]


def test_a_file_that_is_not_there(rota: CallRota) -> None:
    said = rota("config", "show", "--config", "missing.yaml")

    assert said.code == 2
    assert "missing.yaml" in said.err


@pytest.mark.parametrize("url", ["rota.db", "mysql://host/db", "sqlite://rota.db", "redis:///x/y", "sqlite:///"])
def test_a_store_that_cannot_be(rota: CallRota, url: str) -> None:
    said = rota("task", "ls", "--store", url, "--json")

    assert said.code == 2
    assert said.error["code"] == "invalid_config"


def test_a_folder_that_is_not_there(rota: CallRota, tmp_path: Path) -> None:
    said = rota("task", "ls", "--store", f"sqlite:///{tmp_path}/no/such/rota.db")

    assert said.code in (2, 3)
    assert "no/such" in said.err
