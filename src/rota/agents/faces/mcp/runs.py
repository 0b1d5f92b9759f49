"""MCP for scheduled runs: each one has a socket of its own, and whoever speaks through it is that run.

A socket is a file, so a sandbox without network shows it like one. There is no token that could be carried away: the
socket is there as long as the run is, only the run's own user may open it, and nothing that is said through it can
change whose it is. It speaks MCP as over standard input and output, a line for each message. Beside it lies a
configuration in the form that command-line agents read, with a program in it that they start as their MCP server
(`stdio_to_socket.py`).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from rota.agents import Agents
from rota.agents.isolation.base import RunRequest
from rota.agents.isolation.process import MCP_CONFIG, MCP_SOCKET
from rota.agents.operator import AgentOperator, agent_principal
from rota.agents.runs.file_work import FileWork
from rota.database import Database
from rota.logs import get_logger

__all__ = ["RunSockets"]

MOST_CONVERSATIONS: Final = 8
"""How many a run may hold at the same time."""
LONGEST_LINE: Final = 1_048_576

_SURELY_OPEN: Final = 60.0
"""Seconds after which a socket that nobody answers is not one that somebody is just opening."""
_PREFIX: Final = "rota-run-"
_SOCKET: Final = "mcp.sock"
_CONFIG: Final = "mcp.json"
_STDIO_TO_SOCKET: Final = Path(__file__).with_name("stdio_to_socket.py").read_text(encoding="utf-8")
"""Handed over as it is: where an agent runs, none of Rota's files may be in sight."""

_log = get_logger("rota.mcp")


class RunSockets:
    """Opens a socket for each run, below one folder."""

    def __init__(
        self, agents: Agents, database: Callable[[], Awaitable[Database]], *, below: Path | None = None
    ) -> None:
        self._agents = agents
        self._database = database
        self._below = below or Path(tempfile.gettempdir())
        self._files = FileWork()
        self._is_swept = False

    @asynccontextmanager
    async def opened(self, request: RunRequest) -> AsyncGenerator[RunRequest]:
        """The request with the way to a server of its own; as it is if no socket can be had here."""
        if not self._is_swept:
            self._is_swept = True
            await self._files.begin(partial(_sweep, self._below))
        environment = request.environment
        conversations = _Conversations(
            self._agents, self._database, request.input.group_folder, run_id=environment.run_id
        )
        try:
            folder, line = await self._prepare(environment.uid)
        except OSError as error:
            # Its work does not depend on it, as far as anybody knows.
            _log.warning("a run has no MCP server", run=environment.run_id, error=str(error))
            yield request
            return
        try:
            server = await asyncio.start_unix_server(conversations.hold, sock=line, limit=LONGEST_LINE)
            named = {MCP_SOCKET: str(folder / _SOCKET), MCP_CONFIG: str(folder / _CONFIG)}
            shown = replace(
                environment,
                variables={**environment.variables, **named},
                read_only=(*environment.read_only, folder),
            )
            try:
                yield replace(request, environment=shown)
            finally:
                server.close()
                await conversations.end()
        finally:
            line.close()
            await self._files.begin(partial(_remove, folder))

    async def _prepare(self, uid: int | None) -> tuple[Path, socket.socket]:
        preparing = self._files.begin(partial(_prepared, self._below, uid))
        try:
            return await asyncio.shield(preparing)
        except asyncio.CancelledError:
            preparing.add_done_callback(self._take_back)
            raise

    def _take_back(self, prepared: asyncio.Future[tuple[Path, socket.socket]]) -> None:
        """What was made for a run that was cancelled meanwhile is nobody's."""
        if not prepared.cancelled() and prepared.exception() is None:
            folder, line = prepared.result()
            line.close()
            self._files.begin(partial(_remove, folder))


@dataclass(eq=False)
class _Conversations:
    """What goes on over one run's socket."""

    agents: Agents
    database: Callable[[], Awaitable[Database]]
    group: str
    run_id: str
    _held: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]], init=False)
    _is_over: bool = field(default=False, init=False)

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One conversation, from a connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        try:
            if self._is_over or len(self._held) >= MOST_CONVERSATIONS:
                return
            self._held.add(task)
            # The SDK takes half a second to import: on a thread, and when the first agent has something to say.
            await asyncio.to_thread(importlib.import_module, "rota.agents.faces.mcp.server")
            from rota.agents.faces.mcp.server import AgentServer

            operator = AgentOperator(self.agents, agent_principal(self.group, self.run_id), self.database)
            await AgentServer(operator).converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the agent has gone, or its run is over; both are ways to end
        except Exception:
            # The SDK, cancelled in the middle of handing a message on, may end by an error of its own streams.
            if not self._is_over:
                _log.exception("conversation with a run failed", run=self.run_id)
        finally:
            await self._hang_up(writer)
            self._held.discard(task)

    async def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        """The last answers still go out, unless the run is over: nobody waits for an agent that does not read them."""
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            if not self._is_over:
                await writer.wait_closed()
        writer.transport.abort()

    async def end(self) -> None:
        """No more words: the run is over."""
        self._is_over = True
        held = list(self._held)
        for task in held:
            task.cancel()
        if held:
            await asyncio.wait(held)


# --- what lies where ---


def _prepared(below: Path, uid: int | None) -> tuple[Path, socket.socket]:
    """A folder that the run's own user can look into and only we can write to, with the socket in it."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=below))
    line = socket.socket(socket.AF_UNIX)
    try:
        config, place = folder / _CONFIG, folder / _SOCKET
        server = {"command": "python3", "args": ["-I", "-S", "-c", _STDIO_TO_SOCKET, str(place)]}
        config.write_bytes(msgspec.json.encode({"mcpServers": {"rota": server}}))
        line.bind(str(place))
        for path, mode in ((config, 0o640), (place, 0o660), (folder, 0o750)):
            # What stays ours the run's user, who is alone in a group of the same number, may use.
            if uid is not None:
                os.chown(path, -1, uid)
            path.chmod(mode if uid is not None else mode & 0o700)
    except BaseException:
        line.close()
        _remove(folder)
        raise
    return folder, line


def _remove(folder: Path) -> None:
    """Take the folder away. Only we can write to it: what lies in it is known."""
    for name in (_CONFIG, _SOCKET):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # whatever else is in it goes with the next start's sweep
        folder.rmdir()


def _sweep(below: Path) -> None:
    """Take away what an instance that was killed has left: folders of ours whose socket nobody answers."""
    for folder in below.glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _SURELY_OPEN:
                continue
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(folder / _SOCKET))
        except ConnectionRefusedError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # it has no socket, or is being taken away at this moment
