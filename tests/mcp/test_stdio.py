"""`rota mcp` as a real process, driven by the official client: who it is, is how it was started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from tests.mcp.conftest import Staging
from tests.mcp.test_http import FREE, WEEKDAYS, call, refused

from rota.agents.operator import TOOLS
from rota.clock import SystemClock

CONFIG = """
store: {store}
timezone: Europe/Berlin
agents: {{approval: {approval}, groups_dir: {groups}, isolation: process}}
"""


@asynccontextmanager
async def started(
    tmp_path: Path, store: str, *options: str, approval: str = "none", **env: str
) -> AsyncGenerator[Client]:
    config = tmp_path / "rota.yaml"
    config.write_text(CONFIG.format(store=store, approval=approval, groups=tmp_path / "groups"))
    arguments = ["-m", "rota.cli", "mcp", "--config", str(config), *options]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env={**os.environ, "COVERAGE_PROCESS_START": "", **env}, cwd=tmp_path
    )
    async with Client(server) as client:
        yield client


async def test_a_conversation_over_stdio_and_a_run_that_may_make_nothing(
    staging: Staging, tmp_path: Path, sqlite_url: str
) -> None:
    # By the real clock, which the other process has too: half a day away, so that it is not due by itself meanwhile.
    hour = (datetime.now(ZoneInfo("Asia/Tokyo")) + timedelta(hours=12)).hour
    daily = {**WEEKDAYS, "schedule_value": f"0 {hour} * * *"}
    async with staging(FREE, clock=SystemClock()) as scene:
        async with started(tmp_path, sqlite_url, "--group", "family") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= set(TOOLS)
            task = (await call(client, "schedule_task", **daily))["task_id"]
            await call(client, "update_task", task_id=task, prompt="Anything new?")
            await call(client, "pause_task", task_id=task)
            resumed = await call(client, "resume_task", task_id=task)
            assert resumed["next_run_in_words"].endswith(f"{hour:02}:00 (Asia/Tokyo)")
            await call(client, "run_task", task_id=task)
            assert await scene.app.run_until_idle() == 1
            history = await call(client, "task_history", task_id=task)
            assert [run["result"] for run in history["runs"]] == ["Anything new?"]
            assert "your own group" in await refused(client, "schedule_task", **WEEKDAYS, group="work")
            assert [made.made_by for made in await scene.operator.list_tasks()] == ["agent:family"]

        async with started(tmp_path, sqlite_url, "--group", "family", ROTA_RUN=f"{task}-1") as client:
            assert "A scheduled run may not" in await refused(client, "schedule_task", **WEEKDAYS)
            assert (await call(client, "cancel_task", task_id=task))["status"] == "cancelled"


async def test_another_group_started_beside_it_sees_nothing_of_it(
    staging: Staging, tmp_path: Path, sqlite_url: str
) -> None:
    async with staging(FREE, clock=SystemClock()) as scene:
        async with scene.connect("family") as family:
            task = (await call(family, "schedule_task", **WEEKDAYS))["task_id"]
        async with started(tmp_path, sqlite_url, "--group", "work", approval="all") as client:
            assert (await call(client, "list_tasks"))["tasks"] == []
            assert "no schedule" in await refused(client, "cancel_task", task_id=task)
            assert (await call(client, "schedule_task", **WEEKDAYS))["status"] == "waiting_for_approval"
        assert [one.group_folder for one in await scene.operator.waiting()] == ["work"]


HELLO = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",'
    b' "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}\n'
)


@pytest.mark.parametrize(
    ("how", "code"), [(None, 0), (signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM)]
)
async def test_it_ends_when_the_client_is_gone_or_somebody_wants_it_to(
    staging: Staging, tmp_path: Path, sqlite_url: str, how: signal.Signals | None, code: int
) -> None:
    """A client that was killed cannot say goodbye: the end of our input must be enough."""
    async with staging():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rota.cli", "mcp", "--store", sqlite_url, "--group", "family"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        assert b'"serverInfo"' in await process.stdout.readline()
        if how is None:
            process.stdin.close()
        else:
            process.send_signal(how)
        async with asyncio.timeout(60):
            assert await process.wait() == code


@pytest.mark.parametrize("options", [["--group", "nobody"], []])
async def test_a_group_that_does_not_exist_is_said_at_once(tmp_path: Path, sqlite_url: str, options: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rota.cli", "mcp", "--store", sqlite_url, *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )
    out, errors = await process.communicate()
    assert process.returncode not in (0, None)
    assert out == b"", "stdout is the protocol's"
    assert b"Traceback" not in errors
    assert b"roup" in errors
