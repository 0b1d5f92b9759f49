"""Rota inside a FastAPI application: connected while it runs, at hand in its routes, its dashboard under a path.

rota = Rota("sqlite:///rota.db")
api = FastAPI(lifespan=RotaLifespan(rota))       # connects, and works in the background
mount(api, rota, "/rota")                        # the dashboard and the HTTP API

@api.post("/messages")
async def message(user: str, rota: Annotated[Rota, Depends(get_rota)]) -> dict[str, str]: ...
"""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from fastapi import FastAPI, Request

from rota.access.first_token import ensure_first_token
from rota.api.application import create_api
from rota.api.live import Feed
from rota.api.service import Service
from rota.app.rota import Rota
from rota.errors import InvalidConfig, RotaError, StoreUnavailable
from rota.logs import get_logger
from rota.telemetry.metrics import Metrics

__all__ = ["RotaLifespan", "get_rota", "mount"]

State = Mapping[str, Any]
"""What a lifespan hands to its requests."""

log = get_logger("rota.fastapi")

_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+/?")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Lifespan(Protocol):
    """What FastAPI takes as a lifespan."""

    def __call__(self, app: Any, /) -> AbstractAsyncContextManager[Any]: ...


class RotaLifespan:
    """A lifespan that holds Rota's connection and, unless `worker` is False, works in the background.

    An application that has a lifespan already passes it as `around`: it begins after Rota and ends before it.
    """

    def __init__(
        self, rota: Rota, *, worker: bool = True, around: _Lifespan | None = None, stop_seconds: float = 30.0
    ) -> None:
        self._rota = rota
        self._worker = worker
        self._around = around
        self._stop_seconds = stop_seconds

    @asynccontextmanager
    async def __call__(self, app: FastAPI) -> AsyncGenerator[State]:
        app.state.rota = self._rota
        async with self._rota, _entered(self._around, app) as state:
            if self._worker:
                await self._rota.start()
            try:
                yield state
            finally:
                if self._worker:
                    await self._rota.stop(self._stop_seconds)


def get_rota(request: Request) -> Rota:
    """A dependency: the Rota of this application."""
    found: object = getattr(request.app.state, "rota", None)
    if not isinstance(found, Rota):
        raise RotaError(
            "This application has no Rota. Make it with FastAPI(lifespan=RotaLifespan(rota)), or mount one."
        )
    return found


def mount(
    app: FastAPI,
    rota: Rota,
    path: str = "/rota",
    *,
    allowed_hosts: Iterable[str] = (),
    is_public: bool = False,
    token_file: str | Path | None = None,
) -> Service:
    """Put the dashboard and the HTTP API under a path of an application. Call it before the application starts.

    People sign in with tokens, as everywhere: `rota token add NAME` makes one, and `token_file` has a first one made
    and written there. `allowed_hosts` are the names that people reach the application by; an address is enough with
    `is_public`. The connection is held while the application runs.
    """
    if not _PATH.fullmatch(path):
        raise InvalidConfig(f"Rota cannot be mounted at {path!r}: it needs a path of its own. Use e.g. '/rota'.")
    service = Service(
        rota, metrics=Metrics(rota), base_path=path.rstrip("/"), is_public=is_public, allowed_hosts=allowed_hosts
    )
    app.mount(service.base_path, create_api(service), name="rota")
    app.state.rota = rota
    app.router.lifespan_context = _serving(service, app.router.lifespan_context, token_file)
    return service


def _serving(service: Service, around: _Lifespan, token_file: str | Path | None) -> _Lifespan:
    """The application's lifespan within the service's."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[State]:
        async with service, _entered(around, app) as state:
            if token_file is not None:
                await _first_token(service, Path(token_file))
            async with _signals_end(service.feed):
                yield state

    return lifespan


async def _first_token(service: Service, file: Path) -> None:
    """A database that is away is no reason not to start: nobody could sign in anyhow, and the next start makes it."""
    try:
        if await ensure_first_token(service.app, file) is not None:
            log.info("first token", file=str(file))
    except StoreUnavailable as error:
        log.warning("no first token", file=str(file), error=str(error))


@asynccontextmanager
async def _entered(lifespan: _Lifespan | None, app: FastAPI) -> AsyncGenerator[State]:
    if lifespan is None:
        yield {}
        return
    async with lifespan(app) as state:
        yield state or {}


@asynccontextmanager
async def _signals_end(feed: Feed) -> AsyncGenerator[None]:
    """End the streams with the signal, which is handed on to whoever was there before.

    A server that is told to stop waits for its streams before it tells the application: an open page would keep it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    closing: list[asyncio.Task[None]] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def on_signal(number: int, at: FrameType | None) -> None:
        loop.call_soon_threadsafe(lambda: closing.append(loop.create_task(feed.close(), name="rota-feed-end")))
        _hand_on(before[signal.Signals(number)], number, at)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        await asyncio.gather(*closing)


def _hand_on(handler: Callable[[int, FrameType | None], Any] | int | None, number: int, at: FrameType | None) -> None:
    if callable(handler):
        handler(number, at)
    elif handler == signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
