"""What holds for every command: where global options go, how errors end, how fast it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import CallRota
from typer.main import get_command

from rota.app import settings
from rota.cli.exits import ExitCode, exit_code_of
from rota.cli.later import loaded
from rota.cli.root import root
from rota.errors import (
    CountChanged,
    IllegalTransition,
    InvalidInput,
    LeaseLost,
    NotAllowed,
    RotaError,
    RunnerUnavailable,
    StoreError,
    UnknownFailure,
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

    monkeypatch.setattr(settings, "load_config", broken)


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
    unknown = (
        UnknownTaskType(""),
        UnknownTask(""),
        UnknownRun(""),
        UnknownFailure(""),
        UnknownToken(""),
        UnknownGroup(""),
    )
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


ENGINES = "alembic fastapi httpx jinja2 mcp numpy prometheus_client psycopg pydantic redis sqlalchemy starlette uvicorn"
NOT_FOR_HELP = (
    f"{ENGINES} asyncio msgspec structlog yaml rota.app.parts rota.config rota.part rota.stores rota.triggers"
)
NOT_FOR_IMPORT = f"{NOT_FOR_HELP} rich typer rota.cli rota.clock rota.errors"


def _imported(program: str, names: str) -> list[str]:
    """Which of the modules are there when a program has ended."""
    asking = f"import sys\n{program}\nprint('imported:', *(set(sys.modules) & set({names.split()})))"
    said = subprocess.run([sys.executable, "-c", asking], capture_output=True, check=True, timeout=60, text=True)
    *_, last = said.stdout.splitlines()
    return last.split()[1:]


def test_help_waits_for_no_engine_and_no_server() -> None:
    """What a command needs is imported by that command: `rota --help` is there at once."""
    assert _imported("from rota.cli import main; main(['--help'])", NOT_FOR_HELP) == []


def test_a_group_waits_for_no_engine_and_no_server() -> None:
    by_typer = {"pydantic"}  # it reads options with it
    assert {*_imported("from rota.cli import main; main(['batch', '--help'])", ENGINES)} <= by_typer


def test_the_first_page_needs_no_routes_of_the_api_and_no_numbers(tmp_path: Path) -> None:
    """What is served later is imported later: the routes of the API and their models, numpy, a client for HTTP."""
    program = f"""
from rota.api import Service, create_api
from rota.app.builtin import build
from rota.app.settings import load_config
from rota.cli import server
create_api(Service(build(load_config(None, environ={{}}, flags={{"store": "sqlite:///{tmp_path}/rota.db"}}))))"""
    assert _imported(program, "alembic httpx mcp numpy yaml rota.api.routes rota.batches.faces.routes") == []


def test_importing_rota_imports_next_to_nothing() -> None:
    assert _imported("import rota", NOT_FOR_IMPORT) == []


def test_what_the_list_says_of_a_command_is_what_it_says_of_itself() -> None:
    tree: Any = get_command(root)
    for name, listed in tree.commands.items():
        found = loaded(listed)
        assert found is not listed, f"{name} is imported before it is called"
        assert found.name == name
        assert found.get_short_help_str(1_000) == listed.get_short_help_str(1_000)


@pytest.mark.parametrize(
    ("typed", "offered"), [("rota ba", "batch"), ("rota batch fol", "follow"), ("rota up --po", "--port")]
)
def test_the_shell_completes_commands_that_are_not_imported_yet(typed: str, offered: str) -> None:
    environ = {**os.environ, "_ROTA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}
    program = "import sys; from rota.cli import main; sys.argv = ['rota']; sys.exit(main())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, text=True, env=environ)

    assert f'"{offered}"' in said.stdout
