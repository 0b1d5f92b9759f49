"""The example as a process, end to end: a user talks over HTTP, and later their memory is one note shorter."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from rota.testing.waiting import PATIENCE, until_blocking

ROOT = Path(__file__).parents[2]
SAID = ("I love hiking in the mountains.", "I really love hiking in the mountains!", "I live in Oslo.")


@contextmanager
def assistant(folder: Path, **environ: str) -> Generator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The example, served by uvicorn as its first lines say, in a folder of its own."""
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples"), "assistant.main:app"]
    # It is given a socket and not a number: a port that was free a moment ago may be somebody else's by now.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = subprocess.Popen(
            [*command, "--fd", str(listening.fileno()), "--log-level", "warning"],
            cwd=folder,
            env={**os.environ, "ASSISTANT_STORE": "sqlite:///assistant.db?synchronous=OFF", **environ},
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[listening.fileno()],
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            assert client.get("/memory/nobody").status_code == 200
            yield process, client
    finally:
        process.kill()
        process.communicate()


def test_a_user_is_remembered_in_fewer_words(tmp_path: Path) -> None:
    with assistant(tmp_path, ASSISTANT_INTERVAL="1s", ROTA_MEMORY__SETTLING="500ms") as (process, client):
        for text in SAID:
            answer = client.post("/api/push/chat/message", json={"user_id": "ada", "content": text})
            assert (answer.status_code, answer.json()["status"]) == (200, "success")
        refused = client.post("/api/push/chat/message", json={"user_id": "__base__", "content": "x"})
        assert (refused.status_code, "reserved" in refused.text) == (422, True)

        def known() -> Any:
            return client.get("/memory/ada").json()

        until_blocking(lambda: known()["figures"]["fresh"] == 0, "everything is compressed")
        assert sorted(note["stands_for"] for note in known()["notes"]) == [1, 2]
        assert client.get("/chat/ada", params={"text": "where do I live"}).json()["answer"] == (
            "You told me: I live in Oslo."
        )
        until_blocking(lambda: known()["profile"] is not None, "the type of its own has run")
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=PATIENCE)[1]


def test_what_was_said_last_is_not_lost_when_it_stops(tmp_path: Path) -> None:
    with assistant(tmp_path) as (process, client):
        for number in range(20):
            client.post("/api/push/chat/message", json={"user_id": f"u{number}", "content": SAID[0]})
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    listed = subprocess.run(
        [sys.executable, "-m", "rota.cli", "queue", "ls", "--json", "--store", "sqlite:///assistant.db"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    pending = {one["task_type"]: one["pending"] for one in json.loads(listed.stdout)["items"]}
    assert pending["memory_compression"] == 20
