"""The HTTP server and the worker of one process, on one event loop: started together, stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from rota.api.application import create_api
from rota.api.service import Service
from rota.app.duties import duties_alone
from rota.app.signals import signals_go_to
from rota.cli.bound_socket import BoundSocket
from rota.cli.quiet_server import QuietServer

__all__ = ["STOP_SECONDS", "serve"]

STOP_SECONDS: Final = 30.0
"""How long running work may finish after the first signal."""


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
    server = QuietServer(create_api(service))
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
                await server.up(answering)
                on_up()
                await asyncio.wait([answering])
                answering.result()
        finally:
            if not stopping:
                stopping.append(asyncio.create_task(_stop(service, server, 0.0), name="rota-stop"))
            await asyncio.gather(answering, *stopping)


async def _stop(service: Service, server: QuietServer, patience: float) -> None:
    server.should_exit = True
    # Whoever listens to the feed would keep the server waiting.
    await service.feed.close()
    await service.app.stop(patience)
