"""The dashboard as routes: pages to look at, forms to act with, files, and how an error looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from rota.access import Role
from rota.api.auth import Need, principal_of
from rota.api.paths import KeyInPath, UserInPath
from rota.api.problems import Problem
from rota.api.routes.users import exported
from rota.api.routing import GuardedRoute, needing
from rota.api.service import Service
from rota.dashboard.act import ACTS
from rota.dashboard.forms import Form, form_of
from rota.dashboard.pages import (
    agents,
    alerts,
    dead_letters,
    memory,
    overview,
    runs,
    schedules,
    system,
    task,
    tasks,
    types,
)
from rota.dashboard.sign_in import add_sign_in
from rota.dashboard.view import Page, Site, View
from rota.errors import RotaError

__all__ = ["create_site"]

Show = Callable[[View], Awaitable[Page]]
Act = Callable[[View, Form], Awaitable[Response]]

PAGES: Final[tuple[tuple[str, Show, Role], ...]] = (
    ("/", overview.show, Role.VIEWER),
    ("/tasks", tasks.show, Role.VIEWER),
    ("/schedules", schedules.show, Role.VIEWER),
    ("/schedules/new", schedules.new, Role.OPERATOR),
    ("/runs", runs.show, Role.VIEWER),
    ("/dead-letters", dead_letters.show, Role.VIEWER),
    ("/agents", agents.show, Role.VIEWER),
    ("/memory", memory.show, Role.VIEWER),
    ("/instances", system.instances, Role.VIEWER),
    ("/alerts", alerts.show, Role.VIEWER),
    ("/audit", system.audit, Role.OPERATOR),
    ("/users", system.users, Role.ADMIN),
    ("/tokens", system.tokens, Role.ADMIN),
    ("/help", system.help_page, Role.VIEWER),
)


def create_site(service: Service) -> APIRouter:
    """The dashboard of one service."""
    site = Site(service)
    router = APIRouter(route_class=GuardedRoute, include_in_schema=False)
    for path, show, role in PAGES:
        _add_page(router, site, path, show, role)
    for path, act, role in ACTS:
        _add_act(router, site, path, act, role)
    _add_named_pages(router, site)
    _add_export(router, site)
    add_sign_in(router, site)
    _add_files(router, site)
    service.problem_page = _problem_page(site)
    return router


async def _view(site: Site, request: Request) -> View:
    return View(site, request, await principal_of(request), site.service.clock.now())


def _add_page(router: APIRouter, site: Site, path: str, show: Show, role: Role) -> None:
    async def page(request: Request) -> Response:
        view = await _view(site, request)
        return site.render(view, await show(view))

    _add(router, path, page, role)


def _add_act(router: APIRouter, site: Site, path: str, act: Act, role: Role) -> None:
    async def carry_out(request: Request) -> Response:
        return await act(await _view(site, request), await form_of(request))

    _add(router, path, carry_out, role, method="POST")


def _add(
    router: APIRouter, path: str, answer: Callable[..., Awaitable[Response]], role: Role, *, method: str = "GET"
) -> None:
    router.add_api_route(path, answer, methods=[method], route_class_override=needing(Need(role), GuardedRoute))


def _add_named_pages(router: APIRouter, site: Site) -> None:
    """The pages about one thing, which the path names."""

    async def of_task(request: Request, task_type: str, key: KeyInPath) -> Response:
        view = await _view(site, request)
        return site.render(view, await task.show(view, task_type, key))

    async def of_schedule(request: Request, task_type: str, key: KeyInPath) -> Response:
        view = await _view(site, request)
        return site.render(view, await schedules.one(view, task_type, key))

    async def of_run(request: Request, run_id: KeyInPath) -> Response:
        view = await _view(site, request)
        return site.render(view, await runs.one(view, run_id))

    async def of_type(request: Request, task_type: str) -> Response:
        view = await _view(site, request)
        return site.render(view, await types.show(view, task_type))

    async def of_memory(request: Request, user_id: UserInPath) -> Response:
        view = await _view(site, request)
        return site.render(view, await memory.one(view, user_id))

    _add(router, "/tasks/{task_type}/{key}", of_task, Role.VIEWER)
    _add(router, "/schedules/{task_type}/{key}", of_schedule, Role.VIEWER)
    _add(router, "/runs/{run_id}", of_run, Role.VIEWER)
    _add(router, "/types/{task_type}", of_type, Role.VIEWER)
    _add(router, "/memory/{user_id}", of_memory, Role.OPERATOR)


def _add_export(router: APIRouter, site: Site) -> None:
    async def export(request: Request, user_id: UserInPath) -> Response:
        """All that is known of a user, one JSON object a line, as a file."""
        view = await _view(site, request)
        headers = {"Content-Disposition": 'attachment; filename="user.ndjson"', "Cache-Control": "no-store"}
        return await exported(view.operator, user_id, headers)

    _add(router, "/users/{user_id}/export", export, Role.ADMIN)


def _add_files(router: APIRouter, site: Site) -> None:
    @router.get("/static/{version}/{name}")
    async def file(request: Request, version: str, name: str) -> Response:
        return site.assets.answer(request, version, name)

    _ = file


def _problem_page(site: Site) -> Callable[[Request, Problem], Awaitable[Response]]:
    async def show(request: Request, problem: Problem) -> Response:
        try:
            principal = await principal_of(request)
        except RotaError:  # whoever cannot be known sees the page without a menu
            principal = None
        view = View(site, request, principal, site.service.clock.now())
        page = Page("problem.html", problem.title, {"problem": problem}, status=problem.status)
        answer = site.render(view, page)
        answer.headers.update(problem.headers)
        return answer

    return show
