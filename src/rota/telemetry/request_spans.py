"""A span for every request that acts, in the trace of whoever sent it: what it makes is part of that trace, and the
runs are linked to it. Requests that only look make nothing, and have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["RequestSpans"]

_LOOKING: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class RequestSpans:
    """ASGI middleware. Its spans are named by the method alone: paths name keys and users."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if scope["type"] != "http" or scope["method"] in _LOOKING:
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method = str(scope["method"])
        with self._tracer.start_as_current_span(
            method,
            context=TraceContextTextMapPropagator().extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            await self._app(scope, receive, _noting_status(send, span))


def _noting_status(send: Send, span: Span) -> Send:
    from opentelemetry.trace import Status, StatusCode

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            span.set_attribute("http.response.status_code", message["status"])
            if message["status"] >= 500:
                span.set_status(Status(StatusCode.ERROR))
        await send(message)

    return noting
