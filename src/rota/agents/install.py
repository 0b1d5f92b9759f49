"""Bringing scheduled agents into an app: an `Agents`, and the task type `agent` with its handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from rota.agents.record import AGENT
from rota.agents.service import Agents
from rota.agents.settings import AgentSettings
from rota.config import Config
from rota.database import Database
from rota.stores.base import Store
from rota.webhooks import Webhooks

__all__ = ["App", "install_agents"]


class App(Protocol):
    """What of `Rota` is needed here; agents lie below it."""

    @property
    def config(self) -> Config: ...

    async def store(self) -> Store: ...

    async def database(self) -> Database: ...

    @property
    def task(self) -> Callable[..., Any]: ...


def install_agents(app: App, settings: AgentSettings | None = None, *, webhooks: Webhooks | None = None) -> Agents:
    """Declare the task type `agent` with an app, and give what makes, lists and stops scheduled agents.

    Without settings the defaults count, with the app's own zone.
    """
    chosen = settings or replace(AgentSettings(), timezone=app.config.timezone)
    agents = Agents(app.store, app.database, chosen, webhooks=webhooks)
    app.task(name=AGENT, **chosen.type_settings())(agents.handler.run_agent)
    return agents
