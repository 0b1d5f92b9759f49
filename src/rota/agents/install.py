"""Bringing scheduled agents into an app: an `Agents`, the task type `agent` and that of its notices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary, ref

from rota.agents.channels import NOTICE
from rota.agents.record import AGENT
from rota.agents.service import Agents
from rota.agents.settings import AgentSettings
from rota.config import Config
from rota.database import Database
from rota.runtime.belonging import AGENTS, Belonging
from rota.stores.base import Store
from rota.webhooks import Webhooks

__all__ = ["App", "agents_of", "install_agents"]


class KeepsSchedules(Protocol):
    """Where schedules of any type are made and changed."""

    def check_first(self, task_type: str, check: Callable[[str], Awaitable[None]]) -> None: ...


class App(Protocol):
    """What of `Rota` is needed here; agents lie below it."""

    @property
    def config(self) -> Config: ...

    async def store(self) -> Store: ...

    async def database(self) -> Database: ...

    async def database_of(self, part: str, *, settle: bool = False) -> Database: ...

    @property
    def belonging(self) -> Belonging: ...

    @property
    def task(self) -> Callable[..., Any]: ...

    @property
    def schedules(self) -> KeepsSchedules: ...


_INSTALLED: Final[WeakKeyDictionary[App, Agents]] = WeakKeyDictionary()
"""The agents of each app: whoever serves an app finds those that it was given in code."""


def install_agents(app: App, settings: AgentSettings | None = None, *, webhooks: Webhooks | None = None) -> Agents:
    """Declare the task type `agent` with an app, and give what makes, lists and stops scheduled agents.

    Without settings those of the app's configuration count.
    """
    agents = _made(app, settings or AgentSettings.of(app.config), webhooks)
    app.belonging.need(AGENTS, [AGENT, NOTICE])
    app.task(name=AGENT, **agents.settings.type_settings())(agents.handler.run_agent)
    app.task(name=NOTICE, **agents.settings.notice_settings())(agents.courier.deliver)
    app.schedules.check_first(AGENT, agents.check_not_kept)
    _INSTALLED[app] = agents
    return agents


def agents_of(app: App) -> Agents:
    """The agents that were installed with an app; else those of its configuration, which another process runs."""
    found = _INSTALLED.get(app)
    if found is None:
        found = _INSTALLED[app] = _made(app, AgentSettings.of(app.config), None)
    return found


def _made(app: App, settings: AgentSettings, webhooks: Webhooks | None) -> Agents:
    config = app.config
    calls = webhooks or Webhooks(allow_private=config.webhooks.allow_private, allow_http=config.webhooks.allow_http)
    # Weakly, for the table above: what it holds must not hold the app.
    held = ref(app)

    def alive() -> App:
        found = held()
        assert found is not None, "agents are used as long as their app is"
        return found

    return Agents(lambda: alive().store(), lambda: alive().database_of(AGENTS), settings, webhooks=calls)
