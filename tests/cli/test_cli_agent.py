"""`rota agent` and `rota mcp`: what a person does about scheduled agents."""

from __future__ import annotations

import pytest
from command_line import CallRota


@pytest.fixture
def family(rota: CallRota) -> str:
    """A group, and the id of a schedule of its."""
    assert rota("agent", "group", "add", "family", "--timezone", "Asia/Tokyo").code == 0
    return str(rota("agent", "add", "family", "What changed?", "--cron", "0 9 * * 1-5", "--json").json["id"])


def test_a_schedule_from_its_making_to_its_end(rota: CallRota, family: str) -> None:
    (listed,) = rota("agent", "ls", "--json").json["items"]
    assert (listed["id"], listed["words"], listed["timezone"]) == (family, "at 09:00, Monday to Friday", "Asia/Tokyo")
    assert rota("agent", "pause", family, "--json").json["status"] == "paused"
    assert rota("agent", "resume", family, "--json").json["status"] == "active"
    assert "is due now" in rota("agent", "run", family).out
    assert rota("agent", "log", family, "--json").json["items"] == []
    assert rota("agent", "cancel", family, "--json").json["status"] == "cancelled"
    assert rota("agent", "ls", "--json").json["items"] == []
    assert len(rota("agent", "ls", "--all", "--json").json["items"]) == 1
    actions = [entry["action"] for entry in rota("audit", "ls", "--json").json["items"]]
    assert actions[:4] == ["agent.cancel_task", "agent.run_task", "agent.resume_task", "agent.pause_task"]


def test_the_kill_switch_and_back(rota: CallRota, family: str) -> None:
    assert "The kill switch of the group 'family' is on" in rota("agent", "kill", "family", "--reason", "enough").out
    (group,) = rota("agent", "group", "ls", "--json").json["items"]
    assert "enough" in group["stopped"]
    assert rota("agent", "revive", "family").code == 0
    assert rota("agent", "group", "ls", "--json").json["items"][0]["stopped"] is None
    assert rota("agent", "group", "rm", "family").code == 0


def test_a_token_of_a_group(rota: CallRota, family: str) -> None:
    made = rota("agent", "token", "family", "--tool", "list_tasks", "--expires", "1d", "--json").json
    assert made["scope"] == {"group": "family", "tools": ["list_tasks"]}
    assert made["secret"].startswith("rota_")
    assert rota("agent", "token", "family").out.startswith("rota_")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("agent", "add", "family", "x"), "--cron"),
        (("agent", "add", "family", "x", "--cron", "99 * * * *"), "99"),
        (("agent", "add", "nobody", "x", "--every", "1h"), "Group not found: nobody"),
        (("agent", "add", "family", "x", "--every", "1h", "--script", "nowhere.sh"), "nowhere.sh"),
        (("agent", "group", "add", "../etc"), "not allowed"),
        (("agent", "token", "family", "--tool", "approve"), "approve"),
        (("agent", "stop", "task-1"), "no schedule"),
        (("agent", "approve", "task-1"), "no schedule"),
        (("mcp", "--group", "nobody"), "Group not found: nobody"),
    ],
)
def test_what_is_wrong_is_said(rota: CallRota, family: str, arguments: tuple[str, ...], said: str) -> None:
    answer = rota(*arguments)

    assert answer.code != 0
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_what_waits_and_what_runs_can_be_seen(rota: CallRota, family: str) -> None:
    assert rota("agent", "waiting").err + rota("agent", "waiting").out != ""
    assert rota("agent", "running", "--json").json["items"] == []
    assert rota("agent", "show", family, "--json").json["id"] == family
