"""The HTTP server and the worker of one process, on one event loop: started together, stopped together."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Final

import uvicorn

from rota.api.application import create_api
from rota.api.service import Service
from rota.app.duties import duties_alone
from rota.app.signals import signals_go_to
from rota.errors import InvalidConfig

__all__ = ["STOP_SECONDS", "BoundSocket", "serve"]

STOP_SECONDS: Final = 30.0
"""How long running work may finish after the first signal."""
_HTTP_SECONDS: Final = 5
"""How long a request that is being answered may take to end."""


_EVERYWHERE: Final[Mapping[str, str]] = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked up
"""Where to find on this host what is bound to all of its addresses."""


class BoundSocket:
    """A bound socket: the port is ours, and nobody is answered yet."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.socket = _bound(host, port)
        self.port: int = self.socket.getsockname()[1]

    def url(self, path: str) -> str:
        """Where a person on this host finds it."""
        named = _EVERYWHERE.get(self.host, self.host)
        return f"http://{f'[{named}]' if ':' in named else named}:{self.port}{path}"

    def close(self) -> None:
        self.socket.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no name"
        raise InvalidConfig(
            f"The host {host!r} cannot be served: {reason}. Use 127.0.0.1, or --host ADDRESS."
        ) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        # Two servers can be bound to a port; only one of them can listen.
        made.listen(socket.SOMAXCONN)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise InvalidConfig(_refusal(host, port, error)) from None
    return made


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"The port {port} of {host} is taken, perhaps by another `rota up`. Use another one: --port {port + 1}."
    if error.errno == errno.EACCES:
        return f"The port {port} of {host} may not be used: {error.strerror}. Use one from 1024 on: --port 8787."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine. Use 127.0.0.1, or --host with one that it has."
    return f"{host}:{port} cannot be served: {error.strerror or error}. Use another --host or --port."


class _QuietUvicorn(uvicorn.Server):
    """Uvicorn that leaves the signals to us, and says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


async def serve(
    service: Service,
    bound: BoundSocket,
    *,
    with_worker: bool = True,
    on_up: Callable[[], None],
    on_stop: Callable[[], None],
) -> None:
    """Answer requests and work until a signal comes. The first one lets what runs end, the second one ends it.

    `service` is entered. Without a worker the duties of the parts run by themselves. What is not finished at the end
    is released, and runs elsewhere.
    """
    server = _server(service)
    answering = asyncio.create_task(server.serve(sockets=[bound.socket]), name="rota-http")
    stopping: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        if stopping:
            server.force_exit = True
        else:
            on_stop()
        patience = 0.0 if stopping else STOP_SECONDS
        stopping.append(asyncio.create_task(_stop(service, server, patience), name="rota-stop"))

    with signals_go_to(on_signal):
        try:
            if with_worker:
                await service.app.start()
            async with nullcontext() if with_worker else duties_alone(service.app.host):
                await _up(server, answering)
                on_up()
                await asyncio.wait([answering])
                answering.result()
        finally:
            if not stopping:
                stopping.append(asyncio.create_task(_stop(service, server, 0.0), name="rota-stop"))
            await asyncio.gather(answering, *stopping)


def _server(service: Service) -> _QuietUvicorn:
    return _QuietUvicorn(
        uvicorn.Config(
            create_api(service),
            # A login link has its token in the query: no access log, and no server's name for whoever probes.
            access_log=False,
            log_config=None,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_HTTP_SECONDS,
        )
    )


async def _up(server: _QuietUvicorn, answering: asyncio.Task[None]) -> None:
    """Until the first request can be answered, or the server has failed."""
    up = asyncio.create_task(server.is_up.wait(), name="rota-http-up")
    await asyncio.wait([up, answering], return_when=asyncio.FIRST_COMPLETED)
    up.cancel()
    if answering.done():
        answering.result()


async def _stop(service: Service, server: _QuietUvicorn, patience: float) -> None:
    server.should_exit = True
    # Whoever listens to the feed would keep the server waiting.
    await service.feed.close()
    await service.app.stop(patience)
