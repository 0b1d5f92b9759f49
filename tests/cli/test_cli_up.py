"""`rota up`, as a process: it serves pages and runs tasks, says where, and stops when told."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from command_line import CallRota, serving, with_store

from rota.core.task_type import TaskType, TriggerMode
from rota.testing.waiting import until_blocking

PROJECT = """
import asyncio

from rota import Rota

app = Rota()

@app.task
async def slow(payload):
    await asyncio.sleep(payload)
    return "slept"
"""


@contextmanager
def service(*arguments: str) -> Generator[tuple[subprocess.Popen[str], Any]]:
    """A service that is ready, and what it said then."""
    with serving("up", "--json", "--port", "0", *arguments) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            pytest.fail(process.communicate()[1])
        yield process, json.loads(line)


def secret_of(ready: Any) -> str:
    return parse_qs(urlsplit(str(ready["login"])).query)["token"][0]


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=60)
    assert "\nTraceback" not in f"\n{err}"
    return process.returncode, err


def test_one_process_serves_and_works(rota: CallRota, tmp_path: Path) -> None:
    """With the commands that it says to try, and with a page open when it is told to stop."""
    counted = 'rota_runs_total{reason="",status="success",type="echo"}'
    with service() as (process, ready):
        assert ready["pid"] == process.pid
        assert ready["store"].startswith("sqlite:///")
        secret = secret_of(ready)
        with httpx.Client(base_url=ready["url"], timeout=60) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/api/tasks").status_code == 401
            client.headers["Authorization"] = f"Bearer {secret}"
            assert client.get("/api/tasks?task_type=echo").json()["items"] == []
            assert rota("schedule", "add", "echo", "hello", "--every", "1s", "--payload", '{"text": "hi"}').code == 0
            assert rota("task", "schedule", "echo", "bad", "--payload", '{"fail": true}').code == 0
            until_blocking(lambda: bool(runs(client, "success") and runs(client, "error")), "both have run")
            result = runs(client, "success")[0]["result"]
            # The process counts a run when the store has told it that the run is kept, a moment after anybody sees it.
            until_blocking(lambda: counted in client.get("/metrics").text, "it is counted")
            until_blocking(lambda: client.get("/readyz").status_code == 200, "it is ready")
            assert rota("top", "--once").code == 0
            with client.stream("GET", "/api/live") as stream:
                # Kept: an iterator that is dropped would hang up, and no page would be open.
                pieces = stream.iter_raw()
                next(pieces)
                process.send_signal(signal.SIGTERM)
                code, err = ended(process)

    assert code == 0
    assert json.loads(result) == {"echo": {"text": "hi"}}
    assert secret not in err, "a token must never reach a log"
    assert '"event": "worker started"' in err
    assert (tmp_path / "rota.token").read_text().strip() == secret
    assert (tmp_path / "rota.token").stat().st_mode & 0o777 == 0o600


def runs(client: httpx.Client, status: str) -> list[Any]:
    return client.get("/api/runs", params={"status": status, "task_type": "echo"}).json()["items"]


def test_the_link_signs_in_and_is_the_same_at_the_next_start() -> None:
    secrets: list[str] = []
    for _ in range(2):
        with service("--no-worker") as (process, ready):
            secrets.append(secret_of(ready))
            with httpx.Client(follow_redirects=True, timeout=60) as client:
                page = client.get(ready["login"])
                assert page.status_code == 200
                assert secrets[-1] not in str(page.url)
                assert "rota_session" in client.cookies
            process.send_signal(signal.SIGINT)
            assert ended(process)[0] == 0

    assert secrets[0] == secrets[1]


def test_people_are_told_where_it_is_and_what_to_try() -> None:
    with serving("up", "--port", "0") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip() for _ in range(9)]
        process.send_signal(signal.SIGINT)
        code, err = ended(process)

    assert (lines[0], lines[8]) == ("", ""), "the log lies above and below"
    assert lines[1].startswith("Rota is up: http://127.0.0.1:")
    assert "/login?token=rota_" in lines[1]
    commands = [line.strip() for line in lines[5:8]]
    assert all(command.startswith("python -m rota.cli ") for command in commands)
    assert "schedule add echo" in commands[0]
    assert code == 0
    assert "Stopped." in err


def test_the_first_signal_waits_for_what_runs_and_the_second_does_not(rota: CallRota, tmp_path: Path) -> None:
    # The first signal would wait for longer than this test may take: if it ends, the second one ended it.
    (tmp_path / "project.py").write_text(f"import rota.cli.server\nrota.cli.server.STOP_SECONDS = 3600\n{PROJECT}")
    with service("--app", "project:app") as (process, ready):
        rota("task", "schedule", "slow", "long", "--payload", "250")
        until_blocking(lambda: rota("task", "show", "slow/long", "--json").json["status"] == "running", "it runs")
        process.send_signal(signal.SIGINT)
        until_blocking(lambda: not is_answered(ready), "it answers no more")
        assert process.poll() is None
        assert rota("task", "show", "slow/long", "--json").json["status"] == "running", "what runs goes on"
        process.send_signal(signal.SIGINT)
        code, _ = ended(process)

    assert code == 0
    task = rota("task", "show", "slow/long", "--json").json
    assert (task["status"], task["errors"]) == ("pending", 0), "unfinished work is released, and burns no retry"


def is_answered(ready: Any) -> bool:
    try:
        return httpx.get(f"{ready['url']}healthz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def test_without_a_worker_nothing_is_run(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no worker is allowed."""
    monkeypatch.setenv("ROTA_SCHEDULER__ENABLED", "false")
    refused = rota("up", "--port", "0")
    assert refused.code == 2
    assert "scheduler.enabled is false (environment ROTA_SCHEDULER__ENABLED)" in refused.err

    # Another process serves the type, or has: pages alone tell the store of none.
    with_store(lambda store: store.put_types([TaskType(name="echo", trigger_mode=TriggerMode.ONCE)]))
    with service("--no-worker") as (process, ready):
        rota("task", "schedule", "echo", "k")
        assert rota("instance", "ls", "--json").json["items"] == []
        assert httpx.get(f"{ready['url']}healthz", timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0

    assert rota("task", "show", "echo/k", "--json").json["status"] == "pending"


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_a_public_address_needs_a_token_first(rota: CallRota) -> None:
    said = rota("up", "--host", "0.0.0.0", "--port", "0")

    assert (said.code, said.out) == (2, "")
    assert "rota token add" in said.err

    rota("token", "add", "ops", "--role", "admin")
    with service("--host", "0.0.0.0") as (process, ready):
        assert ready["login"] is None, "no first token is made for the whole network"
        assert httpx.get(f"{ready['url']}healthz", timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


def test_a_taken_port_is_named(rota: CallRota) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        said = rota("up", "--port", str(port))

    assert (said.code, said.out) == (2, "")
    assert f"The port {port} of 127.0.0.1 is taken" in said.err
    assert "--port" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "no.such.host.invalid"), "cannot be served"),
        (("--host", "203.0.113.7"), "no address of this machine"),
        (("--config", "missing.yaml"), "missing.yaml"),
        (("--concurrency", "0"), "max_concurrent"),
    ],
)
def test_bad_input_is_2(rota: CallRota, arguments: tuple[str, ...], words: str) -> None:
    said = rota("up", "--port", "0", *arguments)

    assert (said.code, said.out) == (2, "")
    assert words in said.err


@pytest.mark.parametrize("arguments", ["--port 70000", "--port many", "--prot 1", "--host"])
def test_wrong_usage_is_2(rota: CallRota, arguments: str) -> None:
    said = rota("up", *arguments.split())

    assert (said.code, said.out) == (2, "")
    assert "--help" in said.err


@pytest.mark.parametrize("store", ["postgresql://127.0.0.1:1/x", "redis://127.0.0.1:1/0"])
def test_a_missing_server_is_3_and_leaves_nothing_behind(rota: CallRota, tmp_path: Path, store: str) -> None:
    said = rota("up", "--port", "0", "--store", store)

    assert (said.code, said.out) == (3, "")
    assert "127.0.0.1:1" in said.err
    assert list(tmp_path.iterdir()) == []
