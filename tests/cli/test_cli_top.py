"""`rota top`: a frame for any terminal, and the live one in a real one."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from io import StringIO

import pytest
from command_line import CallRota, claim, dead_letter, with_store
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rota.app.overview import InstanceView, MinuteView, Overview, TypeView
from rota.app.results import RunInfo
from rota.cli.top_view import MOST_TROUBLE, Look, frame, sparkline
from rota.clock import MINUTE
from rota.core.task import RunStatus

NOW = 1_800_000_000_000
texts = st.text(min_size=1, max_size=40)
counts = st.integers(0, 10**7)
spans = st.none() | st.integers(0, 10**9)


@st.composite
def looks(draw: st.DrawFn) -> Look:
    """Anything that can be seen, ids that mean ill included."""
    types = [
        TypeView(
            task_type=draw(texts),
            description="",
            trigger_mode="once",
            state=draw(st.sampled_from(["on", "off", "frozen", "draining"])),
            pending=draw(counts),
            running=draw(counts),
            paused=draw(counts),
            failed=draw(counts),
            max_pending=1,
            next_due_at=None,
            oldest_pending_ms=draw(st.integers(0, 10**9)),
            runs=draw(counts),
            failures=0,
            late_p50_ms=draw(spans),
            late_p99_ms=draw(spans),
            took_average_ms=draw(spans),
        )
        for _ in range(draw(st.integers(0, 6)))
    ]
    instances = [
        InstanceView(
            instance="0123456789abcdef",
            host=draw(texts),
            pid=1,
            types=(draw(texts),),
            running=draw(counts),
            started_at=NOW,
            seen_at=NOW - 5_000,
            silent_ms=5_000,
            is_silent=draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    minutes = [
        MinuteView(NOW + n * MINUTE, draw(counts), draw(counts), 0, draw(spans), draw(spans))
        for n in range(draw(st.integers(1, 60)))
    ]
    seen = Overview(
        now=NOW,
        minutes=len(minutes),
        per_minute=tuple(minutes),
        types=tuple(types),
        instances=tuple(instances),
        reasons=draw(st.dictionaries(texts, counts, max_size=3)),
        late_p50_ms=draw(spans),
        late_p99_ms=draw(spans),
    )
    trouble = draw(st.none() | texts)
    return Look("sqlite:///rota.db", seen, tuple(a_run(draw(texts), draw(texts)) for _ in range(3)), trouble)


def a_run(key: str, error: str) -> RunInfo:
    started_at = datetime.fromtimestamp(NOW / 1_000, UTC)
    return RunInfo(
        run_id="r",
        task_type="export",
        key=key,
        user_key=key,
        status=RunStatus.ERROR,
        trigger_mode="once",
        started_at=started_at,
        duration_ms=5,
        fire_at=None,
        last_fire_at=None,
        fires=1,
        attempt=1,
        token=1,
        instance=None,
        user_id=None,
        reason=None,
        result=None,
        error=error,
        due_at=None,
        failure=None,
    )


NOTHING = Overview(
    now=NOW,
    minutes=1,
    per_minute=(MinuteView(NOW, 0, 0, 0, None, None),),
    types=(),
    instances=(),
    reasons={},
    late_p50_ms=None,
    late_p99_ms=None,
)
A_LOOK = Look("sqlite:///rota.db", NOTHING, ())


def drawn(look: Look, width: int, height: int | None = None) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(frame(look, width=width, height=height))
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue().splitlines()


@given(looks(), st.integers(40, 200), st.integers(14, 60))
def test_a_frame_fits_and_cannot_be_broken_by_an_id(look: Look, width: int, height: int) -> None:
    lines = drawn(look, width, height)

    # A very small terminal cannot show everything beside what is wrong; what is below its edge is not drawn.
    assert len(lines) <= max(height, 14 + (0 if look.trouble is None else MOST_TROUBLE))
    assert all(line.isprintable() for line in lines)


def test_what_to_do_about_a_trouble_is_not_cut_off() -> None:
    trouble = (
        "The store redis://127.0.0.1:6379/0 cannot be used right now: connect call failed. `rota doctor` looks closer."
    )
    lines = drawn(A_LOOK.with_trouble(trouble), 60, 24)
    assert "looks closer." in "\n".join(lines)
    assert lines[-1].startswith("q quit")


@given(looks(), st.integers(50, 200))
def test_what_became_of_a_run_is_shown_whole_however_long_its_key_is(look: Look, width: int) -> None:
    lines = drawn(look, width)

    rows = lines[next(number for number, line in enumerate(lines) if line.startswith("LATEST")) :][1:]
    assert len(rows) == len(look.runs)
    for row in rows:
        assert " error " in row
        assert "now" in row or "ago" in row
    (heading,) = [line for line in lines if line.startswith("TYPE")]
    for word in ("PENDING", "RUNNING", "FAILED"):
        assert word in heading


@given(st.lists(counts, max_size=60))
def test_a_sparkline_has_a_bar_for_each_value_and_is_as_high_as_they_are(values: list[int]) -> None:
    line = sparkline(values)

    assert len(line) == len(values)
    for one, other in zip(range(len(values)), range(1, len(values)), strict=False):
        if values[one] <= values[other]:
            assert line[one] <= line[other]
    if any(values):
        assert max(line) == "█"
        assert all((bar == "▁") == (value == 0) for bar, value in zip(line, values, strict=True))


def test_once(rota: CallRota) -> None:
    dead_letter("export", "a", "b")
    with_store(claim("mail"))

    said = rota("top", "--once")

    assert said.code == 0
    assert "2 dead letters" in said.out
    assert re.search(r"mail +on +0 +1 +0", said.out)
    assert "no instances running" in said.out
    assert "it answers 500" in rota("top", "--once", "--json").out


def test_as_json(rota: CallRota) -> None:
    dead_letter("export")

    seen = rota("top", "--json", "--minutes", "5").json

    assert seen["counts"]["failed"] == 1
    assert len(seen["per_minute"]) == 5
    assert [one["task_type"] for one in seen["types"]] == ["export"]
    assert seen["recent_runs"][0]["error"] == "it answers 500"


@pytest.mark.parametrize("minutes", ["0", "1441", "many"])
def test_bad_input_is_2(rota: CallRota, minutes: str) -> None:
    assert rota("top", "--minutes", minutes).code == 2


def test_a_missing_server_is_3(rota: CallRota) -> None:
    assert rota("top", "--store", "postgresql://127.0.0.1:1/x").code == 3


class Terminal:
    """`rota top` in a terminal of its own."""

    def __init__(self, term: str = "xterm") -> None:
        self.master, follower = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota.cli", "top"],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={**os.environ, "TERM": term, "COLUMNS": "80", "LINES": "24"},
            start_new_session=True,
        )
        os.close(follower)
        self.seen = ""

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65_536).decode(errors="replace")

    def type(self, keys: str) -> None:
        self.seen = ""
        os.write(self.master, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def test_live_in_a_terminal(rota: CallRota) -> None:
    dead_letter("export")
    terminal = Terminal()
    try:
        terminal.read_until("1 dead letters")
        assert "\x1b[?1049h" in terminal.seen, "it has a screen of its own"
        terminal.type("?")
        terminal.read_until("this page, and back")
        terminal.type("?")
        terminal.read_until("OVERDUE")
        terminal.type("p")
        terminal.read_until("paused")
        terminal.type("p")
        dead_letter("export", "another")
        terminal.read_until("2 dead letters")
        terminal.type("q")
        terminal.read_until("\x1b[?1049l")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()


def test_a_terminal_that_cannot_be_drawn_on_gets_one_picture(rota: CallRota) -> None:
    dead_letter("export")
    terminal = Terminal(term="dumb")
    try:
        terminal.read_until("LATEST RUNS")
        assert terminal.process.wait(60) == 0
        assert "\x1b" not in terminal.seen
        assert "1 dead letters" in terminal.seen
    finally:
        terminal.close()


def test_ctrl_c_is_a_way_to_leave(rota: CallRota) -> None:
    terminal = Terminal()
    try:
        terminal.read_until("q quit")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until("\x1b[?1049l")
        assert terminal.process.wait(60) == 0
        assert "Traceback" not in terminal.seen
    finally:
        terminal.close()
