"""Routes that check the role first: before the body is read, so that nobody learns anything from a parser."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from rota.access import Role
from rota.api.auth import Need
from rota.api.problems import Refused
from rota.core.task_type import did_you_mean

__all__ = ["ApiRoute", "GuardedRoute", "role_of", "routes_for"]


class GuardedRoute(APIRoute):
    """A route that declares the role that it needs by depending on `Need`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        need = need_of(self)

        async def handle(request: Request) -> Response:
            if need is not None:
                await need(request)
            return await handler(request)

        return handle


class ApiRoute(GuardedRoute):
    """A route of the API, which refuses what it does not know: a misspelt filter must not answer with everything."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        need = need_of(self)
        known = {field.alias for field in self.dependant.query_params}

        async def handle(request: Request) -> Response:
            if need is not None:
                await need(request)
            for name in request.query_params:
                if name not in known:
                    raise Refused(
                        422, "invalid_request", f"There is no parameter {name[:64]!r} here. {_offer(name, known)}"
                    )
            return await handler(request)

        return handle


def _offer(name: str, known: set[str]) -> str:
    return did_you_mean(name, sorted(known)) if known else "This address takes none."


def need_of(route: APIRoute) -> Need | None:
    """The strictest need that a route declares."""
    needs = [each.dependency for each in route.dependencies if isinstance(each.dependency, Need)]
    return max(needs, key=lambda need: need.role.rank, default=None)


def role_of(route: APIRoute) -> Role | None:
    """The role that a route needs; None if it declares none."""
    need = need_of(route)
    return None if need is None else need.role


def routes_for(role: Role | None, *, tag: str, prefix: str = "/api", through_outages: bool = False) -> APIRouter:
    """A family of routes that need one role; None: they are open."""
    dependencies = [] if role is None else [Depends(Need(role, through_outages=through_outages))]
    return APIRouter(prefix=prefix, tags=[tag], dependencies=dependencies, route_class=ApiRoute)
