"""`rota run`: the run log."""

from __future__ import annotations

import pytest
from command_line import CallRota, dead_letter


def test_ls_and_show(rota: CallRota) -> None:
    dead_letter("export", "a", "b")

    runs = rota("run", "ls", "--json").json["items"]
    shown = rota("run", "show", runs[0]["run_id"], "--json").json

    assert [run["key"] for run in runs] == ["b", "a"]
    assert shown == {**runs[0], "details": None}
    assert (shown["status"], shown["error"]) == ("error", "it answers 500")


def test_ls_filters_and_pages(rota: CallRota) -> None:
    dead_letter("export", "a", "b", "c")

    page = rota("run", "ls", "--limit", "2", "--json").json
    rest = rota("run", "ls", "--limit", "2", "--cursor", page["cursor"], "--json").json

    assert [run["key"] for run in page["items"] + rest["items"]] == ["c", "b", "a"]
    assert len(rota("run", "ls", "--type", "export", "--key", "a", "--json").json["items"]) == 1
    assert rota("run", "ls", "--status", "success", "--json").json["items"] == []
    assert rota("run", "ls", "--user", "nobody", "--json").json["items"] == []


def test_as_a_table(rota: CallRota) -> None:
    dead_letter("export", "a")

    assert rota("run", "ls").out.splitlines()[0].split()[:4] == ["RUN", "TYPE", "KEY", "STATUS"]
    assert "rota worker" in rota("run", "ls", "--status", "lost").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ls", "--key", "a"), "needs --type"),
        (("ls", "--type", "nothing"), "'nothing'"),
        (("ls", "--limit", "-1"), "1 to 1,000"),
        (("ls", "--cursor", "rubbish"), "'rubbish'"),
        (("show", "nothing"), "rota run ls"),
        (("show", "99999999999999999999999"), "rota run ls"),
        (("show", "999"), "There is no run '999'"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("run", *arguments, "--json")

    assert (said.code, said.out) == (2, "")
    assert words in said.error["message"]


def test_a_run_as_a_test(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letter("export", "a")
    (run,) = rota("run", "ls", "--json").json["items"]

    shown = rota("run", "show", run["run_id"], "--as-test")

    assert 'await app.schedule("export", key="a")' in shown.out
    assert "# Change this line" in shown.out
    compile(shown.out, "test_export.py", "exec")
    monkeypatch.setenv("ROTA_APP", "shop.tasks:shop")
    assert (
        "from shop.tasks import shop as my_app"
        in rota("run", "show", run["run_id"], "--as-test", "--json").json["test"]
    )
