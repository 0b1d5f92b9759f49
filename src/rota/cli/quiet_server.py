"""Uvicorn as the commands use it: our signals, our log, and a word when it is up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

__all__ = ["QuietServer"]

_HTTP_SECONDS: Final = 5
"""How long a request that is being answered may take to end."""


class QuietServer(uvicorn.Server):
    """Uvicorn that leaves the signals to us, and says when it is up."""

    def __init__(self, application: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                # A login link has its token in the query: no access log, and no server's name for whoever probes.
                access_log=False,
                log_config=None,
                server_header=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=_HTTP_SECONDS,
            )
        )
        self.is_up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    async def up(self, answering: asyncio.Task[None]) -> None:
        """Until the first request can be answered, or the task that serves has failed."""
        up = asyncio.create_task(self.is_up.wait(), name="rota-http-up")
        await asyncio.wait([up, answering], return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if answering.done():
            answering.result()
