"""MCP over standard input and output: the agent is the one that this program was started for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rota.access import Principal
from rota.agents import Agents
from rota.agents.faces.mcp.server import AgentServer
from rota.agents.operator import AgentOperator
from rota.database import Database

__all__ = ["serve_stdio"]


async def serve_stdio(agents: Agents, principal: Principal, database: Callable[[], Awaitable[Database]]) -> None:
    """Serve one client until it closes our input. What the agents stand on is connected."""
    operator = AgentOperator(agents, principal, database)
    await operator.caller()  # a group that does not exist is said now, not at the first call
    await AgentServer(operator).run_stdio_async()
