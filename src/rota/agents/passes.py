"""A pass for one run: the token by which an agent reaches the MCP server as this run, and as nothing else.

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
from rota.agents.runners.base import RunRequest
from rota.clock import MINUTE, Instant
from rota.database import Database
from rota.errors import StoreUnavailable
from rota.logs import get_logger

__all__ = ["MAKER", "TOKEN_VARIABLE", "URL_VARIABLE", "WayIn", "with_pass"]

URL_VARIABLE: Final = "ROTA_MCP_URL"
TOKEN_VARIABLE: Final = "ROTA_MCP_TOKEN"  # noqa: S105  # a name
MAKER: Final = "agents"
"""Who has made such a token, in the list of them."""

WayIn = Callable[[RunRequest], AbstractAsyncContextManager[RunRequest]]
"""Gives a run a way to the MCP server for as long as it lasts, and says so in its request."""

_log = get_logger("rota.agents")


@asynccontextmanager
async def with_pass(
    request: RunRequest, url: str | None, database: Database, now: Callable[[], Awaitable[Instant]]
) -> AsyncGenerator[RunRequest]:
    """The request with a pass in the agent's environment; as it is if runs are not told where the server is."""
    if url is None:
        yield request
        return
    tokens, seat, limits = Tokens(database), request.seat, request.limits
    made = await tokens.add(
        f"run {seat.run_id}"[:100],
        Role.OPERATOR,
        created_by=MAKER,
        expires_at=await now() + limits.wall_ms + limits.grace_ms + MINUTE,
        scope={"group": request.input.group_folder, "run": seat.run_id},
    )
    try:
        environment = {**seat.environment, URL_VARIABLE: url, TOKEN_VARIABLE: made.secret}
        yield replace(request, seat=replace(seat, environment=environment))
    finally:
        try:
            await tokens.remove(made.token.id)
        except StoreUnavailable as error:
            _log.warning("pass of a run not taken back, it ends by itself", run=seat.run_id, error=str(error))
