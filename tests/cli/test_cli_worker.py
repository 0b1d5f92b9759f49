"""`rota worker`, as a process: it runs tasks, and stops when told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CallRota, serving

from rota.testing.waiting import until_blocking

PROJECT = """
from rota import Rota

app = Rota()
fixed = Rota("sqlite:///elsewhere.db", max_concurrent=2)
number = 5

@app.on_activity(after="0s")
async def hello(user_id: str) -> str:
    return f"hello {user_id}"

@app.on_activity(after="0s", max_retries=0)
async def secretive(user_id: str) -> None:
    password = "hunter2"
    raise ValueError("no")
"""


AGENTS = """
from pathlib import Path
from rota import Rota
from rota.agents import AgentSettings, install_agents

app = Rota()
said = '''printf '{"status": "success", "result": "%s"}' "$ROTA_MCP_SOCKET" '''
install_agents(
    app,
    AgentSettings(groups_dir=Path("groups"), isolation="process", uid_base=None, command=("/bin/sh", "-c", said)),
)
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path) -> None:
    (tmp_path / "project.py").write_text(PROJECT)
    (tmp_path / "assistant.py").write_text(AGENTS)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needy.py").write_text("import no_such_library")


def alive(rota: CallRota) -> bool:
    checks = {check["check"]: check for check in rota("doctor", "--json").json["checks"]}
    return "instances" in checks and checks["instances"]["detail"].startswith("1 alive")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_runs_tasks_and_stops_when_told(rota: CallRota, number: signal.Signals) -> None:
    with serving("worker", "--app", "project:app", "--max-concurrent", "3") as process:
        until_blocking(lambda: alive(rota), "the worker is listed")
        assert rota("task", "touch", "hello", "--user", "ada", "--json").json["outcome"] == "created"
        until_blocking(lambda: bool(rota("run", "ls", "--json").json["items"]), "the task has run")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0
    assert out == ""
    assert "3 tasks at once" in err
    assert "uvloop" in err, "the log says which loop it runs on"
    assert "Stopped." in err
    assert rota("run", "ls", "--json").json["items"][0]["result"] == "hello ada"


@pytest.mark.parametrize("command", [("worker",), ("up", "--port", "0")], ids=["worker", "up"])
def test_agents_find_their_socket(rota: CallRota, command: tuple[str, ...]) -> None:
    rota("agent", "group", "add", "main", "--main")
    made = rota("agent", "add", "main", "Where is it?", "--cron", "0 9 1 1 *", "--json").json
    with serving(*command, "--app", "assistant:app") as process:
        until_blocking(lambda: alive(rota), "the worker is listed")
        rota("agent", "run", made["id"])
        until_blocking(lambda: bool(rota("agent", "log", made["id"], "--json").json["items"]), "the agent has run")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    (run,) = rota("agent", "log", made["id"], "--json").json["items"]
    assert run["result"].endswith("/mcp.sock"), run


def test_the_log_of_a_failure_keeps_secrets(rota: CallRota) -> None:
    with serving("worker", "--app", "project:app") as process:
        until_blocking(lambda: alive(rota), "the worker is listed")
        rota("task", "touch", "secretive", "--user", "ada")
        until_blocking(lambda: bool(rota("dlq", "ls", "--json").json["items"]), "the task has failed")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert "ValueError: no" in err
    assert "status=failed" in err, "that no retry was left is in the log"
    assert "hunter2" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--app MODULE:ATTRIBUTE"),
        (("--app", "nowhere:app"), "no module 'nowhere'"),
        (("--app", "nowhere.deep:app"), "no module 'nowhere'"),
        (("--app", "project:number"), "is a int, not a Rota"),
        (("--app", "project:ap"), "Did you mean 'app'?"),
        (("--app", "json:app"), "app = Rota()"),
        (("--app", "broken"), "ZeroDivisionError"),
        (("--app", "needy"), "needs 'no_such_library'"),
        (("--app", "../project:app"), "names no app"),
        (("--app", "project:a b"), "names no app"),
        (("--app", "project:app", "--concurrency", "0"), "max_concurrent"),
        (("--app", "project:fixed", "--store", "sqlite:///here.db"), "--store sqlite:///here.db has no effect"),
        (("--app", "project:fixed", "--concurrency", "7"), "--max-concurrent 7 has no effect"),
    ],
)
def test_bad_input_is_2(arguments: tuple[str, ...], words: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "ROTA_STORE"}

    ended = subprocess.run(
        [sys.executable, "-m", "rota.cli", "worker", "--json", *arguments],
        capture_output=True,
        check=False,
        env=environ,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in json.loads(ended.stderr)["error"]["message"]


def ended_by_itself(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As a process, because whoever imports an app keeps it: the next test would find it in `sys.modules`."""
    command = [sys.executable, "-m", "rota.cli", "worker", "--app", "project:app", *arguments]
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)


def test_a_worker_that_may_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SCHEDULER__ENABLED", "false")

    ended = ended_by_itself()

    assert ended.returncode == 2
    assert "scheduler.enabled is false (environment ROTA_SCHEDULER__ENABLED)" in ended.stderr


def test_a_missing_server_is_3() -> None:
    ended = ended_by_itself("--store", "postgresql://127.0.0.1:1/x")

    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
