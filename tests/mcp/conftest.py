"""A service with two groups of agents, reached the way that agents reach it: by the official client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.api.stage import Stage, serving

from rota import Rota
from rota.access import Principal, Role
from rota.agents import Agents, AgentSettings, Rules, install_agents
from rota.agents.operator import AgentOperator
from rota.api import Service, create_api
from rota.clock import Clock
from rota.testing import FakeClock
from rota.testing.waiting import PATIENCE

ADMIN = Principal("test", "ann", Role.ADMIN, "code")


@dataclass
class Scene:
    """What a test acts on. `connect` is an agent's way in; `operator` is the owner's."""

    app: Rota
    agents: Agents
    operator: AgentOperator
    port: int
    service: Service
    clock: Clock

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def secret(self, group: str, **settings: Any) -> str:
        return (await self.operator.add_token(group, f"agents of {group}", **settings)).secret

    @asynccontextmanager
    async def connect(self, group: str, **settings: Any) -> AsyncGenerator[Client]:
        """The official client with a token of this group."""
        async with self.connect_with(await self.secret(group, **settings)) as client:
            yield client

    @asynccontextmanager
    async def connect_with(self, secret: str) -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {secret}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            yield client


Staging = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    monkeypatch.chdir(tmp_path)
    for name in ("ROTA_CONFIG", "ROTA_STORE", "ROTA_TIMEZONE", "ROTA_RUN", "TIMEZONE", "TZ"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def staging(sqlite_url: str, tmp_path: Path) -> Staging:
    """Makes a scene: with `rules`, and how the service is known. Time stands still, so that nothing becomes due by
    itself; whoever has another process take part gives the clock that both have."""

    @asynccontextmanager
    async def stage(
        rules: Rules | None = None, *, clock: Clock | None = None, **settings: Any
    ) -> AsyncGenerator[Scene]:
        clock = clock or FakeClock()
        app = Rota(sqlite_url, clock=clock, lease="5m")
        own = AgentSettings(
            groups_dir=tmp_path / "groups",
            isolation="process",
            timezone="Europe/Berlin",
            uid_base=None,
            rules=rules or Rules(),
        )
        agents = install_agents(app, own)
        service = Service(app, **settings)
        async with service:
            operator = AgentOperator(agents, ADMIN, app.database)
            await operator.add_group("main", is_main=True)
            await operator.add_group("family", timezone="Asia/Tokyo")
            await operator.add_group("work")
            async with serving(Stage(service, create_api(service, dashboard=False), {})) as port:
                yield Scene(app, agents, operator, port, service, clock)

    return stage
