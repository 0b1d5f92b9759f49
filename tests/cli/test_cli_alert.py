"""`rota alert`, and the schema of the API."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import CallRota, dead_letter, serving

from rota.testing.waiting import until_blocking

RULES = """
alerts:
  check_interval: 1s
  defaults: false
  rules:
    letters: {kind: dead_letters, threshold: 1, for: 0s, to: [log]}
  sinks:
    file: {command: [%s, -c, "import sys; open('taken', 'w').write(sys.stdin.read())"]}
    broken: {command: ["/no/such/program"]}
"""


@pytest.fixture(autouse=True)
def rules(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text(RULES % sys.executable)


def test_nothing_fires_at_first(rota: CallRota) -> None:
    assert rota("alert", "ls", "--json").json == {"items": [], "cursor": None}
    assert rota("alert", "ls").err.endswith("Nothing fires.\n")
    assert "Nothing has fired" in rota("alert", "history").err


@pytest.mark.parametrize("command", ["up --port 0", "worker --app project:app --alerts"])
def test_what_the_service_finds_is_listed(rota: CallRota, tmp_path: Path, command: str) -> None:
    (tmp_path / "project.py").write_text("from rota import Rota\napp = Rota()")
    dead_letter("export")
    with serving(*command.split(), "--json"):
        until_blocking(lambda: rota("alert", "ls", "--json").json["items"] != [], "it fires")

    (firing,) = rota("alert", "ls", "--json").json["items"]
    assert (firing["rule"], firing["subject"]) == ("letters", "export")
    (event,) = rota("alert", "history", "--json").json["items"]
    assert event["state"] == "firing"
    assert "letters" in rota("alert", "history").out


def test_a_sink_is_tried(rota: CallRota, tmp_path: Path) -> None:
    assert rota("alert", "test", "file", "--json").json == {"sink": "file", "delivered": True}
    assert "test" in (tmp_path / "taken").read_text()
    assert rota("alert", "test", "log").code == 0


def test_a_sink_that_cannot_be_reached(rota: CallRota) -> None:
    said = rota("alert", "test", "broken")

    assert said.code == 1
    assert "/no/such/program" in said.err
    unknown = rota("alert", "test", "fil")
    assert unknown.code == 2
    assert "Did you mean 'file'?" in unknown.err


def test_the_schema_is_printed_without_a_store(rota: CallRota, tmp_path: Path) -> None:
    schema = rota("openapi").json

    assert schema["openapi"].startswith("3.")
    assert "/api/tasks" in schema["paths"]
    assert not (tmp_path / "rota.db").exists()
