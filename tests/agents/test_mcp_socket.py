"""A run speaks MCP with Rota through a socket of its own, in a sandbox without network too."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import termios
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.agents.conftest import require_bubblewrap

from rota import Rota
from rota.access import AuditLog
from rota.access.audit import AuditQuery
from rota.agents import Agents, AgentSchedule, AgentSettings, Caller, Rules, install_agents
from rota.agents.faces.mcp import stdio_to_socket
from rota.agents.faces.mcp.runs import LONGEST_LINE, MOST_CONVERSATIONS, RunSockets
from rota.agents.isolation import AgentInput, RunEnvironment, RunRequest
from rota.testing import until

ANN = Caller.person("ann")
FREE = Rules(approval="none")
MONTHLY: dict[str, Any] = {"prompt": "x", "schedule_type": "cron", "schedule_value": "0 9 1 * *"}

# Starts the server that its configuration names, calls the tools that its prompt names, answers with their answers.
AGENT = """
import json, os, subprocess, sys
given = json.loads(sys.stdin.readline())
with open(sys.argv[1]) as file:
    named = json.load(file)["mcpServers"]["rota"]
server = subprocess.Popen([named["command"], *named["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(method, params, number=[0]):
    number[0] += 1
    call = {"jsonrpc": "2.0", "id": number[0], "method": method, "params": params}
    server.stdin.write(json.dumps(call).encode() + b"\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]
ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}})
server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\\n')
said = {"run": os.environ["ROTA_RUN"], "socket": os.environ["ROTA_MCP_SOCKET"], "answers": []}
for tool, arguments in json.loads(given["prompt"]):
    result = ask("tools/call", {"name": tool, "arguments": arguments})
    said["answers"].append(result.get("structuredContent") or result["content"][0]["text"])
print(json.dumps({"status": "success", "result": said}))
server.stdin.close()
server.wait()
"""


@pytest.fixture
def short_dir() -> Generator[Path]:
    """The name of a socket has at most a hundred letters or so."""
    with tempfile.TemporaryDirectory(prefix="rota-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def installed(app: Rota, settings: AgentSettings, python: str, rules: Rules = FREE) -> Agents:
    return install_agents(app, replace(settings, command=(python, "-c", AGENT, "{mcpConfig}"), rules=rules))


async def said_by_a_run(app: Rota, agents: Agents, calls: list[Any]) -> tuple[AgentSchedule, dict[str, Any]]:
    made = await agents.schedule_task(ANN, **{**MONTHLY, "prompt": json.dumps(calls)}, group="family")
    await agents.run_task(ANN, made.id)
    assert await app.run_until_idle() == 1
    (row,) = (await agents.task_history(ANN, made.id)).items
    assert row["status"] == "success", row["error"]
    return made, json.loads(row["whole_result"])


# --- a real run ---


@pytest.mark.parametrize("isolation", ["process", "bubblewrap"])
async def test_a_run_is_itself_and_nothing_more(
    app: Rota, settings: AgentSettings, python: str, isolation: str
) -> None:
    if isolation == "bubblewrap":
        require_bubblewrap()
        settings = replace(settings, isolation="bubblewrap")
    agents = installed(app, settings, python)
    async with app:
        for folder in ("main", "family", "work"):
            await (await agents.groups()).add(folder, is_main=folder == "main")
        other = await agents.schedule_task(ANN, **MONTHLY, group="work")
        calls: list[Any] = [
            ("list_tasks", {}),
            ("schedule_task", {**MONTHLY, "schedule_value": "0 9 * * *"}),
            ("cancel_task", {"task_id": other.id}),
        ]
        made, said = await said_by_a_run(app, agents, calls)
        listed, scheduled, cancelled = said["answers"]
        assert [task["task_id"] for task in listed["tasks"]] == [made.id]
        assert "A scheduled run may not" in scheduled
        assert "no schedule" in cancelled
        entries, _ = await AuditLog(await app.database()).page(AuditQuery())
        assert {entry.actor for entry in entries if entry.via == "mcp"} == {f"run:{said['run']}"}
        assert not Path(said["socket"]).parent.exists(), "the way in is gone with the run"


async def test_a_run_that_ends_its_own_schedule_is_the_last_and_goes_on_to_its_end(
    app: Rota, settings: AgentSettings, python: str
) -> None:
    agents = installed(app, settings, python)
    async with app:
        await (await agents.groups()).add("family")
        # It does not know its own id before it runs: what it cancels is the first that it finds.
        seek = AGENT.replace(
            'said["answers"].append(',
            'arguments = {"task_id": result["structuredContent"]["tasks"][0]["task_id"]}\n'
            '    result = ask("tools/call", {"name": "cancel_task", "arguments": arguments})\n'
            '    said["answers"].append(',
        )
        agents = install_agents(app, replace(agents.settings, command=(python, "-c", seek, "{mcpConfig}")))
        made, said = await said_by_a_run(app, agents, [("list_tasks", {})])
        (answer,) = said["answers"]
        assert answer["message"] == f"{made.id} is cancelled. The run that is under way is its last."
        assert answer["next_run"] is None
        (task,) = await agents.list_tasks(ANN, finished=True)
        assert (task.status, task.next_run_words) == ("completed", None)


async def test_what_another_asks_stops_the_run_as_before(app: Rota, agents: Agents) -> None:
    async with app:
        await (await agents.groups()).add("family")
        made = await agents.schedule_task(Caller.agent("family"), **MONTHLY)
        await agents.approve(ANN, made.id)
        of_another = Caller.agent("family", run_id="task-1-1-7")
        assert (await agents.cancel_task(of_another, made.id)).status == "cancelled"


# --- the socket itself ---


def request_of(folder: Path, uid: int | None = None) -> RunRequest:
    environment = RunEnvironment(folder=folder, run_id="task-1-1-3", uid=uid)
    return RunRequest(environment=environment, input=AgentInput(prompt="x", group_folder="family", chat_jid="x"))


@asynccontextmanager
async def opened(app: Rota, agents: Agents, below: Path, uid: int | None = None) -> AsyncGenerator[str]:
    async with app:
        await (await agents.groups()).add("family")
        async with RunSockets(agents, app.database, below=below).opened(request_of(below, uid)) as request:
            yield request.environment.variables["ROTA_MCP_SOCKET"]


async def test_the_official_client_drives_every_tool(
    app: Rota, settings: AgentSettings, python: str, short_dir: Path
) -> None:
    agents = installed(app, settings, python, Rules(approval="none", max_depth=5))
    async with opened(app, agents, short_dir) as path:
        config = json.loads((Path(path).parent / "mcp.json").read_text())["mcpServers"]["rota"]
        server = StdioServerParameters(command=python, args=config["args"])
        async with Client(stdio_client(server)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            made = await called(client, "schedule_task", **MONTHLY)
            named = {"task_id": made["task_id"]}
            assert (await called(client, "update_task", **named, prompt="y"))["prompt"] == "y"
            assert (await called(client, "pause_task", **named))["status"] == "paused"
            assert (await called(client, "resume_task", **named))["status"] == "active"
            assert (await called(client, "task_history", **named))["runs"] == []
            assert (await called(client, "run_task", **named))["status"] == "active"
            assert (await called(client, "cancel_task", **named))["status"] == "cancelled"
            assert (await called(client, "list_tasks", include_finished=True))["tasks"][0]["status"] == "cancelled"
        assert len(tools) == 10


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert answer.structured_content is not None, answer.content
    return answer.structured_content


PING = b'{"jsonrpc": "2.0", "id": %d, "method": "ping"}\n'
HELLO = b"""{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18",\
 "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}
{"jsonrpc": "2.0", "method": "notifications/initialized"}
"""


@asynccontextmanager
async def connected(path: str) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def is_greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the server answers on this connection."""
    try:
        writer.write(HELLO)
        return b"serverInfo" in await reader.readline()
    except ConnectionError:
        return False


async def test_questions_without_waiting_are_answered_one_after_the_other(
    app: Rota, agents: Agents, short_dir: Path
) -> None:
    async with opened(app, agents, short_dir) as path, connected(path) as (reader, writer):
        assert await is_greeted(reader, writer)
        many = 500
        writer.write(b"".join(PING % (number + 1) for number in range(many)))
        writer.write_eof()
        answers = [json.loads(line) for line in (await reader.read()).splitlines()]
        assert [answer["id"] for answer in answers] == list(range(1, many + 1))


async def test_a_line_without_end_ends_its_own_conversation_alone(app: Rota, agents: Agents, short_dir: Path) -> None:
    async with opened(app, agents, short_dir) as path, connected(path) as other:
        assert await is_greeted(*other)
        async with connected(path) as (reader, writer):
            assert await is_greeted(reader, writer)
            with suppress(ConnectionError):
                writer.write(b"x" * (3 * LONGEST_LINE))
                await writer.drain()
                assert await reader.read() == b""
        reader, writer = other
        writer.write(b"this is no JSON\n" + PING % 7)
        while json.loads(await reader.readline()).get("id") != 7:
            pass


async def test_whoever_leaves_without_listening_is_no_failure(
    app: Rota, agents: Agents, short_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(app, agents, short_dir) as path:
        for _ in range(2 * MOST_CONVERSATIONS):
            async with connected(path) as (reader, writer):
                await until(lambda line=(reader, writer): is_greeted(*line))
                writer.write(b"".join(PING % (number + 1) for number in range(100)))
                writer.transport.abort()
    assert "failed" not in caplog.text


async def test_a_run_holds_a_few_conversations_at_most(app: Rota, agents: Agents, short_dir: Path) -> None:
    async with opened(app, agents, short_dir) as path, AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        assert await is_greeted(*await first.enter_async_context(connected(path)))
        for _ in range(MOST_CONVERSATIONS - 1):
            assert await is_greeted(*await stack.enter_async_context(connected(path)))

        async def is_room() -> bool:
            async with connected(path) as line:
                return await is_greeted(*line)

        assert not await is_room()
        await first.aclose()
        await until(is_room, "a conversation that has ended makes room")


async def test_the_end_of_the_run_ends_what_is_said(app: Rota, agents: Agents, short_dir: Path) -> None:
    async with AsyncExitStack() as stack:
        async with opened(app, agents, short_dir) as path:
            reader, writer = await stack.enter_async_context(connected(path))
            assert await is_greeted(reader, writer)
        assert await reader.read() == b""
        with pytest.raises(FileNotFoundError):
            await asyncio.open_unix_connection(path)
    assert is_empty(short_dir)


async def test_a_run_that_does_not_listen_ends_all_the_same(app: Rota, agents: Agents, short_dir: Path) -> None:
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n' * 500
    with socket.socket(socket.AF_UNIX) as deaf:
        async with opened(app, agents, short_dir) as path:
            deaf.connect(path)
            deaf.sendall(HELLO + asked)
            deaf.shutdown(socket.SHUT_WR)
            # Far more is answered than a socket takes in: the rest stays with the server.
            await until(lambda: waiting_in(deaf) > 100_000, "the socket is full of answers")
        assert waiting_in(deaf) < 500 * 1_000


def waiting_in(line: socket.socket) -> int:
    """How many bytes nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(line, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can become somebody else.")
async def test_only_the_users_of_the_run_get_in(app: Rota, agents: Agents, short_dir: Path, python: str) -> None:
    mine, others = 1_900_000_777, 1_900_000_778
    knock = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    async with opened(app, agents, short_dir, uid=mine) as path:
        for user, expected in ((mine, True), (others, False)):
            tried = await asyncio.to_thread(
                subprocess.run, [python, "-c", knock, path], user=user, group=user, extra_groups=[], capture_output=True
            )
            assert (tried.returncode == 0) is expected, tried.stderr
            assert expected or b"PermissionError" in tried.stderr
        write = f"open({str(Path(path).parent / 'more')!r}, 'w')"
        tried = await asyncio.to_thread(
            subprocess.run, [python, "-c", write], user=mine, group=mine, extra_groups=[], capture_output=True
        )
        assert b"PermissionError" in tried.stderr, "it can use the way in, and put nothing beside it"


# --- where there is none, and what is left of one ---


async def test_where_no_socket_can_be_had_the_run_goes_without(app: Rota, agents: Agents, tmp_path: Path) -> None:
    too_long = tmp_path / ("x" * 120)
    too_long.mkdir()
    async with app, RunSockets(agents, app.database, below=too_long).opened(request_of(tmp_path)) as request:
        assert "ROTA_MCP_SOCKET" not in request.environment.variables
    assert is_empty(too_long)


async def test_a_run_that_is_cancelled_while_its_socket_is_made_leaves_nothing(
    app: Rota, agents: Agents, short_dir: Path
) -> None:
    sockets = RunSockets(agents, app.database, below=short_dir)

    async def run() -> None:
        async with sockets.opened(request_of(short_dir)):
            await asyncio.Event().wait()

    async with app:
        for steps in range(12):  # wherever it is by then
            running = asyncio.create_task(run())
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await until(lambda: is_empty(short_dir))


async def test_what_a_killed_instance_has_left_is_taken_away(app: Rota, agents: Agents, short_dir: Path) -> None:
    def left(name: str, age: float) -> Path:
        folder = short_dir / f"rota-run-{name}"
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as line:
            line.bind(str(folder / "mcp.sock"))
        past = folder.stat().st_mtime - age
        os.utime(folder, (past, past))
        return folder

    dead, young = left("dead", 3_600), left("young", 0)
    target = short_dir / "elsewhere"
    target.mkdir()
    (short_dir / "rota-run-link").symlink_to(target)
    live = short_dir / "rota-run-live"
    live.mkdir()
    server = await asyncio.start_unix_server(lambda _reader, writer: writer.close(), live / "mcp.sock")
    os.utime(live, (1_000_000_000, 1_000_000_000))
    async with opened(app, agents, short_dir):
        assert not dead.exists()
        assert all(path.exists() for path in (young, live, target, short_dir / "rota-run-link"))
    server.close()


async def test_it_can_be_switched_off(sqlite_url: str, tmp_path: Path) -> None:
    for is_on in (True, False):
        app = Rota({"store": sqlite_url, "agents": {"mcp_socket": is_on, "groups_dir": str(tmp_path / "groups")}})
        agents = install_agents(app)
        async with app, agents.handler.mcp_access(request_of(tmp_path)) as request:
            assert ("ROTA_MCP_SOCKET" in request.environment.variables) is is_on


def test_the_program_says_when_there_is_nothing_to_reach(tmp_path: Path) -> None:
    asked = [sys.executable, stdio_to_socket.__file__, str(tmp_path / "none.sock")]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "cannot be reached" in told.stderr
    assert "Is the run over?" in told.stderr
