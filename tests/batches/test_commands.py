"""`rota batch`: asked for and followed in a terminal, a pipe and by programs, with a real worker beside it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import pytest
from rich.cells import cell_len

from rota.cli import main
from rota.testing.waiting import until_blocking

PROGRAM = [sys.executable, "-m", "rota.cli"]
PROJECT = """
import asyncio
import hashlib
from pathlib import Path

from rota import Rota
from rota.events.delivery import NonRetriable

app = Rota()
GATE = Path(__file__).parent / "gate"


def made(request):
    digits = str.maketrans("0123456789", "ghijklmnop")
    digests = [hashlib.sha256(f"{request.subtask_id} {n}".encode()).hexdigest() for n in range(request.count)]
    return [{"name": one.translate(digits)[:20], "description": "made by hand"} for one in digests]


@app.generator("held", size=5)
async def held(request):
    "All but the first subtask wait for somebody to open the gate."
    while request.index and not GATE.exists():
        await asyncio.sleep(0.02)
    return made(request)


@app.generator("alike")
async def alike(request):
    return ["Alder Point"] * request.count


@app.generator("broken")
async def broken(request):
    raise NonRetriable("the mine is closed")


@app.generator("wild")
async def wild(request):
    return [{"name": f"[red]{'x' * 60}[/red]", "description": "\\x1b[31m" + "wide " * 40}]
"""


@dataclass(frozen=True)
class Said:
    """What one call of `rota` printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, f"nothing was said, and the exit code is {self.code}: {self.err}"
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class CallRota(Protocol):
    """Calls `rota` in this process; with columns, as in a terminal that has so many."""

    def __call__(self, *arguments: str, columns: int | None = None) -> Said: ...


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CallRota:
    for name in list(os.environ):
        if name.startswith("ROTA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm-256color")

    def call(*arguments: str, columns: int | None = None) -> Said:
        monkeypatch.setenv("COLUMNS", str(columns or 80))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: columns is not None)
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        assert "Traceback (most recent call last)" not in said.out + said.err
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def alone(call: CallRota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallRota:
    """With a store where nobody is at work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_STORE", f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    return call


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A folder with a project, and a worker that serves it."""
    folder = tmp_path_factory.mktemp("batches")
    (folder / "batch_project.py").write_text(PROJECT)
    log = folder / "worker.log"
    with log.open("w") as stream:
        worker = subprocess.Popen([*PROGRAM, "worker"], cwd=folder, env=_environment(folder), stderr=stream)
    try:
        until_blocking(lambda: "worker started" in log.read_text(), "the worker works")
        yield folder
    finally:
        worker.kill()
        worker.wait()


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    return {
        **kept,
        "ROTA_STORE": f"sqlite:///{folder}/rota.db?synchronous=OFF",
        "ROTA_APP": "batch_project:app",
        "TERM": "xterm-256color",
        "COLUMNS": "80",
        "LINES": "24",
    }


@pytest.fixture
def rota(call: CallRota, place: Path, monkeypatch: pytest.MonkeyPatch) -> CallRota:
    """With a worker beside it, and the gate closed."""
    monkeypatch.chdir(place)
    for name in ("ROTA_STORE", "ROTA_APP"):
        monkeypatch.setenv(name, _environment(place)[name])
    (place / "gate").unlink(missing_ok=True)
    return call


@pytest.fixture
def open_gate(place: Path) -> Path:
    """Touch it, and whatever is held goes on."""
    return place / "gate"


@contextmanager
def started(place: Path, *arguments: str) -> Generator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A command that waits for something, as a process, with its stdout and its stderr."""
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        env=_environment(place),
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process, process.stdout, process.stderr
        finally:
            process.kill()


def held(rota: CallRota, *options: str) -> str:
    """A batch whose first items have come, and whose others wait for the gate; its id."""
    batch_id: str = rota("batch", "run", "held", "-n", "20", "--json", *options).json["id"]
    until_blocking(lambda: shown(rota, batch_id)["items"] > 0, "the first items have come")
    return batch_id


def shown(rota: CallRota, batch_id: str) -> Any:
    return rota("batch", "show", batch_id, "--json").json["batch"]


# --- asking for one --------------------------------------------------------------------------------------------------


def test_the_id_is_said_and_how_to_follow_and_that_nobody_is_at_work(alone: CallRota) -> None:
    said = alone("batch", "run", "location_name", "-n", "50", "--style", "norse")

    batch_id, what, how = said.out.splitlines()
    assert said.code == 0
    assert what == "50 items of the type location_name, in 4 subtasks."
    assert how == f"`rota batch follow {batch_id}` shows what comes."
    assert len(how) <= 80
    assert "Nobody is at work on batches" in said.err
    assert "rota up" in said.err


def test_everything_that_can_be_asked_for(alone: CallRota) -> None:
    asked = (
        *("--style-json", '{"culture": "norse"}', "--session", "s1", "--user", "ada", "--priority", "7", "--seed", "3"),
        *("--distinct", "session", "--deadline", "10m", "--budget", "5000", "--key", "k1"),
    )
    made = alone("batch", "run", "location_name", "-n", "9", *asked, "--json").json

    assert made["is_new"]
    assert made["style"] == {"culture": "norse"}
    assert (made["session_id"], made["user_id"], made["priority"], made["seed"]) == ("s1", "ada", 7, 3)
    assert (made["distinct"], made["budget_tokens"], made["idempotency_key"]) == ("session", 5000, "k1")
    facts = dict(line.split(maxsplit=1) for line in alone("batch", "show", made["id"]).out.splitlines() if " " in line)
    assert facts["session_id"] == "s1"
    assert facts["tokens"] == "0 in, 0 out; the budget is 5,000"


def test_the_same_request_under_the_same_key_is_one_batch(alone: CallRota) -> None:
    ask = ("batch", "run", "location_name", "--key", "k1", "--json", "-n")
    first, again, other = alone(*ask, "9"), alone(*ask, "9"), alone(*ask, "8")

    assert again.json["id"] == first.json["id"]
    assert not again.json["is_new"]
    assert "batch of then" in alone("batch", "run", "location_name", "--key", "k1", "-n", "9").err
    assert (other.code, other.error["code"]) == (4, "idempotency_conflict")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["location_nam", "-n", "5"], "Did you mean 'location_name'?"),
        (["location_name"], "--count"),
        (["location_name", "-n", "0"], "count is 0"),
        (["location_name", "-n", "501"], "count is 501"),
        (["location_name", "-n", "5", "--priority", "11"], "priority is 11"),
        (["location_name", "-n", "5", "--deadline", "soon"], "--deadline"),
        (["location_name", "-n", "5", "--distinct", "world"], "'world'"),
        (["location_name", "-n", "5", "--style", "a", "--style-json", "{}"], "Both --style and --style-json"),
        (["location_name", "-n", "5", "--style-json", "norse"], "--style-json is no JSON"),
        (["location_name", "-n", "5", "--style-json", "[1]"], "--style-json is no object"),
    ],
)
def test_what_is_wrong_is_said_and_no_store_is_made(
    alone: CallRota, tmp_path: Path, arguments: Sequence[str], words: str
) -> None:
    said = alone("batch", "run", *arguments)

    assert said.code == 2
    assert words in said.err
    assert not (tmp_path / "rota.db").exists()


@pytest.mark.parametrize("command", ["follow", "show", "items", "pause", "resume", "cancel"])
def test_an_unknown_id_says_where_the_known_ones_are(alone: CallRota, command: str) -> None:
    said = alone("batch", command, "nope")

    assert said.code == 2
    assert "`rota batch ls` lists them" in said.err


# --- following -------------------------------------------------------------------------------------------------------


def test_in_a_pipe_items_are_lines_and_the_rest_is_said_beside_them(rota: CallRota) -> None:
    said = rota("batch", "run", "location_name", "-n", "12", "--style", "norse", "--seed", "1", "--follow")

    lines = said.out.splitlines()
    assert said.code == 0
    assert len(lines) == 12
    assert all(line.isprintable() for line in lines)
    assert re.search(r"^The first response took \d+\.\d s\.$", said.err, re.MULTILINE)
    assert re.search(
        r"^12 of 12 items in \S+ s; 0 duplicates dropped; 2 subtasks, 0 failed; 0 tokens\.$", said.err, re.MULTILINE
    )
    assert "Nobody" not in said.err


def test_programs_have_a_line_of_json_an_event_and_can_go_on_after_any(rota: CallRota) -> None:
    whole = rota("batch", "run", "location_name", "-n", "12", "--follow", "--json")
    events = whole.events
    batch_id = events[0]["data"]["batch_id"]
    rest = rota("batch", "follow", batch_id, "--after", "5", "--json")
    nothing = rota("batch", "follow", batch_id, "--after", str(len(events)), "--json")

    assert (whole.code, whole.err) == (0, "")
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    assert [event["event"] for event in events].count("item") == 12
    assert (events[0]["event"], events[-1]["event"]) == ("accepted", "completed")
    assert rest.events == events[5:]
    assert (nothing.code, nothing.out) == (0, "")
    assert rota("batch", "follow", batch_id, "--after", "999").code == 2


def test_one_that_is_short_is_5_and_its_twins_are_shown(rota: CallRota) -> None:
    said = rota("batch", "run", "alike", "-n", "3", "--follow")
    (short,) = rota("batch", "ls", "--type", "alike", "--json").json["items"]

    assert said.code == 5
    assert said.out.split() == ["Alder", "Point"]
    assert "1 of 3" in said.err
    assert f"`rota batch show {short['id']}` has more." in said.err
    assert (short["status"], short["reason"], short["shortfall"]) == ("completed", "exhausted", 2)
    assert rota("batch", "follow", short["id"], "--json").code == 5
    assert "2 missing" in rota("batch", "show", short["id"]).out
    duplicates = rota("batch", "items", short["id"], "--outcome", "duplicate", "--json").json["items"]
    assert {one["twin"] for one in duplicates} == {"Alder Point"}
    lines = rota("batch", "items", short["id"], "--outcome", "all").out.splitlines()
    assert re.fullmatch(r"\d+ +kept +Alder Point +- +-", lines[1])
    assert re.fullmatch(r"\d+ +duplicate +Alder Point +Alder Point +-", lines[2])


def test_one_that_fails_is_5_and_its_subtasks_say_why(rota: CallRota) -> None:
    said = rota("batch", "run", "broken", "-n", "3", "--follow")
    (failed,) = rota("batch", "ls", "--status", "failed", "--json").json["items"]

    assert (said.code, said.out) == (5, "")
    assert "0 of 3 items" in said.err
    assert "the mine is closed" in rota("batch", "show", failed["id"]).out
    (subtask,) = rota("batch", "show", failed["id"], "--json").json["subtasks"]
    assert (subtask["status"], subtask["error_class"]) == ("failed", "refused")
    assert "no kept items" in rota("batch", "items", failed["id"]).err


def test_ctrl_c_leaves_the_batch_alone_and_says_how_to_follow_it_again(
    rota: CallRota, place: Path, open_gate: Path
) -> None:
    with started(place, "batch", "run", "held", "-n", "20", "--follow") as (process, stdout, stderr):
        seen = [stdout.readline()]
        process.send_signal(signal.SIGINT)
        seen += stdout
        err = stderr.read()
        code = process.wait(timeout=60)
    again = re.search(r"rota batch (follow (\S+) --after \d+)  # the rest", err)

    assert code == 130
    assert "The batch goes on" in err
    assert again is not None
    assert f"rota batch cancel {again[2]}  # ends it" in err
    assert shown(rota, again[2])["status"] == "running"
    open_gate.touch()
    rest = rota("batch", *again[1].split())
    assert rest.code == 0
    assert len({*"".join(seen).splitlines(), *rest.out.splitlines()}) == 20


def test_whoever_follows_hears_that_it_is_paused(rota: CallRota, place: Path) -> None:
    batch_id = held(rota)
    rota("batch", "pause", batch_id)
    with started(place, "batch", "follow", batch_id, "--json") as (process, stdout, _):
        waiting = json.loads(stdout.readline())
        cancelled = rota("batch", "cancel", batch_id)
        code = process.wait(timeout=60)

    assert (waiting["event"], waiting["number"]) == ("waiting", None)
    assert f"`rota batch resume {batch_id}`" in waiting["data"]["message"]
    assert cancelled.out.startswith("Cancelled; what has come stays.")
    assert code == 5


# --- in a terminal ---------------------------------------------------------------------------------------------------


def terminal(place: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """What a command writes to a terminal of 80 columns, and its exit code."""
    master, follower = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        env={**_environment(place), **environment},
        cwd=place,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    written = b""
    with suppress(OSError):  # a terminal whose last program has ended
        while piece := os.read(master, 65_536):
            written += piece
    os.close(master)
    return process.wait(timeout=60), written.decode()


def screen(written: str) -> list[str]:
    """What is left to be seen of it, line by line."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for piece in re.finditer(r"\x1b\[([0-9;?]*)([a-zA-Z])|[^\x1b]", written):
        letter = piece[0]
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            lines += [[]] if row == len(lines) else []
        elif piece[2] == "K":
            lines[row] = [] if piece[1] == "2" else lines[row][:column]
        elif piece[2] == "A":
            row -= int(piece[1] or 1)
        elif piece[2] is None:
            lines[row] += [" "] * (column + 1 - len(lines[row]))
            lines[row][column] = letter
            column += 1
    return ["".join(line).rstrip() for line in lines]


def test_on_a_terminal_items_stand_above_a_bar_that_goes_when_it_is_done(rota: CallRota, place: Path) -> None:
    code, written = terminal(place, "batch", "run", "location_name", "-n", "12", "--seed", "1", "--follow")
    *items, summary, _ = screen(written)

    assert code == 0
    assert re.search(r"━\S+ 12 of 12, the first after \S+ s; 2 of 2 subtasks", written)
    assert len(items) == 12
    assert summary.startswith("12 of 12 items in ")
    assert all(cell_len(line) <= 80 for line in items)


def test_without_colours_there_are_none(rota: CallRota, place: Path) -> None:
    arguments = ("batch", "run", "location_name", "-n", "5", "--follow")
    _, colourful = terminal(place, *arguments)
    _, plain = terminal(place, *arguments, NO_COLOR="1")
    code, dumb = terminal(place, *arguments, TERM="dumb")

    colours = r"\x1b\[[0-9;]*(3[0-9]|9[0-7])[0-9;]*m"
    assert re.search(colours, colourful)
    assert not re.search(colours, plain)
    assert code == 0
    assert "\x1b" not in dumb


def test_what_others_have_written_repaints_nothing(rota: CallRota, place: Path) -> None:
    code, written = terminal(place, "batch", "run", "wild", "-n", "1", "--follow")
    line = screen(written)[0]

    assert code == 0
    assert line.startswith(f"[red]{'x' * 60}[/red]")
    assert cell_len(line) <= 80
    assert "\x1b[31m" not in rota("batch", "run", "wild", "-n", "1", "--follow").out


@pytest.mark.parametrize("command", ["ls", "show ID", "items ID", "items ID --outcome all"])
def test_lists_are_no_wider_than_their_terminal_and_ids_stand_whole(rota: CallRota, command: str) -> None:
    followed = rota("batch", "run", "wild", "-n", "1", "--session", "s" * 100, "--follow", "--json").events
    batch_id = followed[0]["data"]["batch_id"]
    words = command.replace("ID", batch_id).split()

    for columns in (80, 100, 140):
        said = rota("batch", *words, columns=columns)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", said.out).splitlines()
        table = lines[next(n for n, line in enumerate(lines) if "─" in line) :]
        assert max(map(cell_len, table)) <= columns
        expected = f"[red]{'x' * 60}[/red]" if "items" in words else batch_id
        assert any(expected in line.split() or f"{expected}:0:0" in line.split() for line in lines)


# --- looking, holding, ending ----------------------------------------------------------------------------------------


def test_one_can_be_held_and_go_on_and_end(rota: CallRota, open_gate: Path) -> None:
    batch_id = held(rota, "--session", "s7")

    assert "so far" in rota("batch", "show", batch_id).out
    assert rota("batch", "pause", batch_id, "--json").json["status"] == "paused"
    assert f"`rota batch resume {batch_id}` lets it go on." in rota("batch", "show", batch_id).err
    assert [one["id"] for one in rota("batch", "ls", "--status", "paused", "--json").json["items"]] == [batch_id]
    assert [one["id"] for one in rota("batch", "ls", "--session", "s7", "--json").json["items"]] == [batch_id]
    assert rota("batch", "resume", batch_id).out.startswith("It goes on.")
    open_gate.touch()
    assert rota("batch", "follow", batch_id).code == 0
    refused = rota("batch", "pause", batch_id, "--json")
    assert (refused.code, refused.error["code"]) == (4, "illegal_transition")
    assert "It had ended before: completed." in rota("batch", "cancel", batch_id).out


def test_a_list_that_is_empty_says_what_to_do(alone: CallRota) -> None:
    assert "`rota batch run" in alone("batch", "ls").err
    assert alone("batch", "ls", "--json").json == {
        "items": [],
        "cursor": None,
        "frozen": False,
        "degraded": False,
        "open": 0,
    }


# --- the way back ----------------------------------------------------------------------------------------------------


def test_frozen_means_that_none_is_taken_on(alone: CallRota) -> None:
    assert alone("batch", "switches").out == "Batches are taken on as usual; 0 batches are open.\n"
    frozen = alone("batch", "freeze")
    refused = alone("batch", "run", "location_name", "-n", "5", "--json")

    assert frozen.out.startswith("Batches are frozen: no new one is taken on")
    assert "`rota batch restore`" in frozen.out
    assert (refused.code, refused.error["code"]) == (4, "batches_frozen")
    assert alone("batch", "ls").err.startswith("Batches are frozen")
    assert alone("batch", "restore", "--json").json == {"frozen": False, "degraded": False, "open": 0}
    assert alone("batch", "run", "location_name", "-n", "5").code == 0


def test_degraded_means_one_large_call(alone: CallRota) -> None:
    assert "one large call, without subtasks" in alone("batch", "degrade").out

    assert ", in 1 subtask." in alone("batch", "run", "location_name", "-n", "50").out


def test_drained_means_that_none_is_open(rota: CallRota, place: Path, open_gate: Path) -> None:
    batch_id = held(rota)
    late = rota("batch", "drain", "--timeout", "1s")
    as_json = rota("batch", "drain", "--timeout", "1s", "--json")
    with started(place, "batch", "drain") as (process, stdout, stderr):
        while "to go" not in (line := stderr.readline()):
            assert line, "it ended"
        open_gate.touch()
        out, code = stdout.read(), process.wait(timeout=60)
    rota("batch", "restore")

    assert late.code == 5
    assert "After 1s 1 batch is still open; nothing was ended." in late.out
    assert (as_json.code, as_json.json) == (5, {"frozen": True, "degraded": False, "open": 1, "drained": False})
    assert line == "1 to go.\n"
    assert (code, out.split(".")[0]) == (0, "No batch is open")
    assert shown(rota, batch_id)["status"] == "completed"


def test_whoever_drains_hears_what_stays_open(alone: CallRota) -> None:
    batch_id = alone("batch", "run", "location_name", "-n", "5", "--json").json["id"]
    alone("batch", "pause", batch_id)
    said = alone("batch", "drain", "--timeout", "1s")

    assert said.code == 5
    assert "`rota batch ls --status paused` lists them." in said.err
    assert "Nobody is at work" in said.err
