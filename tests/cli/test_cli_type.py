"""`rota type`."""

from __future__ import annotations

import pytest
from command_line import CallRota, dead_letter

pytestmark = pytest.mark.usefixtures("config")


def test_ls_joins_the_store_and_the_configuration(rota: CallRota) -> None:
    dead_letter("export")

    items = {item["name"]: item for item in rota("type", "ls", "--json").json["items"]}

    assert list(items) == ["agent", "asleep", "export", "memory_compression", "nightly"]
    assert items["export"]["source"] == "store"
    assert items["export"]["counts"]["failed"] == 1
    assert (items["nightly"]["source"], items["nightly"]["trigger"]) == ("config", "0 3 * * * (Europe/Berlin)")
    assert items["asleep"]["enabled"] is False


def test_ls_as_a_table(rota: CallRota) -> None:
    lines = rota("type", "ls").out.splitlines()

    assert lines[0].split()[:3] == ["TYPE", "STATE", "TRIGGER"]
    assert any("memory_compression" in line and "30m after activity" in line for line in lines)
    assert any("asleep" in line and "off (config)" in line for line in lines)


def test_show(rota: CallRota) -> None:
    shown = rota("type", "show", "memory_compression", "--json").json

    assert shown["settings"]["interval"] == "30m"
    assert shown["settings"]["retry"] == {"base": "10s", "factor": 2.0, "max": "1h"}
    assert shown["counts"]["pending"] == 0
    assert "30m" in rota("type", "show", "memory_compression").out


def test_disable_holds_until_enable(rota: CallRota) -> None:
    off = rota("type", "disable", "memory_compression", "--json").json
    refused = rota("task", "touch", "memory_compression", "--user", "u", "--json").json
    on = rota("type", "enable", "memory_compression", "--json").json
    taken = rota("task", "touch", "memory_compression", "--user", "u", "--json").json

    assert (off["enabled"], off["override"]) == (False, False)
    assert refused["outcome"] == "disabled"
    assert (on["enabled"], on["override"]) == (True, None)
    assert taken["outcome"] == "created"


def test_an_operator_cannot_overrule_the_configuration(rota: CallRota) -> None:
    said = rota("type", "enable", "asleep", "--json")

    assert said.code == 4
    assert "scheduler.tasks.asleep.enabled: false" in said.error["message"]


@pytest.mark.parametrize("verb", ["show", "enable", "disable"])
@pytest.mark.parametrize(("name", "words"), [("nightli", "Did you mean 'nightly'?"), ("", "no valid name")])
def test_bad_input_is_2(rota: CallRota, verb: str, name: str, words: str) -> None:
    said = rota("type", verb, name, "--json")

    assert said.code == 2
    assert words in said.error["message"]


def test_where_there_is_nothing_yet(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_CONFIG", "/dev/null")

    assert rota("type", "ls", "--json").json == {"items": [], "cursor": None}
    assert "scheduler.tasks" in rota("type", "ls").err
    assert "None is registered yet" in rota("type", "show", "x").err


def test_enabling_makes_the_series_of_a_type_on_a_schedule(rota: CallRota) -> None:
    rota("type", "disable", "nightly")

    assert rota("task", "ls", "--type", "nightly", "--json").json["items"] == []
    rota("type", "enable", "nightly")
    assert rota("task", "show", "nightly", "--json").json["status"] == "pending"


def test_freeze_drain_and_thaw(rota: CallRota) -> None:
    frozen = rota("type", "freeze", "memory_compression", "--json").json
    taken = rota("task", "touch", "memory_compression", "--user", "u", "--json").json
    both = rota("type", "drain", "memory_compression", "--json").json
    refused = rota("task", "touch", "memory_compression", "--user", "v", "--json").json
    thawed = rota("type", "thaw", "memory_compression", "--json").json

    assert (frozen["state"], frozen["overrides"]) == ("frozen", {"frozen": True})
    assert taken["outcome"] == "created"
    assert both["state"] == "frozen and draining"
    assert refused["outcome"] == "disabled"
    assert (thawed["state"], thawed["overrides"]) == ("on", {})


def test_limits_are_set_over_the_configuration_and_taken_back(rota: CallRota) -> None:
    limits = ("--concurrency", "2", "--rate", "0.5", "--burst", "3", "--max-pending", "10", "--start-rate", "4")

    limited = rota("type", "limit", "agent", *limits, "--json").json
    cleared = rota("type", "limit", "agent", "--clear", "--json").json

    assert limited["overrides"] == {
        "concurrency": 2,
        "max_pending": 10,
        "rate_limit": {"rate": 0.5, "burst": 3},
        "start_limit": {"rate": 4.0, "burst": 1},
    }
    assert limited["settings"]["max_pending"] == 10
    assert cleared["overrides"] == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Which limits?"),
        (("--rate", "1", "--clear"), "Which limits?"),
        (("--burst", "2"), "needs --rate"),
        (("--start-burst", "2"), "needs --start-rate"),
        (("--concurrency", "0"), "concurrency"),
        (("--rate", "-1"), "rate"),
    ],
)
def test_limits_that_cannot_be_are_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("type", "limit", "agent", *arguments, "--json")

    assert said.code == 2
    assert words in said.error["message"]


def test_queues(rota: CallRota) -> None:
    rota("task", "schedule", "agent", "--delay", "1h")
    rota("type", "limit", "agent", "--rate", "2")
    rota("type", "freeze", "agent")

    (queue,) = rota("queue", "ls", "--json").json["items"]

    assert (queue["task_type"], queue["state"], queue["pending"], queue["rate"]) == ("agent", "frozen", 1, 2.0)
    assert queue["due_at"] is not None
    assert "NEXT DUE" in rota("queue", "ls").out
