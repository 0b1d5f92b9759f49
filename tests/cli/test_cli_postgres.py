"""The same commands on a real PostgreSQL: nothing in them knows which store it is."""

from __future__ import annotations

import pytest
from command_line import CallRota, dead_letter


@pytest.fixture(autouse=True)
def _on_postgres(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE", postgres_url)


@pytest.mark.usefixtures("config")
def test_a_day_at_the_command_line(rota: CallRota) -> None:
    dead_letter("export", "a", "b")

    assert rota("task", "touch", "memory_compression", "--user", "u", "--json").json["outcome"] == "created"
    assert rota("schedule", "add", "agent", "x", "--every", "1h", "--json").json["status"] == "pending"
    assert rota("task", "pause", "agent/x", "--json").json["status"] == "paused"
    assert len(rota("task", "ls", "--json").json["items"]) == 4
    assert len(rota("run", "ls", "--json").json["items"]) == 2
    assert rota("dlq", "redrive", "--all", "--json").json == {"matching": 2, "redriven": 2}
    assert rota("type", "disable", "export", "--json").json["enabled"] is False


def test_the_doctor_comes_too(rota: CallRota) -> None:
    said = rota("doctor", "--json")

    assert said.code == 0
    assert {check["check"] for check in said.json["checks"]} == {
        *("python", "config", "store", "schema", "round trip", "clock", "instances", "work", "bus", "agents")
    }
