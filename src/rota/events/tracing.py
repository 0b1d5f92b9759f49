"""One trace from a request to its result: an event carries the trace that it was made in, and its handler goes on in
it.

Without OpenTelemetry a trace that came with an event is handed on all the same, to what its handler publishes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from rota.events.envelope import Event

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["TRACE_HEADERS", "current_trace", "handling", "tracer_if_configured"]

TRACE_HEADERS: Final = ("traceparent", "tracestate")

_carried: ContextVar[Mapping[str, str] | None] = ContextVar("rota_trace", default=None)


def current_trace() -> Mapping[str, str]:
    """The headers of the trace that runs now."""
    headers: dict[str, str] = {}
    if _is_there():
        _propagator().inject(headers)
    return headers or _carried.get() or {}


def tracer_if_configured() -> Tracer | None:
    """What makes spans by the provider of this process; None if it has none, and nobody would keep them."""
    if not _is_there():
        return None
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return trace.get_tracer("rota")


@contextmanager
def handling(tracer: Tracer | None, consumer: str, event: Event | None) -> Generator[None]:
    """What runs within belongs to the event's trace."""
    headers = {} if event is None else {name: event.headers[name] for name in TRACE_HEADERS if name in event.headers}
    before = _carried.set(headers or None)
    try:
        if event is None or tracer is None:
            yield
            return
        from opentelemetry.trace import SpanKind

        with tracer.start_as_current_span(
            f"handle {event.event_type}",
            context=_propagator().extract(headers),
            kind=SpanKind.CONSUMER,
            # No payload, no key, no user.
            attributes={"rota.consumer": consumer, "rota.event.type": event.event_type},
            record_exception=False,
            set_status_on_exception=False,
        ):
            yield
    finally:
        _carried.reset(before)


@cache
def _is_there() -> bool:
    return find_spec("opentelemetry") is not None


@cache
def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
