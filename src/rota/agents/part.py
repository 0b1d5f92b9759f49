"""Scheduled agents as a part: the task type `agent` and that of its notices, and what the faces show of them."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from rota.agents.names import AGENT, AGENTS, NOTICE
from rota.agents.section import AGENTS_SECTION
from rota.config import Config
from rota.core.task_type import TriggerMode
from rota.errors import RotaError, RunnerUnavailable
from rota.part import CheckResult, HasHost, Part, PartHost, Related
from rota.runtime.duty import Duty, DutyContext

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.types import ASGIApp

    from rota.agents.service import Agents
    from rota.agents.settings import AgentSettings
    from rota.api.service import Service
    from rota.dashboard.part import Pages
    from rota.webhooks import Webhooks

__all__ = ["AgentsPart", "agents_of", "install_agents"]

_DECORATOR: Final = "install_agents"


class AgentsPart(Part):
    """Without settings those of the app's configuration count."""

    name = AGENTS
    section = AGENTS_SECTION
    keeps_data = True

    def __init__(self, settings: AgentSettings | None = None, *, webhooks: Webhooks | None = None) -> None:
        self._settings = settings
        self._webhooks = webhooks

    @cached_property
    def agents(self) -> Agents:
        """What makes, lists and stops scheduled agents."""
        from rota.agents.service import Agents
        from rota.agents.settings import AgentSettings
        from rota.webhooks import Webhooks

        config = self.host.config
        calls = Webhooks(allow_private=config.webhooks.allow_private, allow_http=config.webhooks.allow_http)
        return Agents(
            self.host.ready,
            partial(self.host.database_of, AGENTS),
            self._settings or AgentSettings.of(config),
            webhooks=self._webhooks or calls,
            host=self.host,
        )

    def attach(self, host: PartHost) -> None:
        super().attach(host)
        # For every app that people change schedules through, also if it runs no agents: another process does.
        host.check_schedule_first(AGENT, lambda schedule_id: self.agents.check_not_kept(schedule_id))

    def install(self) -> None:
        agents, host = self.agents, self.host
        host.database_owner.register(AGENTS, [AGENT, NOTICE])
        once = TriggerMode.ONCE
        host.declare(AGENT, agents.handler.run_agent, once, agents.settings.type_settings(), decorator=_DECORATOR)
        host.declare(
            NOTICE, agents.notice_sender.deliver, once, agents.settings.notice_settings(), decorator=_DECORATOR
        )
        self._serve_runs()

    def _serve_runs(self) -> None:
        """Let runs reach the MCP server, unless that is switched off or not installed."""
        if AGENTS_SECTION.of(self.host.config).mcp_socket and importlib.util.find_spec("mcp") is not None:
            from rota.agents.faces.mcp.runs import RunSockets

            self.agents.give_mcp_access(RunSockets(self.agents, self.host.database).opened)

    def duties(self, context: DutyContext) -> Sequence[Duty[Any]]:
        from rota.agents.runs.janitor import Janitor

        self.agents.handler.forget_stores()
        return [Janitor(self.agents, context.pulse, context.chance)]

    def routes(self) -> Sequence[APIRouter]:
        from rota.agents.faces import routes

        return [routes.router, routes.acting, routes.deciding, routes.governing]

    def endpoints(self, service: Service) -> Sequence[tuple[str, ASGIApp, Sequence[str]]]:
        from rota.agents.faces.mcp.http import PATH, McpEndpoint, NotInstalled

        endpoint = NotInstalled() if importlib.util.find_spec("mcp") is None else McpEndpoint(service)
        return [(PATH, endpoint, ("GET", "POST", "DELETE"))]

    def pages(self) -> Pages:
        from rota.agents.faces.pages import PAGES

        return PAGES

    async def related(self, task_type: str, key: str) -> Sequence[Related]:
        if task_type != AGENT:
            return ()
        return (Related("run of the agent", key, f"/schedules/{AGENT}/{quote(key, safe='')}"),)

    async def badges(self) -> Mapping[str, int]:
        """What waits for a person to agree."""
        from rota.agents.schedules.origins import Origins

        return {"agents": await Origins(await self.host.database()).count_waiting()}

    async def diagnose(self, config: Config) -> Sequence[CheckResult]:
        """Where they would run. That they do not is no error: not everybody has any."""
        from rota.agents.settings import AgentSettings

        try:
            chosen = await asyncio.to_thread(lambda: AgentSettings.of(config).choose())
        except RunnerUnavailable as error:
            return [CheckResult("agents", "warning", "no agent runs on this host", str(error))]
        except RotaError as error:
            return [CheckResult("agents", "error", str(error), "Correct the configuration.")]
        return [CheckResult("agents", "ok", chosen.words)]


def install_agents(app: HasHost, settings: AgentSettings | None = None, *, webhooks: Webhooks | None = None) -> Agents:
    """Have agents at work in an app, and give what makes, lists and stops them."""
    return app.host.add(AgentsPart(settings, webhooks=webhooks)).agents


def agents_of(app: HasHost) -> Agents:
    """The agents that were installed with an app; else those of its configuration, which another process runs."""
    return app.host.part(AgentsPart).agents
