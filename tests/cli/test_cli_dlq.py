"""`rota dlq`: dead letters."""

from __future__ import annotations

import pytest
from command_line import CallRota, dead_letter, with_store

from rota.core.task import TaskStatus
from rota.stores.base import Store, TaskQuery


def failed() -> list[str]:
    async def keys(store: Store) -> list[str]:
        return [str(task.identity) for task in (await store.find(TaskQuery(status=TaskStatus.FAILED))).items]

    return with_store(keys)


@pytest.fixture
def letters() -> None:
    dead_letter("export", "a", "b", "c")
    dead_letter("mail", "a")


@pytest.mark.usefixtures("letters")
def test_ls(rota: CallRota) -> None:
    items = rota("dlq", "ls", "--sort", "key", "--json").json["items"]

    assert sorted(rota("dlq", "ls", "--json").json["items"], key=lambda item: (item["task_type"], item["key"])) == items
    assert [(item["task_type"], item["key"]) for item in items] == [
        ("export", "a"),
        ("export", "b"),
        ("export", "c"),
        ("mail", "a"),
    ]
    assert items[0]["error"] == "it answers 500"
    assert len(rota("dlq", "ls", "--type", "mail", "--json").json["items"]) == 1
    assert "export/a" in rota("dlq", "ls").out
    assert "--cursor" in rota("dlq", "ls", "--limit", "2").err


@pytest.mark.usefixtures("letters")
def test_redrive_one_and_several(rota: CallRota) -> None:
    assert rota("dlq", "redrive", "export/a", "--json").json == {"matching": 1, "redriven": 1}
    assert rota("dlq", "redrive", "export/b", "mail/a", "--json").json == {"matching": 2, "redriven": 2}
    assert failed() == ["export/c"]
    assert rota("task", "show", "export/a", "--json").json["status"] == "pending"


@pytest.mark.usefixtures("letters")
def test_keys_alone_with_a_type(rota: CallRota) -> None:
    assert rota("dlq", "purge", "--type", "export", "a", "export/b").out == "2 dead letters purged.\n"
    assert failed() == ["export/c", "mail/a"]


@pytest.mark.usefixtures("letters")
def test_all_of_a_type_and_all(rota: CallRota) -> None:
    assert rota("dlq", "redrive", "--all", "--type", "export", "--json").json == {"matching": 3, "redriven": 3}
    assert failed() == ["mail/a"]
    assert rota("dlq", "purge", "--all", "--json").json == {"matching": 1, "purged": 1}
    assert rota("dlq", "purge", "--all", "--json").json == {"matching": 0, "purged": 0}


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("verb", ["redrive", "purge"])
def test_a_dry_run_changes_nothing(rota: CallRota, verb: str) -> None:
    said = rota("dlq", verb, "--all", "--dry-run")

    assert said.out.startswith("4 dead letters would be ")
    assert len(failed()) == 4


@pytest.mark.usefixtures("letters")
def test_a_terminal_is_asked_first(rota: CallRota, questions: list[str]) -> None:
    assert rota("dlq", "purge", "--all").out == "Nothing was changed.\n"
    assert questions == ["Remove 4 dead letters for good?"]
    assert len(failed()) == 4
    assert rota("dlq", "purge", "--all", "--yes").out == "4 dead letters purged.\n"
    assert len(questions) == 1


@pytest.mark.usefixtures("letters")
def test_what_is_no_dead_letter_stops_all(rota: CallRota) -> None:
    rota("dlq", "redrive", "export/a")

    said = rota("dlq", "purge", "export/b", "export/a")

    assert said.code == 4
    assert "'export/a' is pending" in said.err
    assert "export/b" in failed()


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("verb", ["redrive", "purge"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Which dead letters?"),
        (("export/a", "--all"), "Which dead letters?"),
        (("a",), "TYPE/KEY"),
        (("export/nobody",), "There is no task 'export/nobody'"),
        (("nothing/a",), "'nothing'"),
        (("--all", "--type", "nothing"), "'nothing'"),
        (("export/",), "empty"),
    ],
)
def test_bad_input_is_2(rota: CallRota, verb: str, arguments: tuple[str, ...], words: str) -> None:
    said = rota("dlq", verb, *arguments, "--json")

    assert (said.code, said.out) == (2, "")
    assert words in said.error["message"]
    assert len(failed()) == 4


def test_nothing_is_dead(rota: CallRota) -> None:
    assert rota("dlq", "ls").err.endswith("No dead letters.\n")
