"""`rota user`: one person's data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from command_line import CallRota


@pytest.fixture(autouse=True)
def ada(rota: CallRota, config: Path) -> None:
    assert config.exists()
    for user in ("ada", "bob"):
        rota("task", "touch", "memory_compression", "--user", user)
        rota("task", "schedule", "agent", "--user", user)


def test_show(rota: CallRota) -> None:
    shown = rota("user", "show", "ada", "--json").json

    assert {task["task_type"] for task in shown["tasks"]} == {"agent", "memory_compression"}
    assert {task["user_id"] for task in shown["tasks"]} == {"ada"}
    assert "memory_compression" in rota("user", "show", "ada").out
    assert "no task of the user 'nobody'" in rota("user", "show", "nobody").err


def test_export_is_one_object_a_line(rota: CallRota, tmp_path: Path) -> None:
    said = rota("user", "export", "ada")
    lines = [json.loads(line) for line in said.out.splitlines()]

    assert {line["task_type"] for line in lines if line["kind"] == "task"} == {"agent", "memory_compression"}
    assert "bob" not in said.out
    rota("user", "export", "ada", "--output", str(tmp_path / "ada.ndjson"))
    assert len((tmp_path / "ada.ndjson").read_text().splitlines()) == len(lines)


def test_erase_removes_everything_of_one(rota: CallRota) -> None:
    erased = rota("user", "erase", "ada", "--yes", "--json").json

    assert (erased["erased"], erased["tasks"], erased["running"]) == (True, 2, 0)
    assert rota("user", "show", "ada", "--json").json["tasks"] == []
    assert len(rota("user", "show", "bob", "--json").json["tasks"]) == 2


def test_erase_wants_to_be_sure(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    said = rota("user", "erase", "ada", "--json")

    assert said.code == 2
    assert "--yes" in said.error["message"]

    def no(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr("rota.cli.users.is_person", lambda: True)
    monkeypatch.setattr(typer, "confirm", no)
    assert rota("user", "erase", "ada").out == "Nothing was changed.\n"
    assert len(rota("user", "show", "ada", "--json").json["tasks"]) == 2
