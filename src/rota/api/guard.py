"""What every request passes before anything looks at it, and every answer on its way out.

In: the host is one of ours (DNS rebinding), an unsafe request comes from our own pages or from no page at all (CSRF),
the path can be read, the body is JSON and not too large. Out: security headers, a request id, and a problem instead of
a traceback when something broke.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api.paths import MARK, marked_path
from rota.api.problems import Problem, Refused, problem_of_status, respond
from rota.api.service import Service
from rota.logs import get_logger

__all__ = ["MAX_BODY", "SECURITY_HEADERS", "Guard", "local_path", "shown_path"]

MAX_BODY: Final = 1_048_576
BODY_SECONDS: Final = 30.0
"""How long a body may take to arrive."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_NUL = re.compile(rb"%00|\x00")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = get_logger("rota.api")


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), shown_path(scope)
        given = headers.get("x-request-id", "")
        exit_ = _Exit(send, given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex, path)
        try:
            scope, receive = await self._admit(scope, headers, path, receive)
            await self._app(scope, receive, exit_)
        except Refused as refused:
            await exit_.say(refused.problem, scope, receive)
        except Exception:
            log.exception("request failed", request_id=exit_.request_id, path=path, method=scope["method"])
            await exit_.say(problem_of_status(500), scope, receive)

    async def _admit(self, scope: Scope, headers: Headers, sent: str, receive: Receive) -> tuple[Scope, Receive]:
        self._check_host(headers)
        # Where nothing is encoded, the path is as it was sent.
        marked = marked_path(sent.encode()) if "%" in sent or MARK in sent else sent
        root, prefix = scope.get("root_path", ""), self._service.base_path
        if prefix and marked.removeprefix(root).startswith(f"{prefix}/"):
            # The proxy has left its prefix on the path: it leads to this application, too.
            root += prefix
        scope = {**scope, "path": marked, "root_path": root}
        if _NUL.search(scope.get("query_string", b"")):
            raise Refused(400, "invalid_path", "A parameter contains a NUL character, which nothing does. Remove it.")
        path = marked.removeprefix(root)
        if MARK in path and path.startswith("/static/"):
            raise Refused(404, "not_found", "No file has such a name.")
        if scope["method"] not in SAFE:
            _check_origin(headers)
            body = await _body(headers, receive)
            media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
            if body and path.startswith("/api/") and media_type != "application/json":
                raise _no_json(media_type)
            receive = _Replay(body, receive)
        return scope, receive

    def _check_host(self, headers: Headers) -> None:
        given = headers.get("host", "")
        name, colon, port = given.lower().rpartition(":")
        host = name if colon and (port.isdigit() or not port) else given.lower()
        if host in LOCAL_HOSTS or host in self._service.allowed_hosts:
            return
        if self._service.is_public and _is_address(host):
            return
        raise Refused(
            400,
            "unknown_host",
            f"This service is not known as {given[:255]!r}. Use its own address, or name the host in its settings.",
        )


@dataclass(slots=True)
class _Exit:
    """The way out: every answer gets its headers here."""

    send: Send
    request_id: str
    path: str
    has_started: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.request_id
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await self.send(message)

    async def say(self, problem: Problem, scope: Scope, receive: Receive) -> None:
        # Half an answer cannot be taken back: the connection is closed by the server, and the client sees it.
        if not self.has_started:
            await respond(problem, self.path)(scope, receive, self)


def shown_path(scope: Scope) -> str:
    """The path as it was sent, for problems and logs."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.decode("ascii", "backslashreplace")


def local_path(scope: Scope) -> str:
    """The path without the prefixes that lead to this application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host.strip("[]"))
        return True
    return False


def _check_origin(headers: Headers) -> None:
    """A page of another site may not make somebody's browser act here."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise _cross_origin(site)
    origin = headers.get("origin")
    if origin is None:
        return
    # The scheme is not compared: behind a proxy this end does not know it. The host was checked already.
    if _host_of(origin) != headers.get("host", "").lower():
        raise _cross_origin(origin)


def _host_of(origin: str) -> str | None:
    with suppress(ValueError):  # "http://[" and the like
        return urlsplit(origin).netloc.lower() or None
    return None


def _cross_origin(origin: str) -> Refused:
    return Refused(
        403,
        "cross_origin",
        f"The request comes from another site ({origin[:100]}). Act from Rota's own pages, or without a browser.",
    )


def _no_json(media_type: str) -> Refused:
    return Refused(415, "unsupported_media_type", f"The body is {media_type or 'of no type'}. Send application/json.")


async def _body(headers: Headers, receive: Receive) -> bytes:
    """The whole body, if it is not too large. One without a length is counted as it comes."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > MAX_BODY:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return b""  # it hung up; nobody reads the answer
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > MAX_BODY:
                    raise _too_large()
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, "request_timeout", f"The body did not arrive within {BODY_SECONDS:g} s.") from None


def _too_large() -> Refused:
    return Refused(413, "body_too_large", f"The body is over {MAX_BODY:,} bytes. Send less at once.")


@dataclass(slots=True)
class _Replay:
    """Gives the body that was read already, and then what comes after it."""

    body: bytes
    receive: Receive
    is_given: bool = False

    async def __call__(self) -> Message:
        if self.is_given:
            return await self.receive()
        self.is_given = True
        return {"type": "http.request", "body": self.body, "more_body": False}
