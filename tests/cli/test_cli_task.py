"""`rota task`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import CallRota, claim, dead_letter, with_store

from rota.core.task import Identity, TaskStatus
from rota.stores.base import Store

pytestmark = pytest.mark.usefixtures("config")

TYPE = "memory_compression"


def touch(rota: CallRota, user: str = "u1") -> None:
    assert rota("task", "touch", TYPE, "--user", user, "--json").code == 0


def test_touch_prints_the_touch(rota: CallRota) -> None:
    first = rota("task", "touch", TYPE, "--user", "u1", "--device", "phone", "--json")
    second = rota("task", "touch", TYPE, "--user", "u1", "--device", "phone", "--json")

    assert first.code == 0
    assert set(first.json) == {"outcome", "scheduled_at", "coalesced"}
    assert (first.json["outcome"], first.json["coalesced"]) == ("created", 0)
    assert (second.json["outcome"], second.json["coalesced"]) == ("coalesced", 1)
    assert first.json["scheduled_at"] == second.json["scheduled_at"]
    assert first.json["scheduled_at"].endswith("Z")


def test_touch_in_words(rota: CallRota) -> None:
    said = rota("task", "touch", TYPE, "--user", "u1")

    # The words are made a moment after the touch, and count the seconds since then.
    assert re.fullmatch(r"memory_compression/u1:default:default: created: due in (30m|29m\d+s)\.\n", said.out)


def test_touch_registers_a_type_that_only_the_configuration_knows(rota: CallRota) -> None:
    touch(rota)

    async def names(store: Store) -> list[str]:
        return [record.task_type.name for record in await store.list_types()]

    assert with_store(names) == [TYPE]


def test_touch_of_a_type_that_is_off_is_an_answer(rota: CallRota) -> None:
    assert rota("task", "touch", "asleep", "--user", "u1", "--json").json["outcome"] == "disabled"


def test_touch_where_the_scheduler_is_off(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SCHEDULER__ENABLED", "false")

    assert rota("task", "touch", TYPE, "--user", "u1", "--json").json["outcome"] == "disabled"


def test_ls_pages_and_filters(rota: CallRota) -> None:
    for user in ("u1", "u2", "u3"):
        touch(rota, user)

    for sort, users in (("key", ["u1", "u2", "u3"]), ("-changed", ["u3", "u2", "u1"]), ("due", ["u1", "u2", "u3"])):
        page = rota("task", "ls", "--sort", sort, "--limit", "2", "--json").json
        rest = rota("task", "ls", "--sort", sort, "--limit", "2", "--cursor", page["cursor"], "--json").json

        assert [item["user_id"] for item in page["items"] + rest["items"]] == users
        assert rest["cursor"] is None
    assert [item["user_id"] for item in rota("task", "ls", "--json").json["items"]] == ["u3", "u2", "u1"]
    assert len(rota("task", "ls", "--since", "1h", "--json").json["items"]) == 3
    assert rota("task", "ls", "--until", "1h", "--json").json["items"] == []
    assert len(rota("task", "ls", "--user", "u2", "--json").json["items"]) == 1
    assert rota("task", "ls", "--status", "failed", "--json").json["items"] == []
    assert len(rota("task", "ls", "--type", TYPE, "--json").json["items"]) == 3


def test_ls_as_a_table(rota: CallRota) -> None:
    touch(rota)

    heading, row = rota("task", "ls").out.splitlines()

    assert heading.split()[:4] == ["TYPE", "KEY", "STATUS", "DUE"]
    assert row.split()[:3] == [TYPE, "u1:default:default", "pending"]


def test_an_empty_list_says_what_to_do(rota: CallRota) -> None:
    said = rota("task", "ls")

    assert (said.code, said.out) == (0, "")
    assert "rota task touch" in said.err


@pytest.mark.parametrize(
    "named",
    [
        (TYPE, "u1:default:default"),
        (f"{TYPE}/u1:default:default",),
        (TYPE, "--user", "u1"),
    ],
)
def test_a_task_is_named_by_key_by_one_word_or_by_user(rota: CallRota, named: tuple[str, ...]) -> None:
    touch(rota)

    shown = rota("task", "show", *named, "--json").json

    assert (shown["task_type"], shown["user_id"], shown["status"]) == (TYPE, "u1", "pending")


def test_pause_resume_run_now_cancel(rota: CallRota) -> None:
    touch(rota)
    target = (TYPE, "--user", "u1", "--json")

    assert rota("task", "pause", *target).json["status"] == "paused"
    assert rota("task", "resume", *target).json["status"] == "pending"
    before = rota("task", "show", *target).json["scheduled_at"]
    assert rota("task", "run-now", *target).json["scheduled_at"] < before
    assert rota("task", "cancel", *target).json["status"] == "cancelled"


def test_what_the_state_does_not_allow_is_4(rota: CallRota) -> None:
    touch(rota)
    rota("task", "cancel", TYPE, "--user", "u1")

    said = rota("task", "pause", TYPE, "--user", "u1", "--json")

    assert said.code == 4
    assert said.error["code"] == "illegal_transition"
    assert "is cancelled and cannot be paused" in said.error["message"]


def test_running_tasks_are_asked_not_forced(rota: CallRota) -> None:
    with_store(claim("slow"))

    assert rota("task", "run-now", "slow", "k").code == 4
    assert rota("task", "pause", "slow", "k").out == "slow/k: running; it will be paused when its run ends.\n"
    assert rota("task", "cancel", "slow", "k").out == "slow/k: running; its run is being cancelled.\n"


def test_the_global_task_needs_no_key(rota: CallRota, config: Path) -> None:
    from rota import load_config
    from rota.runtime import declare

    with_store(lambda store: declare(store, load_config(config).tasks.values()))

    for named in (("nightly",), ("nightly", "global"), ("nightly", "%global")):
        assert rota("task", "show", *named, "--json").json["key"] == "%global"
    assert " global " in rota("task", "ls", "--type", "nightly").out


def test_a_user_named_global_is_found_first(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SCHEDULER__USER_KEY_CONFIG__USE_DEVICE_ID", "false")
    monkeypatch.setenv("ROTA_SCHEDULER__USER_KEY_CONFIG__USE_AGENT_ID", "false")
    touch(rota, "global")

    assert rota("task", "show", TYPE, "global", "--json").json["user_id"] == "global"


def test_a_failed_task_shows_why(rota: CallRota) -> None:
    dead_letter("export", "k")

    shown = rota("task", "show", "export/k").out

    assert "it answers 500" in shown
    assert "failed" in shown


def test_hostile_ids_do_not_repaint_the_terminal(rota: CallRota) -> None:
    touch(rota, "\x1b[2Jboo[red]")

    listed = rota("task", "ls")

    assert "\x1b" not in listed.out
    assert "\\x1b[2Jboo[red]" in listed.out
    assert rota("task", "ls", "--json").json["items"][0]["user_id"] == "\x1b[2Jboo[red]"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("touch", "memory_compresion", "--user", "u"), "unknown_task_type", "Did you mean 'memory_compression'?"),
        (("touch", TYPE, "--user", ""), "invalid_input", "user_id is empty"),
        (("touch", TYPE, "--user", "x" * 256), "limit_exceeded", "255"),
        (("touch", "nightly", "--user", "u"), "invalid_input", "rota task run-now nightly"),
        (("touch", "No Type", "--user", "u"), "invalid_input", "no valid name"),
        (("ls", "--type", "nothing"), "unknown_task_type", "'nothing'"),
        (("ls", "--limit", "0"), "limit_exceeded", "1 to 1,000"),
        (("ls", "--limit", "1001"), "limit_exceeded", "1 to 1,000"),
        (("ls", "--cursor", "rubbish"), "invalid_input", "cursor"),
        (("show", TYPE, "nobody"), "unknown_task", "rota task ls --type memory_compression"),
        (("show", TYPE, ""), "invalid_input", "empty"),
        (("show", TYPE, "k", "--user", "u"), "invalid_input", "Use one of them"),
        (("show", f"{TYPE}/k", "k"), "invalid_input", "given twice"),
        (("show", TYPE, "--device", "d"), "invalid_input", "need --user"),
        (("pause", TYPE, "nobody"), "unknown_task", "There is no task"),
        (("resume", "nothing", "k"), "unknown_task_type", "'nothing'"),
        (("cancel", TYPE, "nobody"), "unknown_task", "There is no task"),
        (("run-now", TYPE, "nobody"), "unknown_task", "There is no task"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], code: str, words: str) -> None:
    said = rota("task", *arguments, "--json")

    assert said.code == 2
    assert said.error["code"] == code
    assert words in said.error["message"]


def test_the_record_is_what_the_store_holds(rota: CallRota) -> None:
    touch(rota)

    async def status(store: Store) -> TaskStatus | None:
        task = (await store.get([Identity(TYPE, "u1:default:default")]))[0]
        return None if task is None else task.status

    rota("task", "pause", TYPE, "--user", "u1")
    assert with_store(status) is TaskStatus.PAUSED
