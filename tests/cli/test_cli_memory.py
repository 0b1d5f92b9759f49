"""`rota memory`: keep, list, search, compress, count."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from command_line import CallRota

from rota.memory import statistics

SAME = ("I love hiking in the mountains.", "I really love hiking in the mountains!")


def settle(folder: Path) -> None:
    """Ten minutes have passed for everything that was captured."""
    with sqlite3.connect(folder / "rota.db") as disk:
        disk.execute("UPDATE memory_contexts SET captured_at = captured_at - 600000")
    disk.close()


def test_a_memory_from_its_first_word_to_its_last(rota: CallRota, tmp_path: Path) -> None:
    first = rota("memory", "push", "ada", SAME[0], "--json").json
    assert (first["context_id"], first["touched"]) == (1, {"memory_compression": "created"})
    assert "memory_compression coalesced" in rota("memory", "push", "ada", SAME[1]).out
    rota("memory", "push", "ada", "-", "--kind", "document", "--title", "Oslo", stdin=b"Oslo is a city.")
    assert rota("memory", "compress", "ada", "--json").json["has_unsettled"] is True
    settle(tmp_path)
    assert "2 of them merged into 1" in rota("memory", "compress", "ada").out

    (result,) = rota("memory", "ls", "ada", "--results", "--json").json["items"]
    assert result["merge_count"] == 2
    assert [one["state"] for one in rota("memory", "ls", "ada", "--json").json["items"]] == [
        "kept",
        "kept",
        "merged",
        "merged",
    ]
    page = rota("memory", "ls", "ada", "--limit", "3", "--json").json
    assert len(rota("memory", "ls", "ada", "--cursor", page["cursor"], "--json").json["items"]) == 1
    found = rota("memory", "search", "ada", "a city in Norway", "--limit", "1", "--json").json["items"]
    assert found[0]["title"] == "Oslo"
    assert "Oslo is a city." in rota("memory", "search", "ada", "city").out
    figures = rota("memory", "stats", "ada", "--json").json
    assert (figures["contexts"], figures["merged"], figures["compressions"]) == (4, 2, 2)
    assert rota("audit", "ls", "--json").json["items"][0]["action"] == "memory.compress"
    exported = rota("user", "export", "ada").out
    assert exported.count('"kind":"context"') == 4
    assert "4 contexts" in rota("user", "erase", "ada", "--yes").out
    assert "Nothing is kept of 'ada'" in rota("memory", "ls", "ada").err


def test_few_are_counted_when_somebody_asks(rota: CallRota) -> None:
    assert rota("memory", "stats", "--json").json["users"] == 0
    rota("memory", "push", "ada", SAME[0])
    rota("memory", "push", "grace", SAME[0])
    figures = rota("memory", "stats", "--json").json
    assert (figures["users"], figures["contexts"], figures["counted_at"] is None) == (2, 2, False)


def test_many_are_counted_by_a_worker(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "FEW", 1)
    rota("memory", "push", "ada", SAME[0])
    rota("memory", "push", "grace", SAME[0])
    said = rota("memory", "stats")
    assert (said.code, "statistics_update" in said.err) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("push", "__x__", "hi"),
        ("push", "ada", "hi", "--kind", "song"),
        ("push", "ada", "hi", "--importance", "11"),
        ("push", "ada", "   "),
        ("ls", "ada", "--state", "old"),
        ("ls", "ada", "--cursor", "x"),
    ],
)
def test_what_is_refused(rota: CallRota, arguments: tuple[str, ...]) -> None:
    said = rota("memory", *arguments, "--json")
    assert said.code == 2
    assert said.error["message"]


def test_the_workers_settings_count(rota: CallRota, tmp_path: Path) -> None:
    """With a threshold that nothing reaches, nothing is merged."""
    (tmp_path / "rota.yaml").write_text(
        "scheduler: {tasks: {memory_compression: {similarity_threshold: 1.0, cooldown: defer}}}"
    )
    for text in SAME:
        rota("memory", "push", "ada", text)
    settle(tmp_path)
    assert rota("memory", "compress", "ada", "--json").json["merged"] == 0
