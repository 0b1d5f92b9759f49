"""A TCP proxy that misbehaves on request, to put between a client and a real server.

It runs on an event loop and a thread of its own, so that blocking and asynchronous clients can be tried alike, and is
told from the test what the network is like now:

    with Proxy("127.0.0.1", server.port) as proxy:
        store = open_store(f"redis://127.0.0.1:{proxy.port}")
        proxy.half_open()      # from here on nobody answers, and nobody says so
        ...
        proxy.normal()
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from types import TracebackType
from typing import Self, cast

__all__ = ["Proxy"]

HOST = "127.0.0.1"
CHUNK = 65_536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: closing sends RST instead of FIN."""


class _Mode:
    """What happens to a reply on its way to the client."""

    async def reply(self, connection: _Connection, chunk: bytes) -> None:
        await connection.to_client(chunk)


class _Latency(_Mode):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def reply(self, connection: _Connection, chunk: bytes) -> None:
        await asyncio.sleep(self.seconds)
        await connection.to_client(chunk)


class _Trickle(_Mode):
    def __init__(self, pause: float) -> None:
        self.pause = pause

    async def reply(self, connection: _Connection, chunk: bytes) -> None:
        for number, byte in enumerate(chunk):
            if connection.proxy.mode is not self:  # told otherwise meanwhile: the rest goes as it does now
                await connection.proxy.mode.reply(connection, chunk[number:])
                return
            await connection.to_client(bytes([byte]))
            await asyncio.sleep(self.pause)


class _Reset(_Mode):
    async def reply(self, connection: _Connection, chunk: bytes) -> None:
        await connection.to_client(chunk[: len(chunk) // 2])
        connection.abort()


class _Cut(_Mode):
    async def reply(self, connection: _Connection, chunk: bytes) -> None:
        connection.abort()


class _HalfOpen(_Mode):
    async def reply(self, connection: _Connection, chunk: bytes) -> None:
        connection.is_dead = True


class _Connection:
    """One client's connection and the one behind it to the server."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.is_dead = False
        """Half-open: it stays so for ever, whatever the network is like later."""
        self._client = (reader, writer)
        self._server: asyncio.StreamWriter | None = None

    async def serve(self) -> None:
        try:
            reader, self._server = await asyncio.open_connection(self.proxy.target_host, self.proxy.target_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(self._client[0]))
                group.create_task(self._replies(reader))
        except (OSError, ExceptionGroup):
            pass  # whichever side went away, the other one is told below
        finally:
            self.abort()

    async def _requests(self, reader: asyncio.StreamReader) -> None:
        assert self._server is not None
        while chunk := await reader.read(CHUNK):
            if not self.is_dead:
                self._server.write(chunk)
                await self._server.drain()
        raise ConnectionError("the client closed its connection")

    async def _replies(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(CHUNK):
            if not self.is_dead:
                await self.proxy.mode.reply(self, chunk)
        raise ConnectionError("the server closed its connection")

    async def to_client(self, chunk: bytes) -> None:
        self._client[1].write(chunk)
        await self._client[1].drain()

    def abort(self) -> None:
        """RST to the client, and the connection to the server closed."""
        plug = cast("socket.socket | None", self._client[1].get_extra_info("socket"))
        if plug is not None and plug.fileno() >= 0:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        for writer in (self._client[1], self._server):
            if writer is not None:
                writer.transport.abort()


class Proxy:
    """A way to a server that can be made bad and good again at any time, from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self.target_host = host
        self.target_port = port
        self.port = 0
        self.accepted = 0
        """How many connections were ever made."""
        self.mode = _Mode()
        self._open: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work, name="rota-proxy", daemon=True)

    @property
    def open_connections(self) -> int:
        """How many connections there are now."""
        return len(self._open)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    # --- what the network is like ---

    def normal(self) -> None:
        """Every byte at once. What was half-open stays so: nobody on either side knows of it."""
        self.mode = _Mode()

    def cut(self) -> None:
        """Every connection is reset, and so is every new one."""
        self.mode = _Cut()
        self._loop.call_soon_threadsafe(self._abort_all)

    def half_open(self) -> None:
        """Connections stay open and new ones are accepted, but nothing gets through any more."""
        self.mode = _HalfOpen()
        self._loop.call_soon_threadsafe(self._deaden_all)

    def reset_mid_reply(self) -> None:
        """The server does what it was asked; half of its reply arrives, then RST."""
        self.mode = _Reset()

    def trickle(self, bytes_per_second: float = 1.0) -> None:
        """Replies come in drops."""
        self.mode = _Trickle(1.0 / bytes_per_second)

    def latency(self, seconds: float) -> None:
        """Every reply comes later."""
        self.mode = _Latency(seconds)

    # --- on the proxy's own thread ---

    def _work(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = int(cast("tuple[str, int]", server.sockets[0].getsockname())[1])
        self._ready.set()
        async with server:
            await self._ended.wait()
            self.mode = _Cut()
            server.close()
            self._abort_all()
            # Each one ends as soon as the loop has told its readers; one that was accepted just now has yet to begin.
            while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110  # nobody signals it
                await asyncio.sleep(0.001)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        self.accepted += 1
        if isinstance(self.mode, _Cut):
            connection.abort()
            return
        connection.is_dead = isinstance(self.mode, _HalfOpen)
        self._open.add(connection)
        try:
            await connection.serve()
        finally:
            self._open.discard(connection)

    def _abort_all(self) -> None:
        for connection in self._open:
            connection.abort()

    def _deaden_all(self) -> None:
        for connection in self._open:
            connection.is_dead = True
