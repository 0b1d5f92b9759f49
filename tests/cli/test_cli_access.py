"""`rota token` and `rota audit`: who may, and who did."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
from command_line import CallRota, dead_letter


def entries(rota: CallRota, *arguments: str) -> list[dict[str, str]]:
    return rota("audit", "ls", "--json", *arguments).json["items"]


def test_a_token_is_shown_once(rota: CallRota, tmp_path: Path) -> None:
    made = rota("token", "add", "grafana", "--role", "viewer", "--expires", "90d", "--json").json

    assert made["secret"].startswith("rota_")
    (listed,) = rota("token", "ls", "--json").json["items"]
    assert {**listed, "secret": made["secret"]} == made
    assert (listed["name"], listed["role"], listed["revoked_at"]) == ("grafana", "viewer", None)
    assert listed["expires_at"] > listed["created_at"]
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("rota.db*"))
    assert made["secret"].encode() not in kept


def test_for_a_person_the_secret_alone_is_the_answer(rota: CallRota) -> None:
    said = rota("token", "add", "ops", "--role", "operator")

    assert said.out.startswith("rota_")
    assert said.out.count("\n") == 1
    assert "Bearer" in said.err


def test_revoke(rota: CallRota) -> None:
    made = rota("token", "add", "x", "--json").json

    assert "is revoked" in rota("token", "revoke", made["id"]).out
    assert rota("token", "ls", "--json").json["items"][0]["revoked_at"] is not None
    missing = rota("token", "revoke", "nope", "--json")
    assert (missing.code, missing.error["code"]) == (2, "unknown_token")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), "1 to 100 characters"),
        (("x", "--role", "admn"), "Did you mean 'admin'?"),
        (("x", "--expires", "soon"), "soon"),
        (("x", "--expires", "0s"), "at once"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("token", "add", *arguments, "--json")

    assert said.code == 2
    assert words in said.error["message"]
    assert rota("token", "ls", "--json").json["items"] == []


@pytest.mark.usefixtures("config")
def test_every_action_is_in_the_log(rota: CallRota) -> None:
    """Whatever changes something at the command line, with who did it and how it went."""
    dead_letter("export", "a", "b")
    expected = [
        ("task.schedule", ("task", "schedule", "agent", "k")),
        ("task.pause", ("task", "pause", "agent/k")),
        ("task.resume", ("task", "resume", "agent/k")),
        ("task.run_now", ("task", "run-now", "agent/k")),
        ("task.cancel", ("task", "cancel", "agent/k")),
        ("task.purge", ("task", "purge", "agent/k")),
        ("task.reset", ("task", "reset", "memory_compression", "--user", "u")),
        ("tasks.pause", ("task", "pause", "--all", "--type", "export")),
        ("tasks.redrive", ("dlq", "redrive", "export/a")),
        ("tasks.purge", ("dlq", "purge", "--all")),
        ("schedule.upsert", ("schedule", "add", "agent", "s", "--every", "1h")),
        ("task.pause", ("schedule", "pause", "agent", "s")),
        ("task.resume", ("schedule", "resume", "agent", "s")),
        ("task.run_now", ("schedule", "run-now", "agent", "s")),
        ("task.cancel", ("schedule", "cancel", "agent", "s")),
        ("type.override", ("type", "disable", "agent")),
        ("type.override", ("type", "enable", "agent")),
        ("type.override", ("type", "freeze", "agent")),
        ("type.override", ("type", "drain", "agent")),
        ("type.override", ("type", "thaw", "agent")),
        ("type.override", ("type", "limit", "agent", "--concurrency", "2")),
        ("user.export", ("user", "export", "u")),
        ("user.erase", ("user", "erase", "u", "--yes")),
        ("token.add", ("token", "add", "x")),
    ]
    for _, command in expected:
        said = rota(*command)
        assert said.code == 0, said.err

    found = entries(rota, "--limit", "200")

    assert [entry["action"] for entry in reversed(found)] == [action for action, _ in expected]
    assert {entry["actor"] for entry in found} == {f"cli:{getpass.getuser()}"}
    assert {(entry["via"], entry["outcome"]) for entry in found} == {("cli", "ok")}


def test_a_refusal_is_in_the_log_too(rota: CallRota) -> None:
    dead_letter("export")

    assert rota("task", "pause", "export/k").code == 4
    (entry,) = entries(rota)
    assert entry["outcome"].startswith("illegal_transition")
    assert json.loads(entry["before"])["status"] == "failed"


def test_pages_and_filters_of_the_log(rota: CallRota) -> None:
    for name in ("a", "b", "c"):
        rota("token", "add", name)
    rota("token", "revoke", rota("token", "ls", "--json").json["items"][0]["id"])

    first = rota("audit", "ls", "--limit", "2", "--json").json
    rest = rota("audit", "ls", "--limit", "2", "--cursor", first["cursor"], "--json").json

    assert len(first["items"]) == len(rest["items"]) == 2
    assert [entry["target"] for entry in entries(rota, "--action", "token.add")] == ["c", "b", "a"]
    assert entries(rota, "--actor", "nobody") == []
    assert "Nothing was done" in rota("audit", "ls", "--actor", "nobody").err
    assert rota("audit", "ls", "--cursor", "x").code == 2


def test_looking_leaves_no_entry(rota: CallRota) -> None:
    for command in ("task ls", "type ls", "run ls", "queue ls", "instance ls", "token ls", "user show u"):
        assert rota(*command.split()).code == 0

    assert entries(rota) == []
