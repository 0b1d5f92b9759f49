"""One event on all tasks that match: counted, asked, done."""

from __future__ import annotations

import threading

import pytest
import typer
from command_line import CallRota, dead_letter, with_store

from rota.core.task import NewTask, TaskStatus
from rota.core.task_type import TaskType, TriggerMode
from rota.stores.base import Store, TaskQuery


@pytest.fixture(autouse=True)
def tasks() -> None:
    """Five mails of two users, and one report."""

    async def make(store: Store) -> None:
        await store.put_types([TaskType(name=name, trigger_mode=TriggerMode.ONCE) for name in ("mail", "report")])
        mails = [NewTask(task_type="mail", key=f"m{n}", user_id="ada" if n < 3 else "bob") for n in range(5)]
        await store.schedule([*mails, NewTask(task_type="report", key="r")])

    with_store(make)


def in_state(status: TaskStatus) -> list[str]:
    async def keys(store: Store) -> list[str]:
        return [str(task.identity) for task in (await store.find(TaskQuery(status=status))).items]

    return with_store(keys)


def test_all_of_a_type(rota: CallRota) -> None:
    said = rota("task", "pause", "--all", "--type", "mail", "--json")

    assert said.json == {"matching": 5, "is_all": True, "changed": 5, "refused": 0}
    assert in_state(TaskStatus.PENDING) == ["report/r"]


def test_resume_means_those_that_are_paused(rota: CallRota) -> None:
    rota("task", "pause", "mail", "m1")

    assert rota("task", "resume", "--all").out == "1 task resumed.\n"
    assert in_state(TaskStatus.PAUSED) == []


def test_redrive_means_those_that_failed(rota: CallRota) -> None:
    dead_letter("export", "a", "b")

    assert rota("task", "redrive", "--all", "--json").json["changed"] == 2
    assert rota("task", "show", "export/a", "--json").json["status"] == "pending"


def test_filters_narrow_it(rota: CallRota) -> None:
    assert rota("task", "cancel", "--all", "--user", "bob", "--json").json["changed"] == 2
    assert rota("task", "pause", "--all", "--search", "m2", "--json").json["changed"] == 1
    assert in_state(TaskStatus.CANCELLED) == ["mail/m3", "mail/m4"]
    assert in_state(TaskStatus.PAUSED) == ["mail/m2"]


def test_what_its_state_forbids_is_left_alone_and_told(rota: CallRota) -> None:
    rota("task", "cancel", "mail/m0")

    said = rota("task", "pause", "--all", "--type", "mail")

    assert said.out == "4 tasks paused. 1 left alone: their state does not allow it.\n"


def test_purge_removes_for_good(rota: CallRota) -> None:
    rota("task", "cancel", "--all", "--type", "mail")

    assert rota("task", "purge", "mail/m0", "--json").json == {"task_type": "mail", "key": "m0", "purged": True}
    assert rota("task", "purge", "--all", "--status", "cancelled", "--json").json["changed"] == 4
    assert rota("task", "ls", "--type", "mail", "--json").json["items"] == []


def test_a_dry_run_changes_nothing(rota: CallRota) -> None:
    said = rota("task", "cancel", "--all", "--type", "mail", "--dry-run")

    assert said.out == "5 tasks would be cancelled, if their state allows it.\n"
    assert len(in_state(TaskStatus.PENDING)) == 6


def test_a_terminal_is_asked_first(rota: CallRota, questions: list[str]) -> None:
    assert rota("task", "cancel", "--all", "--type", "mail").out == "Nothing was changed.\n"
    assert questions == ["Cancel 5 tasks?"]
    assert rota("task", "cancel", "--all", "--type", "mail", "--yes").out == "5 tasks cancelled.\n"
    assert len(questions) == 1


def test_what_a_person_agreed_to_is_all_that_is_done(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    async def one_more(store: Store) -> None:
        await store.schedule([NewTask(task_type="mail", key="late")])

    def yes(question: str, **_: object) -> bool:
        # While somebody reads the question; on a thread, because there is an event loop on this one.
        meddling = threading.Thread(target=with_store, args=(one_more,))
        meddling.start()
        meddling.join()
        return True

    monkeypatch.setattr("rota.cli.bulk.is_person", lambda: True)
    monkeypatch.setattr(typer, "confirm", yes)

    said = rota("task", "cancel", "--all", "--type", "mail")

    assert said.code != 0
    assert "5 tasks were confirmed, but 6 match now. Nothing was changed" in said.err
    assert in_state(TaskStatus.CANCELLED) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pause",), "Which task?"),
        (("pause", "--all"), "Name a type"),
        (("pause", "mail/m0", "--all"), "Both 'mail/m0' and --all"),
        (("pause", "--all", "--type", "mail", "--device", "d"), "--device"),
        (("pause", "mail", "m0", "--status", "pending"), "go with --all"),
        (("pause", "mail", "m0", "--dry-run"), "go with --all"),
        (("pause", "--all", "--type", "mial"), "Did you mean 'mail'?"),
        (("pause", "--all", "--status", "asleep"), "'asleep'"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("task", *arguments, "--json")

    assert (said.code, said.out) == (2, "")
    assert words in said.error["message"]
    assert len(in_state(TaskStatus.PENDING)) == 6


def test_ls_filters_by_what_it_is_not_and_by_a_text(rota: CallRota) -> None:
    rota("task", "pause", "mail/m1")

    without = rota("task", "ls", "--type", "mail", "--without", "paused", "--json").json["items"]
    found = rota("task", "ls", "--search", "bo", "--json").json["items"]

    assert [item["key"] for item in without] == ["m0", "m2", "m3", "m4"]
    assert [item["key"] for item in found] == ["m3", "m4"]


def test_several_tasks_are_named_at_once(rota: CallRota) -> None:
    assert rota("task", "pause", "mail/m1", "report/r", "--dry-run").out.startswith("2 tasks would be paused")
    assert rota("task", "pause", "mail/m1", "report/r", "mail/m1").out == "2 tasks paused.\n"
    assert in_state(TaskStatus.PAUSED) == ["mail/m1", "report/r"]
    said = rota("task", "resume", "mail/m1", "mail/m2", "mail/none", "--json")
    assert said.json == {"matching": 3, "is_all": True, "changed": 1, "refused": 2}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["mail/m1", "m2", "mail/m3"], "'m2' names no task. Write each of several as TYPE/KEY"),
        (["mail", "m1", "m2"], "'mail' names no task"),
        (["mail/m1", "m2"], "The key was given twice"),
        (["mail/m1", "mial/m2"], "mial"),
        (["mail/m1", "mail/m2", "--user", "ada"], "Leave them out where several are named"),
        (["mail/m1", "mail/m2", "--all"], "Both 'mail/m1' and --all were given"),
        (["mail/m1", "mail/m2", "--status", "failed"], "go with --all"),
    ],
)
def test_names_that_cannot_be_meant_change_nothing(rota: CallRota, names: list[str], sentence: str) -> None:
    said = rota("task", "pause", *names)
    assert said.code != 0
    assert sentence in said.err
    assert in_state(TaskStatus.PAUSED) == []
