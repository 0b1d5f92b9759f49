"""A running service for the tests of the dashboard: a real SQLite file, a real worker, a real port on the loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from rota import Rota
from rota.access import Role, Tokens
from rota.api import Service, create_api
from rota.testing.waiting import PATIENCE, until


@dataclass(frozen=True)
class Stage:
    """What a test needs: where the service is, the app behind it, and a secret for each role."""

    url: str
    app: Rota
    service: Service
    secrets: dict[Role, str]

    def login(self, role: Role = Role.ADMIN) -> str:
        return f"{self.url}/login?token={self.secrets[role]}"

    def client(self, role: Role | None = None, **options: Any) -> httpx.AsyncClient:
        """A program that asks the service, as patient as a test is and through no proxy."""
        headers: dict[str, str] = options.pop("headers", {})
        if role is not None:
            headers = {"Authorization": f"Bearer {self.secrets[role]}", **headers}
        return httpx.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False, **options)


@asynccontextmanager
async def filled(app: Rota, fill: Callable[[Rota], Awaitable[object]]) -> AsyncGenerator[Stage]:
    """A service with a past. It has no worker, so that what is shown stays as it is."""
    async with staged(app, works=False) as stage:
        await fill(app)
        yield stage


@asynccontextmanager
async def staged(app: Rota, *, base_path: str = "", works: bool = True, port: int = 0) -> AsyncGenerator[Stage]:
    """The service of an app, with a worker beside it if it `works`; at any free port unless one is named."""
    service = Service(app, base_path=base_path)
    async with service:
        secrets = {role: await _secret(app, role) for role in Role}
        # The protocol is named so that asyncio turns Nagle's algorithm off: without it each small answer takes 40 ms.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            port = listening.getsockname()[1]
            config = uvicorn.Config(create_api(service), log_config=None, lifespan="off", ws="none", access_log=False)
            server = uvicorn.Server(config)
            # serve() takes the signals, which a service that outlives a test would keep from all the others.
            serving = asyncio.create_task(server._serve(sockets=[listening]))  # pyright: ignore[reportPrivateUsage] -- see above
            await until(lambda: server.started or serving.done())
            if works:
                await app.start()
            try:
                yield Stage(f"http://127.0.0.1:{port}{base_path}", app, service, secrets)
            finally:
                await service.feed.close()
                server.should_exit = True
                await serving
                if works:
                    await app.stop(timeout=1)


@contextmanager
def a_kept_port() -> Generator[int]:
    """A free port that is given to nobody else meanwhile: bound and not listened at, it is open to whoever names it."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


async def _secret(app: Rota, role: Role) -> str:
    made = await Tokens(await app.database()).add(f"{role} of the tests", role, created_by="tests")
    return made.secret
