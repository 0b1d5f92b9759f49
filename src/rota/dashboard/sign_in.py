"""Signing in and out: a form for a token, and a link that carries one."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from rota.api.auth import end_session, principal_of, sign_in, start_session
from rota.dashboard.forms import form_of
from rota.dashboard.view import Page, Site, View, safe_back

__all__ = ["add_sign_in"]


def add_sign_in(router: APIRouter, site: Site) -> None:
    """The open pages: everything else is for somebody."""

    @router.get("/login")
    async def login(request: Request) -> Response:
        """The form; or, from a link with a token, straight in and to an address without it."""
        token, to = request.query_params.get("token"), request.query_params.get("next", "")
        if token is not None:
            return await _enter(site, request, token, to)
        if await principal_of(request) is not None:
            return RedirectResponse(safe_back(to, site.service.base_path), 303)
        return _form(site, request, to)

    @router.post("/login")
    async def enter(request: Request) -> Response:
        form = await form_of(request)
        return await _enter(site, request, form.exact("token").strip(), form.exact("next"))

    @router.post("/logout")
    async def leave(request: Request) -> Response:
        answer = RedirectResponse(site.service.path("/login"), 303)
        end_session(request, answer)
        return answer

    _ = login, enter, leave


async def _enter(site: Site, request: Request, secret: str, to: str) -> Response:
    token = await sign_in(request, secret) if secret else None
    if token is None:
        return _form(site, request, to, "This token is not valid. It may be mistyped, expired or revoked.", 401)
    answer = RedirectResponse(safe_back(to, site.service.base_path), 303)
    answer.headers["Cache-Control"] = "no-store"
    start_session(request, answer, token, secret)
    return answer


def _form(site: Site, request: Request, to: str, trouble: str | None = None, status: int = 200) -> Response:
    """`to` is where somebody wanted to go: a wrong token does not make them forget it."""
    view = View(site, request, None, site.service.clock.now())
    values = {"trouble": trouble, "next": to}
    return site.render(view, Page("login.html", "Sign in", values, status=status))
