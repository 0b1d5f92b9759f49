"""Bringing scheduled agents into an app: an `Agents`, the task type `agent` and that of its notices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol
from weakref import WeakKeyDictionary, ref

from rota.agents.notices import NOTICE
from rota.agents.schedules.agent_task import AGENT
from rota.agents.service import Agents
from rota.agents.settings import AgentSettings
from rota.core.task_type import TriggerMode
from rota.part import PartHost
from rota.runtime.database_owner import AGENTS
from rota.webhooks import Webhooks

__all__ = ["App", "agents_of", "guard_schedules", "install_agents"]


class KeepsSchedules(Protocol):
    """Where schedules of any type are made and changed."""

    def check_first(self, task_type: str, check: Callable[[str], Awaitable[None]]) -> None: ...


class AgentsHost(PartHost, Protocol):
    """The host of an app; agents lie below it."""

    @property
    def schedules(self) -> KeepsSchedules: ...


class App(Protocol):
    """An app, whichever face it has."""

    @property
    def host(self) -> AgentsHost: ...


_INSTALLED: Final[WeakKeyDictionary[AgentsHost, Agents]] = WeakKeyDictionary()
"""The agents of each app: whoever serves an app finds those that it was given in code."""


def install_agents(app: App, settings: AgentSettings | None = None, *, webhooks: Webhooks | None = None) -> Agents:
    """Declare the task type `agent` with an app, and give what makes, lists and stops scheduled agents.

    Without settings those of the app's configuration count.
    """
    host = app.host
    agents = _made(host, settings or AgentSettings.of(host.config), webhooks)
    host.database_owner.register(AGENTS, [AGENT, NOTICE])
    task = "@app.task"
    host.declare(AGENT, agents.handler.run_agent, TriggerMode.ONCE, agents.settings.type_settings(), decorator=task)
    host.declare(NOTICE, agents.courier.deliver, TriggerMode.ONCE, agents.settings.notice_settings(), decorator=task)
    guard_schedules(app)
    _INSTALLED[host] = agents
    return agents


def guard_schedules(app: App) -> None:
    """Ask what is kept about a scheduled agent before its schedule is changed as any other is. For every app that
    people change schedules through, also if it runs no agents: another process does."""
    app.host.schedules.check_first(AGENT, lambda schedule_id: agents_of(app).check_not_kept(schedule_id))


def agents_of(app: App) -> Agents:
    """The agents that were installed with an app; else those of its configuration, which another process runs."""
    host = app.host
    found = _INSTALLED.get(host)
    if found is None:
        found = _INSTALLED[host] = _made(host, AgentSettings.of(host.config), None)
    return found


def _made(host: AgentsHost, settings: AgentSettings, webhooks: Webhooks | None) -> Agents:
    config = host.config
    calls = webhooks or Webhooks(allow_private=config.webhooks_allow_private, allow_http=config.webhooks_allow_http)
    # Weakly, for the table above: what it holds must not hold the host.
    held = ref(host)

    def alive() -> AgentsHost:
        found = held()
        assert found is not None, "agents are used as long as their app is"
        return found

    return Agents(lambda: alive().ready(), lambda: alive().database_of(AGENTS), settings, webhooks=calls)
