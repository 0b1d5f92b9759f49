"""Puts the HTTP face together: routes, roles, errors, the dashboard if it is there."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route

from rota.api.auth import Gate
from rota.api.guard import Guard, local_path, shown_path
from rota.api.invalid_request import invalid_request
from rota.api.late_routes import LateRoutes
from rota.api.openapi import describe
from rota.api.problems import Problem, Refused, problem_of, problem_of_status, respond
from rota.api.routing import role_of
from rota.api.service import Service
from rota.errors import RotaError
from rota.part import Part

__all__ = ["OPEN", "create_api"]

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""What anybody may see: whether the process lives and works, and nothing else."""
OPEN_PAGES: Final = ("/login", "/logout", "/static/")
"""How the paths begin that somebody needs before they have signed in."""


def create_api(service: Service, *, dashboard: bool = True) -> FastAPI:
    """The application of one service, with the pages for people unless they are not wanted.

    Its lifespan is the caller's: enter the service around it.
    """
    api = FastAPI(
        title="Rota",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api.state.service = service
    api.state.gate = Gate(service)
    api.add_middleware(Guard, service=service)
    if (tracer := service.app.host.tracer) is not None:
        from rota.telemetry.request_spans import RequestSpans

        api.add_middleware(RequestSpans, tracer=tracer)
    _answer_errors(api)
    parts = list(service.app.host.parts.values())
    # Routes as they are: including a router makes each of its routes once more.
    routes = api.router.routes
    for part in parts:
        for path, endpoint, methods in part.endpoints(service):
            routes.append(Route(path, endpoint, methods=list(methods)))
    site = _site(service) if dashboard else None
    at_once = [] if site is None else _checked([site.first])
    routes.extend(route for router in at_once for route in router.routes)
    late = [] if site is None else [LateRoutes(routes, lambda: _checked([site.rest()]))]
    late.append(api_routes := LateRoutes(routes, lambda: _api_routers(parts)))
    api.state.routers = lambda: [*at_once, *(router for each in late for router in each.routers)]
    describe(api, service.base_path, lambda: api_routes.routers)
    if not all(map(_is_built_in, parts)):
        # A mistake in a part of somebody's own is found when the service starts.
        api.state.routers()
    return api


def _api_routers(parts: Sequence[Part]) -> list[APIRouter]:
    from rota.api.routes import ROUTERS

    return _checked([*ROUTERS, *(router for part in parts for router in part.routes())])


def _checked(routers: list[APIRouter]) -> list[APIRouter]:
    for router in routers:
        _check_roles(router.routes)
    return routers


def _is_built_in(part: Part) -> bool:
    return type(part).__module__.startswith("rota.")


def _check_roles(routes: Iterable[BaseRoute]) -> None:
    """Deny by default: a route that nobody gave a role is a mistake, found before it answers anybody."""
    for route in routes:
        path = getattr(route, "path", str(route))
        is_open = path in OPEN or path.startswith(OPEN_PAGES)
        if not is_open and role_of(route) is None:
            raise RotaError(f"The route {path} declares no role. Make its router by `routes_for(role)`.")


def _site(service: Service) -> _SiteRoutes | None:
    if importlib.util.find_spec("rota.dashboard") is None:
        return None
    # By name, because the dashboard is built on the API and not the other way round.
    return importlib.import_module("rota.dashboard").create_site(service)


class _SiteRoutes(Protocol):
    """What the first page needs, and what makes the other pages."""

    @property
    def first(self) -> APIRouter: ...

    @property
    def rest(self) -> Callable[[], APIRouter]: ...


# --- errors ----------------------------------------------------------------------------------------------------------


def _answer_errors(api: FastAPI) -> None:
    async def on_rota(request: Request, error: Exception) -> Response:
        assert isinstance(error, RotaError)
        return await _show(request, problem_of(error))

    async def on_refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return await _show(request, error.problem)

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await _show(request, invalid_request(request, error.errors()))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = error.headers
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers = {**(headers or {}), "Allow": ", ".join(_methods_at(request))}
        return await _show(request, problem_of_status(error.status_code, error.detail, headers))

    api.add_exception_handler(RotaError, on_rota)
    api.add_exception_handler(Refused, on_refused)
    api.add_exception_handler(RequestValidationError, on_invalid)
    api.add_exception_handler(HTTPException, on_http)


def _methods_at(request: Request) -> list[str]:
    """Every method that the address knows; the error itself names those of one route."""
    routers: list[APIRouter] = request.app.state.routers()
    known: set[str] = set()
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            known |= route.methods or set()
    return sorted(known)


async def _show(request: Request, problem: Problem) -> Response:
    service: Service = request.app.state.service
    is_page = not local_path(request.scope).startswith("/api/") and "text/html" in request.headers.get("accept", "")
    if is_page and problem.code == "unauthenticated":
        return RedirectResponse(service.path(f"/login?next={quote(_wanted(request, service))}"), 303)
    if is_page and service.problem_page is not None:
        return await service.problem_page(request, problem)
    return respond(problem, shown_path(request.scope))


def _wanted(request: Request, service: Service) -> str:
    """Where somebody wanted to go, as the outside knows it; the proxy may have stripped its prefix."""
    if request.method not in ("GET", "HEAD"):
        # What a form asked for is not done later by signing in: back to the page that it was on.
        came_from = urlsplit(request.headers.get("referer", ""))
        if came_from.netloc != request.url.netloc:
            return service.path("/")
        return came_from.path + (f"?{came_from.query}" if came_from.query else "")
    path = shown_path(request.scope)
    outside = path if path.startswith(f"{service.base_path}/") else service.path(path)
    return f"{outside}?{request.url.query}" if request.url.query else outside
