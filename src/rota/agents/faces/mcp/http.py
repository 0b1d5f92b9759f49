"""MCP over HTTP: `/mcp` of the service, one self-contained exchange per request.

Who asks is looked up anew for every request, from its token alone: there is no session that could outlive it or be
taken over. Only a token that is narrowed to a group is taken. A person's own token would let a model, and through it
whatever text it has read, act as that person.

The SDK takes half a second to import: it is imported when the first agent comes, not when the service starts.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from rota.access import Principal
from rota.agents.operator import AgentOperator
from rota.agents.part import agents_of
from rota.api.auth import principal_of
from rota.api.guard import LOCAL_HOSTS, MAX_BODY
from rota.api.problems import Refused
from rota.api.service import Service
from rota.errors import NotAllowed

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings

__all__ = ["PATH", "McpEndpoint", "NotInstalled", "transport_security"]

PATH: Final = "/mcp"


class NotInstalled:
    """In its place where the SDK is missing: a plain 404 would send people looking for the right address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise Refused(
            HTTPStatus.NOT_IMPLEMENTED,
            "not_installed",
            "The MCP server needs the extra 'mcp'. Where this service runs: pip install 'rota[mcp]', then start it"
            " again.",
        )


class McpEndpoint:
    """An ASGI application for the one path."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = await _agent(Request(scope, receive))
        if scope["method"] != "POST":
            # There is nothing to listen to and no session to end: an answer comes with its request.
            raise Refused(405, "method_not_allowed", "Send a POST: this server keeps no stream open.")
        # On a thread, because the loop has work to do meanwhile.
        await asyncio.to_thread(importlib.import_module, "rota.agents.faces.mcp.server")
        from rota.agents.faces.mcp.server import AgentServer

        app = self._service.app
        operator = AgentOperator(agents_of(app), principal, app.database)
        server = AgentServer(operator)
        # The app around it is not needed: it only brings the manager, which serves this one exchange.
        server.streamable_http_app(
            json_response=True,
            stateless_http=True,
            transport_security=transport_security(self._service),
            max_request_body_size=MAX_BODY,
        )
        async with server.session_manager.run():
            await server.session_manager.handle_request(scope, receive, send)


async def _agent(request: Request) -> Principal:
    scheme = request.headers.get("authorization", "").partition(" ")[0]
    principal = await principal_of(request) if scheme.lower() == "bearer" else None
    if principal is None:
        raise Refused(
            401,
            "unauthenticated",
            "No valid token came with this request. `rota agent token GROUP` makes one; send it as a bearer token.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if "group" not in principal.scope:
        raise NotAllowed("This token is a person's. Agents need one of their own group: `rota agent token GROUP`.")
    run = principal.scope.get("run")
    # A run's token is gone with the run: the audit log keeps the run's name instead.
    actor = principal.id if run is None else f"run:{run}"
    return Principal(actor, principal.name, principal.role, "mcp", principal.scope)


def transport_security(service: Service) -> TransportSecuritySettings:
    """The names that this service goes by, and the origins of its own pages: nothing else is answered."""
    from mcp.server.transport_security import TransportSecuritySettings

    hosts = sorted({*LOCAL_HOSTS, *service.allowed_hosts})
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(_with_ports(hosts)),
        allowed_origins=list(_with_ports([f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")])),
    )


def _with_ports(names: list[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield f"{name}:*"
