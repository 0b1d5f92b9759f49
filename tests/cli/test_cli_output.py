"""How things are printed."""

from __future__ import annotations

import re
import sys

import pytest

from rota.cli.output import Column, Output, relative
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
    columns = Column("WHO", "id", is_id=True), Column("DOES", "does"), Column("MS", "ms", from_width=60)

    narrow = _narrow(monkeypatch, capsys, 50, *columns, id=ID, does="one thing, another thing, a third one", ms=1)
    assert narrow[0] == " WHO"
    assert narrow[1] == "   DOES"
    assert narrow[3:] == [f" {ID}", "   one thing, another thing, a third one"]

    wide = _narrow(monkeypatch, capsys, 60, *columns, id=ID, does="one thing", ms=1)
    assert wide[2].split() == [ID, "one", "thing", "1"]
