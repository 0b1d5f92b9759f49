"""How things are printed."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import cast

import pytest

from rota.cli import dead_letters, runs, tasks
from rota.cli.output import Column, Output, View, relative
from rota.errors import InvalidInput
from rota.printable import printable


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (0, "now"),
        (400, "now"),
        (1_800_000, "in 30m"),
        (-12_000, "12s ago"),
        (5_461_000, "in 1h31m"),
        (3 * 86_400_000 + 1, "in 3d"),
    ],
)
def test_how_far_away(span: int, words: str) -> None:
    assert relative(10**12 + span, 10**12) == words


def test_control_characters_are_spelt_out() -> None:
    assert printable("plain ü 漢") == "plain ü 漢"
    assert printable("a\x1b[31m\nb") == "a\\x1b[31m\\nb"


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")

    Output(as_json=False).page(
        [{"key": "[red]u1", "due_at": "2020-01-01T00:00:00.000Z"}],
        [Column("KEY", "key"), Column("DUE", "due_at")],
        empty="nothing",
    )

    said = capsys.readouterr().out
    assert "[red]u1" in said
    assert "2020-01-01T00:00:00Z (" in said
    assert "ago)" in said


@pytest.mark.parametrize(("columns", "is_exact"), [(80, True), (24, False)])
def test_a_narrow_terminal_says_only_how_far_away_an_instant_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, is_exact: bool
) -> None:
    """A row that is folded over three lines is no row."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))

    Output(as_json=False).page(
        [{"key": "u1", "due_at": "2020-01-01T00:00:00.000Z"}],
        [Column("KEY", "key"), Column("DUE", "due_at")],
        empty="nothing",
    )

    (row,) = [line for line in capsys.readouterr().out.splitlines() if "u1" in line]
    assert row.rstrip().endswith("ago)" if is_exact else "ago")
    assert ("2020-01-01T00:00:00Z" in row) == is_exact


def test_a_pipe_has_the_instant_itself(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).page([{"at": "2020-01-01T00:00:00.123Z"}], [Column("AT", "at")], empty="nothing")

    assert capsys.readouterr().out.splitlines() == ["AT", "2020-01-01T00:00:00.123Z"]


ID = "01a1ea80-0291-7230-ab46-52e4f5280fae"


def _narrow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, *columns: Column, **item: object
) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    Output(as_json=False).page([item], columns, empty="nothing")
    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.rstrip() for line in said.splitlines() if line.strip()]


def test_an_id_has_a_line_of_its_own_before_it_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = Column("TYPE", "type"), Column("ERROR", "error", gives_way=True), Column("ID", "id", is_id=True)
    item = {"type": "export", "error": "it broke " * 30, "id": ID}

    narrow = _narrow(monkeypatch, capsys, 50, *columns, **item)
    assert narrow[:2] == [" TYPE     ERROR", "   ID"]
    assert narrow[3].startswith(" export   it broke it broke")
    assert narrow[5].endswith("…")
    assert narrow[6:] == [f"   {ID}"]
    assert max(map(len, narrow)) <= 50

    wide = _narrow(monkeypatch, capsys, 80, *columns, **item)
    assert wide[2].startswith(" export   it broke")
    assert wide[2].endswith(ID)
    assert len(wide) == 5

    tiny = _narrow(monkeypatch, capsys, 20, *columns, **item)
    assert tiny[-1] == f"   {ID}", "the terminal breaks it, and knows that it is one line"


def test_what_a_list_is_about_stays_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    columns = Column("WHO", "id", is_id=True), Column("DOES", "does"), Column("MS", "ms", leaves=1)

    narrow = _narrow(monkeypatch, capsys, 42, *columns, id=ID, does="one thing, another thing, a third one", ms=1)
    assert narrow[0] == " WHO"
    assert narrow[1] == "   DOES"
    assert narrow[3:] == [f" {ID}", "   one thing, another thing, a third one"]

    wide = _narrow(monkeypatch, capsys, 60, *columns, id=ID, does="one thing", ms=1)
    assert wide[2].split() == [ID, "one", "thing", "1"]


KEY = "user-of-a-very-long-name-0123456789:the-phone-of-somebody:default"
ROW: dict[str, object] = {
    "run_id": "1763590000000-0-memory_compression",
    "task_type": "memory_compression_of_everybody",
    "key": KEY,
    "shown_key": KEY,
    "user_key": KEY,
    "name": f"memory_compression_of_everybody/{KEY}",
    "status": "failed",
    "reason": "error",
    "error": "ConnectionError: the gateway refused it " * 5,
    "scheduled_at": "2020-01-01T00:00:00.000Z",
    "started_at": "2020-01-01T00:00:00.000Z",
    "finished_at": "2020-01-01T00:00:00.000Z",
    "attempt": 3,
    "coalesced": 12,
    "duration_ms": 1234,
}
LISTS = {"task": tasks.COLUMNS, "run": runs.COLUMNS, "dlq": dead_letters.COLUMNS}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", LISTS)
def test_no_id_is_ever_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, width: int
) -> None:
    columns = [column for column in LISTS[name] if not column.is_extra]
    lines = _narrow(monkeypatch, capsys, width, *columns, **ROW)

    for column in columns:
        if column.is_id:
            (line,) = [line for line in lines if str(ROW[column.name]) in line]
            assert len(line) <= max(width, len(str(ROW[column.name])) + 3), line
    assert "failed" in "".join(lines) or name != "task"


def test_columns_leave_in_the_order_that_the_list_has_fixed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (
        Column("KEY", "key", is_id=True),
        Column("STATUS", "status"),
        Column("FIRST TO GO", "first", leaves=1),
        Column("SECOND", "second", leaves=2),
    )
    item = {"key": "k" * 20, "status": "pending", "first": "one", "second": "two"}

    def heads(width: int) -> list[str]:
        return _narrow(monkeypatch, capsys, width, *columns, **item)[0].split("  ")

    assert [head.strip() for head in heads(60) if head.strip()] == ["KEY", "STATUS", "FIRST TO GO", "SECOND"]
    assert [head.strip() for head in heads(45) if head.strip()] == ["KEY", "STATUS", "SECOND"]
    assert [head.strip() for head in heads(35) if head.strip()] == ["KEY", "STATUS"]


def _seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], view: View, *, on_terminal: bool = True
) -> tuple[list[str], str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    monkeypatch.setenv("COLUMNS", "80")
    Output(as_json=False, view=view).page([ROW], tasks.COLUMNS, empty="nothing")
    said = capsys.readouterr()
    out = re.sub(r"\x1b\[[0-9;]*m", "", said.out)
    return [line.rstrip() for line in out.splitlines() if line.strip()], said.err


def test_wide_cuts_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (heads, _, row), told = _seen(monkeypatch, capsys, View(is_wide=True))
    assert {"KEY", "COALESCED", "OWNER", "ERROR"} <= set(heads.split())
    assert str(ROW["error"]).strip() in row
    assert "2020-01-01T00:00:00Z (" in row
    assert told == ""


def test_a_list_shows_the_columns_that_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (heads, *_), _ = _seen(monkeypatch, capsys, View(columns=("status", "key")))
    assert heads.split() == ["STATUS", "KEY"]
    lines, _ = _seen(monkeypatch, capsys, View(columns=("task_type", "attempt")), on_terminal=False)
    assert [line.split() for line in lines] == [["TYPE", "ATTEMPT"], [str(ROW["task_type"]), "3"]]


def test_a_column_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"no column 'colour'.*type, key, status, due"):
        Output(as_json=False, view=View(columns=("key", "colour"))).page([], tasks.COLUMNS, empty="nothing")


def test_it_is_said_what_had_to_leave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wide = {**ROW, "task_type": "t" * 20, "shown_key": "k" * 20}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    Output(as_json=False, view=View()).page([wide], tasks.COLUMNS, empty="nothing")
    assert "No room for: coalesced. --wide shows all" in capsys.readouterr().err.replace("attempt, ", "")


def _columns(value: object) -> list[Column]:
    found = list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else []
    columns = [one for one in found if isinstance(one, Column)]
    return columns if len(columns) == len(found) else []


def test_every_list_of_the_command_line_knows_its_ids() -> None:
    """What people copy is marked, so that no list breaks it."""
    copied = {"task_type", "key", "shown_key", "user_key", "run_id", "id", "event_id", "folder", "instance", "name"}
    lists = {
        f"{module.__name__}.{name}": columns
        for module in map(import_module, MODULES)
        for name, value in vars(module).items()
        if (columns := _columns(value))
    }
    assert len(lists) > 20
    for name, columns in lists.items():
        assert [one.name for one in columns if one.name in copied and not one.is_id] == [], name


MODULES = (
    *(
        f"rota.cli.{name}"
        for name in (
            "dead_letters",
            "doctor",
            "failures",
            "instances",
            "queues",
            "runs",
            "schedules",
            "settings",
            "tasks",
            "tokens",
            "types",
            "users",
        )
    ),
    *(f"rota.{name}.faces.commands" for name in ("agents", "alerts", "batches", "events", "memory")),
)
