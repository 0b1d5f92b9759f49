"""Routes that check the role first: before the body is read, so that nobody learns anything from a parser."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from rota.access import Role
from rota.api.auth import Need
from rota.api.problems import Refused
from rota.core.task_type import did_you_mean

__all__ = ["ApiRoute", "GuardedRoute", "needing", "role_of", "routes_for"]


class GuardedRoute(APIRoute):
    """A route that lets nobody in who has not the role that it needs. `needing` makes one that does.

    The check is part of the route, and no dependency of it: those are asked when the body has been read, and what is
    refused here must not come to that. So it is made once, whatever the route depends on.
    """

    need: ClassVar[Need | None] = None
    """None: it is open to everybody, and the application refuses it unless it knows it to be."""
    takes_any_query: ClassVar[bool] = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        need, takes_any = self.need, self.takes_any_query
        known = {field.alias for field in self.dependant.query_params}

        async def handle(request: Request) -> Response:
            if need is not None:
                await need.check(request)
            if not takes_any and not known.issuperset(request.query_params):
                raise _unknown_parameter(request, known)
            return await handler(request)

        return handle


class ApiRoute(GuardedRoute):
    """A route of the API, which refuses what it does not know: a misspelt filter must not answer with everything."""

    takes_any_query = False


def _unknown_parameter(request: Request, known: set[str]) -> Refused:
    name = next(name for name in request.query_params if name not in known)
    offer = did_you_mean(name, sorted(known)) if known else "This address takes none."
    return Refused(422, "invalid_request", f"There is no parameter {name[:64]!r} here. {offer}")


def needing(need: Need, kind: type[GuardedRoute]) -> type[GuardedRoute]:
    """The class of those routes that need this."""
    return type(kind.__name__, (kind,), {"need": need})


def need_of(route: BaseRoute) -> Need | None:
    """What a route asks for; None if it asks for nothing, or cannot."""
    return route.need if isinstance(route, GuardedRoute) else None


def role_of(route: BaseRoute) -> Role | None:
    """The role that a route needs; None if it asks for none."""
    need = need_of(route)
    return None if need is None else need.role


def routes_for(
    role: Role | None,
    *,
    tag: str,
    prefix: str = "/api",
    for_agents: bool = False,
    through_outages: bool = False,
) -> APIRouter:
    """A family of routes that need one role; None: they are open. The rest is as with `Need`."""
    kind = ApiRoute
    if role is not None:
        kind = needing(Need(role, for_agents=for_agents, through_outages=through_outages), ApiRoute)
    return APIRouter(prefix=prefix, tags=[tag], route_class=kind)
