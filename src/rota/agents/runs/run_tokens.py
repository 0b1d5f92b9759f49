"""The token of one run: the one by which an agent reaches the MCP server as this run, and as nothing else.

It is made when the agent starts, handed over in its environment, and gone when the run ends. So what comes through it
is known to come from a scheduled run, and from which one. What a dead instance leaves behind ends by itself, when the
run's longest time is up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Final

from rota.access import Role, Tokens
from rota.agents.isolation.base import RunRequest
from rota.clock import MINUTE, Instant
from rota.database import Database
from rota.errors import StoreUnavailable
from rota.logs import get_logger

__all__ = ["MAKER", "TOKEN_VARIABLE", "URL_VARIABLE", "McpAccess", "with_run_token"]

URL_VARIABLE: Final = "ROTA_MCP_URL"
TOKEN_VARIABLE: Final = "ROTA_MCP_TOKEN"  # noqa: S105  # a name
MAKER: Final = "agents"
"""Who has made such a token, in the list of them."""

McpAccess = Callable[[RunRequest], AbstractAsyncContextManager[RunRequest]]
"""Gives a run a way to the MCP server for as long as it lasts, and says so in its request."""

_log = get_logger("rota.agents")


@asynccontextmanager
async def with_run_token(
    request: RunRequest, url: str, database: Database, now: Callable[[], Awaitable[Instant]]
) -> AsyncGenerator[RunRequest]:
    """The request with the server's address and a token for it in the agent's environment."""
    tokens, environment, limits = Tokens(database), request.environment, request.limits
    made = await tokens.add(
        f"run {environment.run_id}"[:100],
        Role.OPERATOR,
        created_by=MAKER,
        expires_at=await now() + limits.wall_ms + limits.grace_ms + MINUTE,
        scope={"group": request.input.group_folder, "run": environment.run_id},
    )
    try:
        variables = {**environment.variables, URL_VARIABLE: url, TOKEN_VARIABLE: made.secret}
        yield replace(request, environment=replace(environment, variables=variables))
    finally:
        try:
            await tokens.remove(made.token.id)
        except StoreUnavailable as error:
            _log.warning("token of a run not taken back, it ends by itself", run=environment.run_id, error=str(error))
