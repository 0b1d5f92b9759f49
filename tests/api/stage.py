"""A service over a real store, with a token of every role and one task in every state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from rota import Rota
from rota.access import Role
from rota.api import Service, create_api
from rota.api.auth import make_session
from rota.api.live import Feed, FeedSettings
from rota.stores.base import Store
from rota.testing.waiting import until

__all__ = ["Stage", "a_client", "an_app", "serving", "session_of", "staged"]

FAST = FeedSettings(look_every=0.01, heartbeat=0.2, linger=0.1)


class Figures:
    """Metrics that are always the same."""

    async def render(self) -> tuple[str, bytes]:
        return "text/plain; version=0.0.4; charset=utf-8", b"rota_up 1\n"


@dataclass
class Stage:
    """What a test acts on."""

    service: Service
    api: FastAPI
    secrets: Mapping[Role, str]
    clients: dict[Role | None, httpx.AsyncClient] = field(default_factory=dict[Role | None, httpx.AsyncClient])

    @property
    def app(self) -> Rota:
        return self.service.app

    @property
    def admin(self) -> httpx.AsyncClient:
        return self.clients[Role.ADMIN]

    @property
    def operator(self) -> httpx.AsyncClient:
        return self.clients[Role.OPERATOR]

    @property
    def viewer(self) -> httpx.AsyncClient:
        return self.clients[Role.VIEWER]

    @property
    def anonymous(self) -> httpx.AsyncClient:
        return self.clients[None]


def a_client(api: ASGIApp, secret: str | None = None, *, host: str = "localhost:8787") -> httpx.AsyncClient:
    """A client that talks to the application without a socket."""
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    transport = httpx.ASGITransport(api)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


def an_app(url: str, store: Store | None = None, spool: str | None = None) -> Rota:
    """An app with a type of each kind."""
    flags: dict[str, Any] = {} if spool is None else {"spool": spool}
    app = Rota(url, **flags) if store is None else Rota(store=store, **flags)

    async def upkeep(user_id: str) -> str:
        return f"did {user_id}"

    async def broken() -> None:
        raise ValueError("it broke <script>")

    async def job(payload: object) -> str:
        return str(payload)

    app.on_activity(after="30m", name="upkeep")(upkeep)
    app.task(name="broken", max_retries=0)(broken)
    app.task(name="job")(job)
    app.every("24h", name="nightly", run_on_start=False)(job)
    return app


@asynccontextmanager
async def staged(
    url: str, *, store: Store | None = None, spool: str | None = None, dashboard: bool = False, **settings: Any
) -> AsyncGenerator[Stage]:
    """A service with a client for every role."""
    app = an_app(url, store, spool)
    service = Service(app, metrics=Figures(), **settings)
    service.feed = Feed(service.look, settings=FAST)
    async with service:
        tokens = await service.tokens()
        made = {role: await tokens.add(role.value, role, created_by="test") for role in Role}
        stage = Stage(
            service, create_api(service, dashboard=dashboard), {role: new.secret for role, new in made.items()}
        )
        stage.clients = {role: a_client(stage.api, stage.secrets[role]) for role in Role}
        stage.clients[None] = a_client(stage.api)
        try:
            yield stage
        finally:
            for client in stage.clients.values():
                await client.aclose()


async def session_of(stage: Stage, role: Role = Role.OPERATOR) -> str:
    """The cookie of somebody who has signed in."""
    token = await (await stage.service.tokens()).find(stage.secrets[role])
    assert token is not None
    return make_session(token, stage.secrets[role], stage.service.clock.now())


@asynccontextmanager
async def serving(stage: Stage) -> AsyncGenerator[int]:
    """The stage behind a real socket; gives its port."""
    config = uvicorn.Config(stage.api, port=0, log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve())  # pyright: ignore[reportPrivateUsage] -- serve() takes the signals
    await until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await stage.service.feed.close()
        await running
