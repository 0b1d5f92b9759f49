"""An operator's day on each shared store: nothing in the commands knows which one it is."""

from __future__ import annotations

import pytest
from command_line import CallRota, dead_letter


@pytest.fixture(params=["postgres_url", "redis_url"], autouse=True)
def _shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE", request.getfixturevalue(request.param))


@pytest.mark.usefixtures("config")
def test_an_operators_day(rota: CallRota) -> None:
    dead_letter("export", "a", "b")

    assert rota("task", "schedule", "agent", "k", "--delay", "1h", "--user", "ada", "--json").code == 2
    assert rota("task", "schedule", "agent", "k", "--delay", "1h", "--json").json["outcome"] == "created"
    assert rota("task", "touch", "memory_compression", "--user", "ada", "--json").json["outcome"] == "created"
    assert rota("task", "explain", "agent/k", "--json").json["state"] == "pending"
    assert rota("task", "redrive", "--all", "--json").json["changed"] == 2
    assert rota("task", "ls", "--search", "ada", "--json").json["items"][0]["user_id"] == "ada"
    assert rota("type", "limit", "agent", "--rate", "2", "--json").json["overrides"]["rate_limit"]["rate"] == 2.0
    assert rota("type", "freeze", "agent", "--json").json["state"] == "frozen"
    queues = {queue["task_type"]: queue for queue in rota("queue", "ls", "--json").json["items"]}
    assert (queues["agent"]["pending"], queues["agent"]["state"]) == (1, "frozen")
    assert rota("top", "--json").json["counts"]["pending"] == 4
    assert '"kind":"task"' in rota("user", "export", "ada").out
    assert rota("user", "erase", "ada", "--yes", "--json").json["erased"] is True
    assert rota("user", "show", "ada", "--json").json["tasks"] == []
    token = rota("token", "add", "ops", "--json").json["id"]
    assert rota("token", "revoke", token).code == 0
    actions = [entry["action"] for entry in rota("audit", "ls", "--json").json["items"]]
    assert actions == [
        *("token.revoke", "token.add", "user.erase", "user.export", "type.override", "type.override"),
        *("tasks.redrive", "task.schedule"),
    ]
