"""`rota task schedule`, `reset` and `explain`."""

from __future__ import annotations

import pytest
from command_line import CallRota, claim, dead_letter, with_store

from rota.core.task import Activity, Settlement, Transition
from rota.core.task_type import TaskType
from rota.stores.base import ClaimRequest, Store

pytestmark = pytest.mark.usefixtures("config")


def test_a_task_is_made_now(rota: CallRota) -> None:
    made = rota("task", "schedule", "agent", "brief", "--payload", '{"n": 1}', "--priority", "9", "--json").json
    shown = rota("task", "show", "agent/brief", "--json").json

    assert (made["outcome"], made["key"]) == ("created", "brief")
    assert (shown["payload"], shown["priority"], shown["status"]) == ({"n": 1}, 9, "pending")
    assert rota("task", "schedule", "agent", "brief", "--json").json["outcome"] == "exists"
    assert rota("task", "schedule", "agent", "brief", "--replace", "--json").json["outcome"] == "updated"


def test_without_a_key_every_call_makes_one(rota: CallRota) -> None:
    keys = {rota("task", "schedule", "agent", "--json").json["key"] for _ in range(2)}

    assert len(keys) == 2


def test_later(rota: CallRota) -> None:
    assert "due in 10h" in rota("task", "schedule", "agent", "a", "--delay", "10h").out
    at = rota("task", "schedule", "agent", "b", "--at", "2999-01-01T09:00:00", "--json").json["scheduled_at"]
    assert at.startswith("2999-01-01T09:00:00")


def test_for_a_user(rota: CallRota) -> None:
    made = rota("task", "schedule", "agent", "--user", "ada", "--device", "phone", "--json").json

    assert made["key"].startswith("ada:phone")
    assert rota("task", "ls", "--user", "ada", "--json").json["items"][0]["device_id"] == "phone"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("agnt",), "Did you mean 'agent'?"),
        (("agent", "k", "--payload", "{"), "no JSON"),
        (("agent", "k", "--at", "2001-01-01T00:00:00"), "past"),
        (("agent", "k", "--at", "2999-01-01", "--delay", "1m"), "one of them"),
        (("agent", "k", "--delay", "soon"), "soon"),
        (("agent", "k", "--user", "ada"), "Use one of them"),
        (("agent/k", "k"), "twice"),
        (("asleep", "k"), "disabled"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("task", "schedule", *arguments, "--json")

    assert (said.code, said.out) == (2, "")
    assert words in said.error["message"]


def test_reset_lets_activity_in_again(rota: CallRota) -> None:
    async def fail_for_good(store: Store) -> None:
        await store.put_types([TaskType(name="upkeep", interval_ms=0, max_retries=0)])
        await store.touch([Activity(task_type="upkeep", key="u", user_id="u")])
        request = ClaimRequest(wants=[("upkeep", 1)], instance="i", claim_id="c", lease_ms=60_000)
        (task,) = (await store.claim(request)).tasks
        await store.settle(
            [Settlement(task_type="upkeep", key="u", token=task.token, transition=Transition.FAIL, error="no")]
        )

    with_store(fail_for_good)

    said = rota("task", "reset", "upkeep", "u")

    assert said.code == 0
    assert "forgotten" in said.out
    assert rota("task", "reset", "nothing", "u").code == 2


def test_explain_says_why_a_task_waits(rota: CallRota) -> None:
    rota("task", "schedule", "agent", "later", "--delay", "1h")
    rota("task", "schedule", "agent", "held")
    rota("task", "pause", "agent/held")

    later = rota("task", "explain", "agent/later", "--json").json
    held = rota("task", "explain", "agent", "held")

    assert later["state"] == "pending"
    assert later["due_at"] is not None
    assert "agent/held: " in held.out
    assert "paused" in held.out
    assert rota("task", "explain", "agent/nobody").code == 2


def test_a_dead_letter_is_explained_too(rota: CallRota) -> None:
    dead_letter("export")
    with_store(claim("export", "running"))

    assert rota("task", "explain", "export/k", "--json").json["state"] == "failed"
    assert rota("task", "explain", "export/running", "--json").json["state"] == "running"
