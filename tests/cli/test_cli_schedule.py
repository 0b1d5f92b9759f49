"""`rota schedule`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CallRota

pytestmark = pytest.mark.usefixtures("config")

DAILY = ("agent", "brief", "--cron", "0 9 * * 1-5", "--timezone", "Asia/Shanghai")


def test_add_is_an_upsert(rota: CallRota) -> None:
    first = rota("schedule", "add", *DAILY, "--json").json
    again = rota("schedule", "add", *DAILY, "--json").json
    changed = rota("schedule", "add", "agent", "brief", "--every", "30m", "--json").json

    assert (first["id"], first["task_type"], first["status"]) == ("brief", "agent", "pending")
    assert (first["kind"], first["value"], first["timezone"]) == ("cron", "0 9 * * 1-5", "Asia/Shanghai")
    assert first["next_fire"].endswith("T01:00:00.000Z")
    assert again["version"] == first["version"]
    assert (changed["kind"], changed["words"], changed["version"]) == ("interval", "every 30 minutes", 2)
    assert len(rota("schedule", "ls", "--json").json["items"]) == 1


def test_an_interval_that_is_added_again_keeps_its_grid(rota: CallRota) -> None:
    first = rota("schedule", "add", "agent", "tick", "--every", "1h", "--json").json
    again = rota("schedule", "add", "agent", "tick", "--every", "1h", "--json").json

    assert again["next_fire"] == first["next_fire"]


def test_every_option(rota: CallRota) -> None:
    options = "--owner ada --max-runs 3 --expires 90d --misfire all --overlap queue --jitter 5s --grace 1h --priority 9"

    info = rota("schedule", "add", *DAILY, *options.split(), "--payload", '{"prompt": "news?"}', "--json").json

    assert info["payload"] == {"prompt": "news?"}
    assert (info["owner"], info["max_runs"], info["priority"]) == ("ada", 3, 9)
    assert (info["misfire"], info["overlap"], info["jitter_ms"], info["grace_ms"]) == ("all", "queue", 5_000, 3_600_000)
    assert info["expires_at"] > info["created_at"]


def test_a_payload_from_a_file_or_from_stdin(rota: CallRota, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('["näher"]')

    from_file = rota("schedule", "add", "agent", "a", "--every", "1h", "--payload", f"@{file}", "--json").json
    from_stdin = rota(
        "schedule", "add", "agent", "b", "--every", "1h", "--payload", "-", "--json", stdin=b'{"n": 1}'
    ).json

    assert from_file["payload"] == ["näher"]
    assert from_stdin["payload"] == {"n": 1}


def test_once(rota: CallRota) -> None:
    info = rota(
        "schedule", "add", "agent", "party", "--at", "2099-12-31T23:59:00", "--timezone", "Europe/Berlin", "--json"
    ).json

    assert (info["kind"], info["next_fire"]) == ("once", "2099-12-31T22:59:00.000Z")


def test_in_words(rota: CallRota) -> None:
    said = rota("schedule", "add", "agent", "tick", "--every", "2h")

    assert said.out == "agent/tick: pending, every 2 hours, next in 2h.\n"


def test_ls_filters_and_pages(rota: CallRota) -> None:
    for name, owner in (("a", "ada"), ("b", "bao"), ("c", "ada")):
        rota("schedule", "add", "agent", name, "--every", "1h", "--owner", owner)
    rota("task", "touch", "memory_compression", "--user", "u")

    first = rota("schedule", "ls", "--limit", "2", "--json").json
    rest = rota("schedule", "ls", "--limit", "2", "--cursor", first["cursor"], "--json").json

    assert [item["id"] for item in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert [item["id"] for item in rota("schedule", "ls", "--owner", "ada", "--json").json["items"]] == ["a", "c"]
    assert rota("schedule", "ls", "--status", "paused", "--json").json["items"] == []
    assert rota("schedule", "ls").out.splitlines()[0].split()[:4] == ["TYPE", "ID", "STATUS", "WHEN"]


def test_a_schedule_s_life(rota: CallRota) -> None:
    rota("schedule", "add", *DAILY)
    target = ("agent", "brief", "--json")

    assert rota("schedule", "show", *target).json["words"] == "at 09:00, Monday to Friday"
    paused = rota("schedule", "pause", *target).json
    assert (paused["status"], paused["next_fire"]) == ("paused", None), "it waits for no fire"
    assert "next" not in rota("schedule", "pause", "agent", "brief").out
    assert rota("schedule", "resume", *target).json["status"] == "pending"
    before = rota("schedule", "show", *target).json["next_fire"]
    assert rota("schedule", "run-now", *target).json["next_fire"] == before
    assert rota("schedule", "cancel", *target).json["status"] == "cancelled"
    assert rota("schedule", "resume", *target).code == 4
    assert rota("schedule", "add", *DAILY, "--json").json["status"] == "pending"


ADD = ("add", "agent", "x")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (ADD, "--cron EXPR, --every D or --at TIME"),
        ((*ADD, "--cron", "* * * * *", "--every", "1h"), "--cron and --every were given"),
        ((*ADD, "--cron", "61 * * * *"), "61"),
        ((*ADD, "--cron", "0 9 * * *", "--timezone", "Asia/Shanghia"), "Did you mean 'Asia/Shanghai'?"),
        ((*ADD, "--every", "10ms"), "1 second"),
        ((*ADD, "--every", "soon"), "'soon'"),
        ((*ADD, "--at", "yesterday"), "ISO 8601"),
        ((*ADD, "--at", "2001-01-01T00:00:00"), "not in the future"),
        ((*ADD, "--every", "1h", "--payload", "{not json"), "is no JSON"),
        ((*ADD, "--every", "1h", "--payload", "@/no/such/file"), "/no/such/file"),
        ((*ADD, "--every", "1h", "--payload", "-"), "stdin"),
        ((*ADD, "--every", "1h", "--payload", f'"{"x" * 262_144}"'), "262,144"),
        ((*ADD, "--every", "1h", "--payload", "[" * 100_000), "is no JSON"),
        ((*ADD, "--every", "1h", "--priority", "11"), "priority"),
        ((*ADD, "--every", "1h", "--max-runs", "0"), "max_runs"),
        ((*ADD, "--every", "1h", "--expires", "2001-01-01"), "not in the future"),
        ((*ADD, "--every", "1h", "--jitter", "-1s"), "jitter"),
        ((*ADD, "--every", "1h", "--misfire", "never"), "--misfire"),
        ((*ADD, "--every", "1h", "--owner", "x" * 256), "255"),
        (("add", "agent", "", "--every", "1h"), "empty"),
        (("add", "agnt", "x", "--every", "1h"), "Did you mean 'agent'?"),
        (("ls", "--limit", "0"), "1 to 1,000"),
        (("ls", "--type", "nothing"), "'nothing'"),
        (("show", "agent", "nobody"), "There is no task 'agent/nobody'"),
        (("pause", "agent", "nobody"), "There is no task"),
        (("resume", "agent", "nobody"), "There is no task"),
        (("cancel", "agent", "nobody"), "There is no task"),
        (("run-now", "nothing", "nobody"), "'nothing'"),
        (("explain", "every tuesday"), "every tuesday"),
        (("explain", ""), "cron"),
        (("explain", "0 9 * * *", "--timezone", "Mars"), "Mars"),
        (("explain", "0 9 * * *", "-n", "1001"), "0 to 1000"),
        (("explain", "0 9 * * *", "--from", "noon"), "--from"),
        (("explain", "2026-13-01"), "2026-13-01"),
        (("explain", "500ms"), "1 second"),
        (("explain", "30m", "--kind", "cron"), "30m"),
        (("explain", "0 9 * * *", "--kind", "lunar"), "--kind"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("schedule", *arguments, "--json")

    assert (said.code, said.out) == (2, "")
    assert words in said.error["message"]


def test_a_task_without_a_trigger_is_no_schedule(rota: CallRota) -> None:
    rota("task", "touch", "memory_compression", "--user", "u")

    said = rota("schedule", "show", "memory_compression", "u:default:default")

    assert said.code == 2
    assert "is a task without a schedule" in said.err


# --- explain ------------------------------------------------------------------------------------------------------


def test_explain_over_a_change_of_the_clocks(rota: CallRota) -> None:
    said = rota(
        *("schedule", "explain", "30 2 * * *", "--timezone", "America/New_York"),
        *("--from", "2026-03-07T00:00:00", "-n", "3", "--json"),
    )

    assert said.code == 0
    assert said.json == {
        "words": "at 02:30, every day",
        "fires": ["2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"],
        "notes": ["2026-03-08: 02:30 does not exist in America/New_York, runs at 03:00"],
    }


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("30m", ["2026-03-07T00:30:00+00:00", "2026-03-07T01:00:00+00:00"]),
        ("3600000", ["2026-03-07T01:00:00+00:00", "2026-03-07T02:00:00+00:00"]),
        ("2026-03-07T09:00:00", ["2026-03-07T09:00:00+00:00"]),
        ("2026-03-07T00:00:00", ["2026-03-07T00:00:00+00:00"]),
        ("2026-03-06T00:00:00", []),
        ("0 0 * * *", ["2026-03-07T00:00:00+00:00", "2026-03-08T00:00:00+00:00"]),
        ("*/20 0 0 * * *", ["2026-03-07T00:00:00+00:00", "2026-03-07T00:00:20+00:00"]),
    ],
)
def test_explain_knows_what_it_was_given(rota: CallRota, expression: str, fires: list[str]) -> None:
    said = rota("schedule", "explain", expression, "--from", "2026-03-07T00:00:00", "-n", "2", "--json")

    assert said.json["fires"] == fires
    assert bool(said.json["notes"]) == (fires == [])


def test_explain_in_words_makes_no_store(rota: CallRota, tmp_path: Path) -> None:
    said = rota("schedule", "explain", "0 9 * * 1-5", "-n", "2", "--from", "2026-03-02T00:00:00Z")

    assert said.out.splitlines() == [
        "at 09:00, Monday to Friday (UTC)",
        "  2026-03-02T09:00:00+00:00",
        "  2026-03-03T09:00:00+00:00",
    ]
    assert not list(tmp_path.glob("*.db"))


def test_explain_takes_the_configured_zone(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TIMEZONE", "Asia/Tokyo")

    assert rota("schedule", "explain", "0 9 * * *", "-n", "1", "--json").json["fires"][0].endswith("T09:00:00+09:00")
