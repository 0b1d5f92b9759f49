"""What holds for every command: where global options go, how errors end, how fast it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CallRota

from rota.cli import invocation
from rota.cli.exits import ExitCode, exit_code_of
from rota.errors import (
    CountChanged,
    IllegalTransition,
    InvalidInput,
    LeaseLost,
    NotAllowed,
    RotaError,
    RunnerUnavailable,
    StoreError,
    UnknownGroup,
    UnknownRun,
    UnknownTask,
    UnknownTaskType,
    UnknownToken,
    WebhookFailed,
)

ROTA = [sys.executable, "-m", "rota.cli"]


def test_help_names_every_command_and_every_exit_code(rota: CallRota) -> None:
    said = rota("--help")

    assert said.code == 0
    for word in (
        *("up", "worker", "top", "task", "type", "schedule", "run", "dlq", "queue", "instance", "user", "token"),
        *("audit", "alert", "batch", "config", "doctor", "openapi", "migrate", "demo"),
    ):
        assert f" {word} " in said.out
    for line in (
        "0  done",
        "1  something",
        "2  bad input",
        "3  the store",
        "4  refused",
        "5  less than was asked for",
        "130  interrupted",
    ):
        assert line in said.out


@pytest.mark.parametrize(
    "path",
    [
        *("up", "worker", "top", "doctor", "demo", "openapi", "task ls", "task explain", "task schedule", "task pause"),
        *("type limit", "schedule add", "schedule explain", "dlq redrive", "run show", "user erase", "token add"),
        *("audit ls", "alert test", "queue ls", "instance ls", "batch run", "batch follow", "batch drain"),
    ],
)
def test_every_command_explains_itself(rota: CallRota, path: str) -> None:
    said = rota(*path.split(), "--help")

    assert said.code == 0
    assert "--json" in said.out


def test_version(rota: CallRota) -> None:
    said = rota("--version")

    assert (said.code, said.out) == (0, "rota 0.1.0\n")


@pytest.mark.parametrize("arguments", ["--json task ls", "task --json ls", "task ls --json"])
def test_json_is_accepted_before_and_after_the_command(rota: CallRota, arguments: str) -> None:
    said = rota(*arguments.split())

    assert said.code == 0
    assert said.json == {"items": [], "cursor": None}


def test_the_rightmost_store_wins(rota: CallRota, tmp_path: Path) -> None:
    left, right = f"sqlite:///{tmp_path}/left.db", f"sqlite:///{tmp_path}/right.db"

    said = rota("--store", left, "task", "ls", "--store", right)

    assert said.code == 0
    assert (tmp_path / "right.db").exists()
    assert not (tmp_path / "left.db").exists()
    assert "right.db did not exist" in said.err


@pytest.mark.parametrize("arguments", ["", "task", "schedule", "dlq"])
def test_a_group_without_a_command_shows_its_help(rota: CallRota, arguments: str) -> None:
    said = rota(*arguments.split())

    assert said.code == 2
    assert "Usage: rota" in said.out + said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("tsk ls", "tsk"),
        ("task lss", "lss"),
        ("task ls --jsn", "--jsn"),
        ("task ls --limit many", "'--limit'"),
        ("task ls --status sleeping", "'sleeping'"),
        ("task show", "TYPE"),
        ("task touch memory_compression", "--user"),
        ("schedule add agent", "ID"),
        ("run show", "RUN"),
        ("worker --concurrency lots", "'--concurrency'"),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_where_help_is(rota: CallRota, arguments: str, words: str) -> None:
    said = rota(*arguments.split())

    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert words in said.err
    assert "--help'" in said.err


def test_wrong_usage_as_json(rota: CallRota) -> None:
    said = rota("task", "ls", "--json", "--colour")

    assert said.code == 2
    assert said.error["code"] == "usage"
    assert "--colour" in said.error["message"]


# --- errors end here -------------------------------------------------------------------------------------------------


def _break(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(invocation, "load_config", broken)


def test_the_unexpected_is_one_line_and_a_way_to_see_more(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    _break(monkeypatch, RuntimeError("the moon is full\nand more"))

    said = rota("config", "show")

    assert said.code == 1
    assert said.err == ("error: Unexpected RuntimeError: the moon is full. Set ROTA_DEBUG=1 to see the traceback.\n")


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from rota.cli import main

    _break(monkeypatch, RuntimeError("the moon is full"))
    monkeypatch.setenv("ROTA_DEBUG", "1")

    assert main(["config", "show"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_debug_is_no_setting_that_is_warned_of(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DEBUG", "1")

    assert rota("config", "show", "--json").json["warnings"] == []


def test_ctrl_c_is_130(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    _break(monkeypatch, KeyboardInterrupt())

    said = rota("config", "show")

    assert (said.code, said.err) == (130, "error: Interrupted.\n")


@pytest.mark.parametrize("command", ["task ls", "type ls", "schedule ls", "run ls", "dlq ls", "task touch x --user u"])
def test_a_missing_server_is_3(rota: CallRota, command: str) -> None:
    said = rota(*command.split(), "--json", "--store", "postgresql://127.0.0.1:1/x")

    assert said.code == 3
    assert said.out == ""
    assert said.error["code"] == "store_unavailable"
    assert "127.0.0.1:1" in said.error["message"]
    assert "rota doctor" in said.error["message"], "a driver says what is wrong, and not what to do"


def test_every_error_has_an_exit_code_of_its_own_kind() -> None:
    """1 is for what nobody expected; a new error that is not looked at here would get it by accident."""
    unknown = (UnknownTaskType(""), UnknownTask(""), UnknownRun(""), UnknownToken(""), UnknownGroup(""))
    expected: dict[ExitCode, tuple[RotaError, ...]] = {
        ExitCode.BAD_INPUT: (InvalidInput(""), RunnerUnavailable(""), *unknown),
        ExitCode.STORE_UNAVAILABLE: (StoreError(""),),
        ExitCode.REFUSED: (NotAllowed(""), CountChanged("", 1), IllegalTransition(""), LeaseLost("")),
        ExitCode.FAILED: (WebhookFailed(""),),
    }

    for code, errors in expected.items():
        assert {exit_code_of(error) for error in errors} == {code}
    looked_at = {type(error) for errors in expected.values() for error in errors}
    assert looked_at == {kind for kind in RotaError.__subclasses__() if kind.__module__ == "rota.errors"}


def test_a_broken_pipe_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [*ROTA, "config", "show"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(writer)

    assert ended.returncode == 1
    assert ended.stderr == b""


def test_piped_output_has_no_colours(rota: CallRota) -> None:
    said = subprocess.run([*ROTA, "config", "show"], capture_output=True, check=True, timeout=60, text=True)

    assert "\x1b[" not in said.stdout
    assert said.stdout.splitlines()[0].split() == ["SETTING", "VALUE", "SOURCE"]


HEAVY = "alembic fastapi httpx jinja2 mcp numpy prometheus_client psycopg pydantic redis sqlalchemy starlette uvicorn"


def test_help_waits_for_no_engine_and_no_server() -> None:
    """What a command needs is imported by that command: `rota --help` is there at once."""
    program = f"""
import sys
from rota.cli import main
sys.argv = ["rota", "--help"]
try:
    main()
except SystemExit:
    pass
print([name for name in {HEAVY.split()} if name in sys.modules], file=sys.stderr)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60, text=True)

    assert said.stderr.strip() == "[]"
    assert "rota" in said.stdout
