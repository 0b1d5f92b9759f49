"""How things are printed."""

from __future__ import annotations

import sys

import pytest

from rota.cli.output import Column, Output, printable, relative


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
