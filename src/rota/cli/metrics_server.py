"""The small server beside a worker: metrics and health, on a port of its own, for as long as the worker works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from rota.access.first_token import check_bind, has_tokens, is_loopback
from rota.api.probes import create_probes
from rota.api.service import Service
from rota.app.rota import Rota
from rota.cli.bound_socket import BoundSocket, Options
from rota.cli.quiet_server import QuietServer
from rota.telemetry.metrics import Metrics

__all__ = ["bound_for_metrics", "metrics_shown"]

_OPTIONS: Final = Options("rota worker", "--metrics-host", "--metrics-port", 9187)


def bound_for_metrics(host: str, port: int) -> BoundSocket:
    """The port, before any work begins."""
    return BoundSocket(host, port, options=_OPTIONS)


@asynccontextmanager
async def metrics_shown(app: Rota, bound: BoundSocket) -> AsyncGenerator[None]:
    """Answer during the block, also while what runs is still ending. `app` is connected."""
    is_public = not is_loopback(bound.host)
    if is_public:
        check_bind(bound.host, await has_tokens(app))
    service = Service(
        app,
        metrics=Metrics(app),
        is_public=is_public,
        allowed_hosts=(*app.config.server.allowed_hosts, bound.host),
    )
    server = QuietServer(create_probes(service))
    answering = asyncio.create_task(server.serve(sockets=[bound.socket]), name="rota-metrics")
    try:
        await server.up(answering)
        yield
    finally:
        # Whoever still waits for an answer is not worth waiting for: the next scrape asks somebody else.
        server.should_exit = server.force_exit = True
        await answering
