"""No command that reads declares anything; two apps that declare one type differently are told."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from rota import Rota
from rota.cli import main
from rota.testing.waiting import until

READING = [
    "agent ls",
    "agent waiting",
    "agent running",
    "agent group ls",
    "alert ls",
    "config show",
    "dlq ls",
    "memory ls u1",
    "memory search u1 tea",
    "memory stats",
    "run ls",
    "schedule ls",
    "task ls",
    "token ls",
    "type ls",
    "user show u1",
]


@pytest.fixture(autouse=True)
def _somebodys_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with an app that has its own idea of `memory_compression`, and was used once."""
    for name in [name for name in os.environ if name.startswith("ROTA_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_STORE", "sqlite:///rota.db")
    asyncio.run(_use(_app("2s")))
    yield
    structlog.reset_defaults()


def _app(after: str, version: int = 0) -> Rota:
    app = Rota("sqlite:///rota.db")

    @app.on_activity(after=after, name="memory_compression", version=version)
    async def compress(user_id: str, device_id: str, agent_id: str) -> None: ...

    @app.cron("0 9 * * 1-5", timezone="Asia/Shanghai", name="morning_report")
    async def report() -> None: ...

    return app


async def _use(app: Rota) -> None:
    async with app:
        await app.touch("memory_compression", "u1", "phone")
        # What has no place in the store lies in the same file: its tables are made when they are first needed.
        await app.database()


def _content() -> list[str]:
    connection = sqlite3.connect("rota.db")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


@pytest.mark.parametrize("command", READING)
def test_16_a_command_that_reads_leaves_the_store_as_it_was(command: str) -> None:
    before = _content()
    assert main(command.split()) == 0
    assert _content() == before


def test_16_only_the_type_that_a_command_makes_tasks_of_is_made_known() -> None:
    known = _types()
    assert main(["agent", "group", "add", "main", "--main"]) == 0
    assert _types() == known
    assert main(["agent", "add", "main", "Say hello.", "--every", "1h"]) == 0
    assert {name: value for name, value in _types().items() if name != "agent"} == known
    assert "agent" in _types()


def test_16_pages_without_a_worker_declare_nothing() -> None:
    before = _tasks_and_types()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "rota.cli", "up", "--no-worker", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as serving:
        try:
            assert serving.stdout is not None
            assert b'"url"' in serving.stdout.readline()
            assert _tasks_and_types() == before
        finally:
            serving.terminate()
    assert _tasks_and_types() == before


def test_16_an_app_that_changes_a_type_says_so() -> None:
    with capture_logs() as logs:
        asyncio.run(_use(_app("30m")))
    (told,) = [line for line in logs if line["event"] == "type changed"]
    assert told["task_type"] == "memory_compression"
    assert told["before_and_now"] == {"interval_ms": (2_000, 1_800_000)}
    with capture_logs() as logs:
        asyncio.run(_use(_app("30m")))
    assert not [line for line in logs if line["event"] == "type changed"]


def test_16_an_app_whose_declaration_is_older_is_told() -> None:
    asyncio.run(_use(_app("30m", version=2)))
    with capture_logs() as logs:
        asyncio.run(_use(_app("2s")))
    (told,) = [line for line in logs if line["event"] == "type declared differently elsewhere"]
    assert told["here_and_in_the_store"]["interval_ms"] == (2_000, 1_800_000)


async def test_16_a_worker_is_told_when_another_app_declares_its_type_differently() -> None:
    worker = Rota({"scheduler": {"check_interval": 1}}, store="sqlite:///rota.db")

    @worker.on_activity(after="2s", cooldown="defer", name="memory_compression")
    async def compress(user_id: str, device_id: str, agent_id: str) -> None: ...

    with capture_logs() as logs:
        await worker.start()
        try:
            async with _app("30m"):
                pass

            def is_told() -> bool:
                return any(line["event"] == "type declared differently elsewhere" for line in logs)

            await until(is_told, "the worker is told")
        finally:
            await worker.stop()
    assert len([line for line in logs if line["event"] == "type declared differently elsewhere"]) == 1


def _types() -> dict[str, str]:
    return {row[0]: row[1] for row in _rows("SELECT name, config FROM task_types")}


def _tasks_and_types() -> list[tuple[object, ...]]:
    return [*_rows("SELECT * FROM task_types ORDER BY name"), *_rows("SELECT * FROM scheduled_tasks ORDER BY key")]


def _rows(query: str) -> list[tuple[str, ...]]:
    connection = sqlite3.connect("rota.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
