"""`rota demo`: told once, for real."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import CallRota
from rich.console import Console

from rota.core.outcome import Answer
from rota.core.task import RunRecord, RunStatus
from rota.demo.story import Facts
from rota.demo.view import DemoSnapshot, LivePicture
from rota.stores.base import Beat, Counts, Instance
from rota.testing.waiting import until_blocking

ROTA = [sys.executable, "-m", "rota.cli"]
# The recovery may take as long as the machine needs; what the figure means is looked at with made-up facts below.
PATIENT = [
    *(sys.executable, "-c"),
    "import sys, rota.cli, rota.demo.story as story; story._RECOVERY_LIMIT = 60_000; sys.exit(rota.cli.main())",
]


def workers_of(marker: str) -> list[int]:
    """The processes whose command line has this in it."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if marker in line and "rota.demo.worker" in line:
                found.append(int(entry.name))
    return found


def test_the_story_happens(tmp_path: Path) -> None:
    """One real run: it keeps its file, so that the facts can be checked against it."""
    kept, scratch = tmp_path / "kept 100%.db", tmp_path / "scratch"
    scratch.mkdir()
    told = subprocess.run(
        [*PATIENT, "demo", "--json", "--keep", str(kept)],
        capture_output=True,
        check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
        text=True,
        timeout=170,
    )

    assert told.returncode == 0, told.stderr
    summary = json.loads(told.stdout)
    assert summary["ok"] is True
    assert all(check["holds"] for check in summary["checks"])
    assert summary["tasks"] == 8
    assert summary["touches"] == 8 + summary["coalesced"] > 8
    assert summary["recovered_in_seconds"] > 0
    assert summary["dead_letters"] == 1
    assert list(scratch.iterdir()) == [], "the demo must not leave files behind"
    assert workers_of(quote(str(kept))) == []
    _the_kept_file_agrees(kept, summary["runs"])


def _the_kept_file_agrees(kept: Path, runs: dict[str, int]) -> None:
    store = ("--store", f"sqlite:///{quote(str(kept))}", "--json")
    for status, count in runs.items():
        listed = subprocess.run([*ROTA, "run", "ls", "--status", status, *store], capture_output=True, check=True)
        assert len(json.loads(listed.stdout)["items"]) == count


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*ROTA, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert process.stdout is not None
    while "users chat" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err == "error: Interrupted.\n"
    assert list(tmp_path.iterdir()) == []
    assert workers_of(str(tmp_path)) == []


def test_workers_end_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*ROTA, "demo"], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}, text=True
    )
    assert process.stdout is not None
    while "users chat" not in process.stdout.readline():
        assert process.poll() is None
    assert len(workers_of(str(tmp_path))) == 2
    process.kill()
    process.communicate()

    until_blocking(lambda: not workers_of(str(tmp_path)), "its workers have ended")


def facts(**changed: object) -> Facts:
    true = {
        "touches": 96, "created": 8, "coalesced": 88, "compressed": 8, "succeeded": 12, "errored": 3, "lost": 1,
        "recovered_ms": 2_900, "late_completion": Answer.STALE, "cron_fires": 3, "dead_letters": 1, "dead_error": "500",
    }  # fmt: skip
    return Facts(**{**true, **changed})  # pyright: ignore[reportArgumentType] - the names are those of Facts


@pytest.mark.parametrize(
    "changed",
    [
        {"coalesced": 87},
        {"created": 9, "coalesced": 87},
        {"compressed": 7},
        {"lost": 0},
        {"recovered_ms": 0},
        {"recovered_ms": 6_000},
        {"late_completion": Answer.OK},
        {"cron_fires": 1},
        {"dead_letters": 0},
    ],
)
def test_a_story_that_did_not_happen_is_found_out(changed: dict[str, object]) -> None:
    assert all(check.holds for check in facts().checks())
    assert [check.holds for check in facts(**changed).checks()].count(False) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--keep", "taken.db"), "exists already"),
        (("--keep", "no/such/folder/x.db"), "does not exist"),
        (("--store", "sqlite:///x.db"), "Leave --store out"),
        (("--speed", "9"), "--speed"),
    ],
)
def test_bad_input_is_2(rota: CallRota, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "taken.db").touch()

    said = rota("demo", *arguments, "--json")

    assert (said.code, said.out) == (2, "")
    assert words in said.error["message"]


def test_the_picture_shows_the_moment_and_the_store() -> None:
    picture = LivePicture()
    picture.say("kill -9 4711.")
    picture.show(
        DemoSnapshot(
            counts={"memory_compression": Counts(pending=3, coalesced_total=88)},
            instances=[Instance(beat=Beat(instance="i", pid=4711), seen_at=0)],
            runs=[RunRecord(task_type="export", key="[red]u1", status=RunStatus.LOST, started_at=0)],
            now=60_000,
        )
    )

    paper = io.StringIO()
    Console(file=paper, width=120).print(picture.picture())
    said = paper.getvalue()

    for words in ("kill -9 4711.", "memory_compression", "88", "silent", "[red]u1", "lost"):
        assert words in said
