"""The dashboard as routes: pages to look at, forms to act with, files, and how an error looks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from rota.access import Role
from rota.api.auth import Need, principal_of
from rota.api.paths import UserInPath
from rota.api.problems import Problem
from rota.api.routing import GuardedRoute, needing
from rota.api.service import Service
from rota.dashboard.act import ACTS
from rota.dashboard.forms import form_of
from rota.dashboard.pages import (
    dead_letters,
    docs,
    failures,
    overview,
    run,
    runs,
    schedules,
    system,
    task,
    tasks,
    types,
)
from rota.dashboard.part import Act, Pages, Show
from rota.dashboard.refusal import Refusal, page_again
from rota.dashboard.sign_in import add_sign_in
from rota.dashboard.view import Page, Site, View, safe_back
from rota.errors import NotAllowed, RotaError, StoreError

__all__ = ["create_site"]

PAGES: Final[tuple[tuple[str, Show, Role], ...]] = (
    ("/tasks", tasks.show, Role.VIEWER),
    ("/tasks/{task_type}/{key}", task.show, Role.VIEWER),
    ("/schedules", schedules.show, Role.VIEWER),
    ("/schedules/new", schedules.new, Role.OPERATOR),
    ("/schedules/{task_type}/{schedule_id}", schedules.one, Role.VIEWER),
    ("/runs", runs.show, Role.VIEWER),
    ("/runs/{run_id}", run.show, Role.VIEWER),
    ("/types/{task_type}", types.show, Role.VIEWER),
    ("/failures", failures.show, Role.VIEWER),
    ("/failures/{task_type}/{failure}", failures.one, Role.VIEWER),
    ("/dead-letters", dead_letters.show, Role.VIEWER),
    ("/instances", system.instances, Role.VIEWER),
    ("/audit", system.audit, Role.OPERATOR),
    ("/users", system.users, Role.ADMIN),
    ("/tokens", system.tokens, Role.ADMIN),
    ("/docs", docs.show, Role.VIEWER),
    ("/docs/models", docs.models, Role.VIEWER),
    ("/docs/{tag}", docs.of_tag, Role.VIEWER),
    ("/help", system.help_page, Role.VIEWER),
)


class SiteRoutes(NamedTuple):
    """What is there at once, for the first page; and what makes the rest, when it is asked for."""

    first: APIRouter
    rest: Callable[[], APIRouter]


def create_site(service: Service) -> SiteRoutes:
    """The dashboard of one service."""
    added = [pages for part in service.app.host.parts.values() if (pages := part.pages()) is not None]
    site = Site(
        service,
        [entry for pages in added for entry in pages.menu],
        [pages.templates for pages in added if pages.templates is not None],
    )
    site.kept_schedules = [pages.schedules for pages in added if pages.schedules is not None]
    for pages in added:
        site.made_by.update(pages.made_by)
    service.problem_page = _problem_page(site)
    first = _router()
    _add_page(first, site, "/", overview.show, Role.VIEWER)
    add_sign_in(first, site)
    _add_files(first, site)
    return SiteRoutes(first, partial(_rest, site, added))


def _rest(site: Site, added: Sequence[Pages]) -> APIRouter:
    router = _router()
    for path, show, role in (*PAGES, *(page for pages in added for page in pages.shown)):
        _add_page(router, site, path, show, role)
    for path, act, role in (*ACTS, *(act for pages in added for act in pages.acts)):
        _add_act(router, site, path, act, role)
    _add_export(router, site)
    return router


def _router() -> APIRouter:
    return APIRouter(route_class=GuardedRoute, include_in_schema=False)


async def _view(site: Site, request: Request) -> View:
    view = View(site, request, await principal_of(request), site.service.clock.now())
    if view.is_signed_in:
        # Without the store a page says so itself, if it needs it.
        with suppress(StoreError):
            view.badges = await site.service.badges()
    return view


def _add_page(router: APIRouter, site: Site, path: str, show: Show, role: Role) -> None:
    async def page(request: Request, **named: object) -> Response:
        view = await _view(site, request)
        return site.render(view, await show(view, **named))

    # What the path names is read as the page declares it, after the view.
    _, *named = inspect.signature(show, eval_str=True).parameters.values()
    first = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
    parameters = [first, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in named)]
    page.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess] - the documented way
    _add(router, path, page, role)


def _add_act(router: APIRouter, site: Site, path: str, act: Act, role: Role) -> None:
    async def carry_out(request: Request) -> Response:
        view, form = await _view(site, request), await form_of(request)
        try:
            return await act(view, form)
        except (NotAllowed, StoreError):
            raise  # nothing that another text in a field would change
        except RotaError as error:
            again = await _shown_again(view, Refusal(path, form, error))
            if again is None:
                raise
            return again

    _add(router, path, carry_out, role, method="POST")


async def _shown_again(view: View, refusal: Refusal) -> Response | None:
    """The page that a refused form was on; None if it was on none, or nobody looks."""
    back, accepted = refusal.form.exact("back"), view.request.headers.get("accept", "")
    if not (back and "text/html" in accepted):
        return None
    return await page_again(view.request, safe_back(back, view.site.service.base_path), refusal)


def _add(
    router: APIRouter, path: str, answer: Callable[..., Awaitable[Response]], role: Role, *, method: str = "GET"
) -> None:
    router.add_api_route(path, answer, methods=[method], route_class_override=needing(Need(role), GuardedRoute))


def _add_export(router: APIRouter, site: Site) -> None:
    async def export(request: Request, user_id: UserInPath) -> Response:
        """All that is known of a user, one JSON object a line, as a file."""
        from rota.api.routes.users import exported

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
