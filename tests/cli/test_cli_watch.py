"""Lists that are shown again and again, and pages that the store gives in pieces."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

import pytest
from command_line import CallRota, dead_letter, serving
from hypothesis import given
from hypothesis import strategies as st

from rota.cli.pages import whole_page
from rota.stores.base import Page


@given(
    total=st.integers(0, 40),
    limit=st.integers(1, 50),
    pieces=st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any),
)
def test_a_page_is_whole_though_the_store_gives_pieces(total: int, limit: int, pieces: list[int]) -> None:
    """Walking by pages meets every item once, in order, and no page but the last is short."""
    everything = list(range(total))
    calls = 0

    async def fetch(cursor: str | None, at_most: int) -> Page[int]:
        nonlocal calls
        start = int(cursor or 0)
        size = min(pieces[calls % len(pieces)], at_most)
        calls += 1
        end = start + size
        return Page(everything[start:end], str(end) if end < total else None)

    async def walk() -> list[int]:
        found: list[int] = []
        cursor = None
        while True:
            page = await whole_page(fetch, limit, cursor)
            found += page.items
            assert len(page.items) <= limit
            cursor = page.cursor
            if cursor is None:
                return found
            assert len(page.items) == limit

    assert asyncio.run(walk()) == everything


def objects(process: subprocess.Popen[str], count: int) -> list[object]:
    """So many JSON objects from a stream of them."""
    assert process.stdout is not None
    found: list[object] = []
    text = ""
    while len(found) < count:
        line = process.stdout.readline()
        assert line, "it ended"
        text += line
        if line == "}\n":
            found.append(json.loads(text))
            text = ""
    return found


@pytest.mark.parametrize("command", ["task ls", "dlq ls"])
def test_a_list_is_shown_until_ctrl_c(rota: CallRota, command: str) -> None:
    dead_letter("export")
    with serving(*command.split(), "--watch", "--json") as process:
        first, second = objects(process, 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert first == second
    assert (process.returncode, err) == (0, "")
