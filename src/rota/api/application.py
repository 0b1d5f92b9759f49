"""Puts the HTTP face together: routes, roles, errors, the dashboard if it is there."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route

from rota.api.auth import Gate
from rota.api.guard import Guard, local_path, shown_path
from rota.api.openapi import describe
from rota.api.problems import Problem, Refused, problem_of, problem_of_status, respond
from rota.api.routes import ROUTERS
from rota.api.routing import role_of
from rota.api.service import Service
from rota.errors import RotaError

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
    _answer_errors(api)
    parts = service.app.host.parts.values()
    api.state.routers = [*ROUTERS, *(router for part in parts for router in part.routes())]
    for router in api.state.routers:
        _check_roles(router.routes)
        api.include_router(router)
    describe(api, service.base_path, api.state.routers)
    for part in parts:
        for path, endpoint, methods in part.endpoints(service):
            api.router.routes.append(Route(path, endpoint, methods=list(methods)))
    if dashboard:
        _add_dashboard(api, service)
    return api


def _check_roles(routes: Iterable[BaseRoute]) -> None:
    """Deny by default: a route that nobody gave a role is a mistake, found when the service starts."""
    for route in routes:
        path = getattr(route, "path", str(route))
        is_open = path in OPEN or path.startswith(OPEN_PAGES)
        if not is_open and role_of(route) is None:
            raise RotaError(f"The route {path} declares no role. Make its router by `routes_for(role)`.")


def _add_dashboard(api: FastAPI, service: Service) -> None:
    if importlib.util.find_spec("rota.dashboard") is None:
        return
    # By name, because the dashboard is built on the API and not the other way round.
    dashboard = importlib.import_module("rota.dashboard")
    site: APIRouter = dashboard.create_site(service)
    _check_roles(site.routes)
    api.state.routers.append(site)
    api.include_router(site, include_in_schema=False)


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
        return await _show(request, _invalid(error))

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
    routers: list[APIRouter] = request.app.state.routers
    known: set[str] = set()
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            known |= route.methods or set()
    return sorted(known)


def _invalid(error: RequestValidationError) -> Problem:
    errors = [{"at": [str(part) for part in each["loc"]], "detail": str(each["msg"])} for each in error.errors()]
    first = errors[0] if errors else {"at": ["body"], "detail": "cannot be read"}
    words = f"{'.'.join(first['at'])}: {first['detail']}."
    return Problem(422, "invalid_request", f"The request is not as it should be. {words}", extra={"errors": errors})


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
