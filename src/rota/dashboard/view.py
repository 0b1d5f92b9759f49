"""One request's view of the service: who looks, at what time, in which zone, and how a page becomes an answer.

A page is a template and its values. Its live regions are Jinja blocks named `live_<id>`: a full request renders the
page, a request with `X-Rota-Fragment: id,id` only those blocks, as JSON, which the script lays over the old ones.
"""

from __future__ import annotations

import base64
import binascii
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from rota.access import Principal, Role
from rota.api.paths import quote_key
from rota.api.service import Service
from rota.app.operator import Operator
from rota.app.rota import Rota
from rota.clock import Instant, isoformat
from rota.core.task import Identity
from rota.dashboard import words
from rota.dashboard.actions import Action, call, offered, typed
from rota.dashboard.assets import Assets
from rota.dashboard.compiled import compiled_templates
from rota.dashboard.forms import written
from rota.dashboard.navigation import MenuEntry, menu_with
from rota.dashboard.preferences import Preferences
from rota.dashboard.refusal import UNTOUCHED, Fields, refusal_of
from rota.keys import shown_key
from rota.printable import printable_lines
from rota.stores.base import Store

if TYPE_CHECKING:
    from rota.dashboard.part import KeepsSchedules

__all__ = ["FLASH", "Page", "Site", "View", "safe_back"]

FRAGMENT: Final = "x-rota-fragment"
FLASH: Final = "rota_flash"
"""The cookie that carries one sentence over a redirect."""
_LONGEST_FLASH: Final = 600


@dataclass(frozen=True, slots=True)
class Page:
    """A template and what it shows. `concerns` names the types whose changes matter to it: "*" all, "" none."""

    template: str
    title: str
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    concerns: str = ""
    status: int = 200
    within: str | None = None
    """The entry of the menu that it belongs to, if that is not called like its template: a page about one thing belongs
    to the page that lists such things."""

    @property
    def section(self) -> str:
        """The entry of the menu that it belongs to."""
        return self.within or self.template.removesuffix(".html")


class Site:
    """What all requests share: the service, the menu, the templates, the files.

    `menu` and `packages` are what parts add: entries, and packages with templates of their own.
    """

    def __init__(self, service: Service, menu: Sequence[MenuEntry] = (), packages: Sequence[str] = ()) -> None:
        self.service = service
        self.menu = menu_with(menu)
        self.assets = Assets()
        self._templates = _environment(packages)
        self.kept_schedules: list[KeepsSchedules] = []
        """The parts that know more about some schedules."""
        self.made_by: dict[str, str] = {}
        """Types whose tasks nobody makes by hand, each with the command that makes one."""

    def render(self, view: View, page: Page) -> Response:
        """The whole page, or the regions that were asked for."""
        template = self._templates.get_template(page.template)
        values: dict[str, Any] = {**page.values, "view": view, "page": page}
        wanted = view.request.headers.get(FRAGMENT)
        if wanted is None:
            status = page.status
            if view.refusal is not None and status == HTTPStatus.OK:
                status, view.refusal.is_shown = view.refusal.status, True
            answer: Response = HTMLResponse(template.render(values), status)
            if view.flash is not None:
                answer.delete_cookie(FLASH, path=view.cookie_path)
        else:
            context = template.new_context(values)
            blocks = {f"live_{name.strip()}": name.strip() for name in wanted.split(",")[:20]}
            regions = {
                name: "".join(template.blocks[block](context))
                for block, name in blocks.items()
                if block in template.blocks
            }
            answer = JSONResponse({"regions": regions, "at": view.now, "badges": view.badges}, page.status)
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["Vary"] = "Cookie, X-Rota-Fragment"
        return answer


def _environment(packages: Sequence[str]) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("rota.dashboard", *packages)]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=compiled_templates(),
    )
    environment.filters.update(
        number=words.number,
        compact=words.compact,
        span=words.span,
        pretty=words.pretty,
        masked=words.masked,  # pyright: ignore[reportArgumentType] -- Jinja types its filters by those that it has
        key=shown_key,
        written=written,
        typed=typed,
        offered=offered,  # pyright: ignore[reportArgumentType] -- Jinja types its filters by those that it has
        quoted=shlex.quote,
        printable_lines=printable_lines,
    )
    environment.globals["count"] = words.count  # pyright: ignore[reportArgumentType] -- Jinja's globals are untyped
    environment.globals["quote_key"] = quote_key  # pyright: ignore[reportArgumentType] -- the same
    environment.globals["untouched"] = UNTOUCHED  # pyright: ignore[reportArgumentType] -- the same
    for name in ("ui", "left", "once_more", "waterfall"):  # what pages are made of: a live region knows no imports
        environment.globals[name] = environment.get_template(f"{name}.html").module  # pyright: ignore[reportArgumentType] -- the same
    return environment


class View:
    """Who looks at the service, and how they want to see it."""

    def __init__(self, site: Site, request: Request, principal: Principal | None, now: Instant) -> None:
        self.site = site
        self.request = request
        self.now = now
        self._principal = principal
        self.badges: Mapping[str, int] = {}
        """How much waits for somebody, by the entries of the menu."""
        self.preferences = Preferences.of(request.cookies, hides_payloads=_hides_payloads(site.service))
        self.flash = _decoded_flash(request.cookies.get(FLASH))
        self.refusal = refusal_of(request)
        """The form that was refused, if that is why this page is shown."""

    # --- who ---

    @property
    def is_signed_in(self) -> bool:
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        assert self._principal is not None, "this page is for somebody"
        return self._principal

    def may(self, role: Role | str) -> bool:
        """Whether to offer what needs a role; the server checks again when it is done."""
        return self._principal is not None and self._principal.role.allows(Role(role))

    @property
    def menu(self) -> list[MenuEntry]:
        return [entry for entry in self.site.menu if self.may(entry.role)]

    # --- what ---

    @property
    def app(self) -> Rota:
        return self.site.service.app

    async def store(self) -> Store:
        return await self.app.store()

    @property
    def timezone(self) -> str:
        """The zone that the configuration names."""
        return self.app.config.timezone

    @cached_property
    def operator(self) -> Operator:
        return Operator(self.app, self.principal)

    def given(self, name: str) -> str | None:
        """What the URL says of a filter; an empty field of a form says nothing."""
        value = self.request.query_params.get(name, "").strip()
        return value or None

    def wants(self, region: str) -> bool:
        """Whether this answer shows a live region: all of them are on a whole page."""
        wanted = self.request.headers.get(FRAGMENT)
        return wanted is None or region in {name.strip() for name in wanted.split(",")}

    def fields(self, path: str) -> Fields:
        """The fields of the form that goes to a path: what was typed and what is wrong, if it was refused."""
        is_refused = self.refusal is not None and self.refusal.path == path
        return Fields(path.removeprefix("/act/"), self.refusal if is_refused else None)

    @property
    def here(self) -> str:
        """This page with its filters, to come back to. What a form was answered with cannot be come back to."""
        if self.request.method != "GET":
            return self.url("/")
        query = self.request.scope["query_string"].decode("latin-1")
        return self.site.service.base_path + self._path + (f"?{query}" if query else "")

    @property
    def _path(self) -> str:
        """The path below the base path, still percent-encoded: a key may hold a slash."""
        raw: bytes = self.request.scope.get("raw_path") or quote(self.request.scope["path"]).encode()
        return raw.decode("latin-1").removeprefix(self.site.service.base_path) or "/"

    # --- where ---

    def url(self, path: str, **query: object) -> str:
        """A link below the base path; what is None is left out."""
        return self.site.service.base_path + self.path(path, **query)

    def path(self, path: str, **query: object) -> str:
        """A path of this site with its query, as the site itself names it."""
        given = [(name, str(value)) for name, value in query.items() if value is not None and value != ""]
        return path + (f"?{urlencode(given)}" if given else "")

    def with_query(self, **changes: object) -> str:
        """This page with other filters."""
        kept = {name: value for name, value in self.request.query_params.items() if name != "cursor"}
        return self.url(self._path, **{**kept, **changes})

    def task_url(self, task_type: str, key: str) -> str:
        return self.url(f"/tasks/{quote_key(task_type)}/{quote_key(key)}")

    def schedule_url(self, task_type: str, key: str) -> str:
        return self.url(f"/schedules/{quote_key(task_type)}/{quote_key(key)}")

    def asset(self, name: str) -> str:
        return self.site.service.base_path + self.site.assets.path(name)

    @property
    def cookie_path(self) -> str:
        return self.site.service.base_path + "/"

    @property
    def origin(self) -> str:
        base = self.request.base_url
        return f"{base.scheme}://{base.netloc}{self.site.service.base_path}"

    def curl(self, action: Action) -> str:
        return action.curl(self.origin)

    def call(self, method: str, path: str, body: str | None = None) -> str:
        """A call of the API as a curl command."""
        return call(method, self.origin + path, body)

    # --- how ---

    def when(self, at: Instant | None, zone: str | None = None) -> Markup:
        """A moment: relative, which the script keeps fresh, and absolute on request."""
        if at is None:
            return Markup('<span class="none">{}</span>').format(words.NOTHING)
        return Markup('<time datetime="{}" data-at="{}" title="{}">{}</time>').format(
            isoformat(at), at, self.clock(at, zone), words.relative(at, self.now)
        )

    def clock(self, at: Instant, zone: str | None = None) -> str:
        """A moment on the wall clock of the chosen zone."""
        return words.absolute(at, self.preferences.zone(zone))

    def identity_url(self, identity: Identity) -> str:
        return self.task_url(identity.task_type, identity.key)

    def back(self, sentence: str, to: str) -> Response:
        """After an action: back to where it was asked for, with one sentence about it."""
        answer = RedirectResponse(to, 303)
        answer.set_cookie(
            FLASH, _encoded_flash(sentence), max_age=60, path=self.cookie_path, httponly=True, samesite="strict"
        )
        return answer


def safe_back(path: str, base_path: str) -> str:
    """A path of this site: wherever a form says to go back to, it is never another site."""
    home = base_path + "/"
    plain = path.replace("\\", "/")
    is_ours = path.startswith(home) and not plain.startswith("//") and plain.isprintable()
    return path if is_ours else home


def _hides_payloads(service: Service) -> bool:
    return service.app.config.server.hide_payloads


def _encoded_flash(sentence: str) -> str:
    short = sentence if len(sentence) <= _LONGEST_FLASH else sentence[: _LONGEST_FLASH - 1] + "…"
    return base64.urlsafe_b64encode(short.encode("utf-8", "replace")).decode().rstrip("=")


def _decoded_flash(text: str | None) -> str | None:
    """Anybody may put anything into a cookie: what cannot be read is nothing."""
    if not text:
        return None
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()[:_LONGEST_FLASH]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
