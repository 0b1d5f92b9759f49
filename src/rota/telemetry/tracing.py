"""Spans for OpenTelemetry: one around every call that makes work, one for every run, one for its settling.

Only the API is used, so whoever runs Rota chooses the SDK and where spans go. Without the extra `otel`, or without a
provider, nothing is registered and nothing is paid. Spans carry the type, the attempt, the reason and the lateness; no
payload, no key, no user.

A run may begin hours after its task was made, and one run answers many touches. So its span begins a trace of its own,
in which the handler's spans are children of the run's, and is linked to the call that has made the task: the context
of that call is kept with the task, over retries and fires, and handed on to what comes after it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from rota.app.rota import Rota
from rota.clock import Clock, Instant, SystemClock
from rota.core.task import Task, Transition
from rota.errors import InvalidConfig, RotaError
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict
from rota.telemetry.traceparent import context_of, traceparent_of

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

__all__ = ["trace", "trace_if_configured"]

_NANOSECONDS: Final = 1_000_000
_FAILURES: Final = frozenset({Transition.RETRY, Transition.FAIL})


def trace(app: Rota, provider: TracerProvider | None = None) -> None:
    """Make spans from now on; workers that run already go on without. `provider` None takes the global one."""
    if find_spec("opentelemetry") is None:
        raise InvalidConfig("Spans need the extra 'otel'. Install it: pip install 'rota[otel]'.")
    from opentelemetry import trace as api

    tracer = api.get_tracer("rota", tracer_provider=provider)
    # An app that traces itself may be served by a command that would trace it too: one span a run is enough.
    app.host.observers[:] = [observer for observer in app.host.observers if not isinstance(observer, _RunSpans)]
    app.host.observers.append(_RunSpans(tracer, SystemClock()))
    app.host.producer = _CallSpans(tracer)
    app.host.tracer = tracer


def trace_if_configured(app: Rota) -> bool:
    """Make spans if this process has an OpenTelemetry provider, unless some are made already; whether any are."""
    if app.host.producer is not None:
        return True
    if find_spec("opentelemetry") is None:
        return False
    from opentelemetry import trace as api

    if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider | api.NoOpTracerProvider):
        return False
    trace(app)
    return True


class _CallSpan(NamedTuple):
    """A `Making` with a span around it."""

    span: Span

    @property
    def trace(self) -> str | None:
        return traceparent_of(self.span.get_span_context())

    def led_to(self, outcome: str) -> None:
        self.span.set_attribute("rota.outcome", str(outcome))


class _CallSpans:
    """A `Producer` with a span around every call that makes work."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def making(self, verb: str, task_type: str) -> Generator[_CallSpan]:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        # An error's message may name a key or a user, so the span gets its code only.
        with self._tracer.start_as_current_span(
            f"{verb} {task_type}",
            kind=SpanKind.PRODUCER,
            attributes={"rota.task.type": task_type},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield _CallSpan(span)
            except Exception as error:
                code = error.code if isinstance(error, RotaError) else type(error).__name__
                span.set_status(Status(StatusCode.ERROR, code))
                raise


class _OpenSpan(NamedTuple):
    span: Span
    started_at: Instant


class _RunSpans:
    """An `Observer` with a span for every run."""

    def __init__(self, tracer: Tracer, clock: Clock) -> None:
        self._tracer = tracer
        self._clock = clock

    def run_started(self, running: Running) -> None:
        from opentelemetry import context
        from opentelemetry.trace import SpanKind, set_span_in_context

        started_at = self._clock.now()
        span = self._tracer.start_span(
            f"run {running.task.task_type}",
            context=context.Context(),
            kind=SpanKind.CONSUMER,
            attributes=_attributes(running.task),
            links=_links(running.task),
            start_time=started_at * _NANOSECONDS,
        )
        # Never detached: a run is an asyncio task of its own, and its context ends with it.
        context.attach(set_span_in_context(span))
        running.trace = _OpenSpan(span, started_at)

    def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
        if not isinstance(running.trace, _OpenSpan):
            return
        from opentelemetry.trace import Status, StatusCode

        span, started_at = running.trace
        ended_at = max(started_at, self._clock.now())
        if verdict is not None:  # how long it took is known; what it took to write that down is not part of it
            ended_at = min(started_at + running.took_ms, ended_at)
        if verdict is None:
            span.set_attribute("rota.run.outcome", "lost")
        else:
            span.set_attribute("rota.run.outcome", verdict.transition.value)
            if verdict.reason is not None:
                span.set_attribute("rota.run.reason", verdict.reason)
            self._settled(span, landed, ended_at)
        if verdict is None or verdict.transition in _FAILURES:
            span.set_status(Status(StatusCode.ERROR, "lost" if verdict is None else verdict.reason))
        span.end(ended_at * _NANOSECONDS)

    def _settled(self, span: Span, landed: bool, ended_at: Instant) -> None:
        """A span for the time from the handler's end to the store's answer."""
        from opentelemetry.trace import set_span_in_context

        settling = self._tracer.start_span(
            "settle",
            context=set_span_in_context(span),
            attributes={"rota.landed": landed},
            start_time=ended_at * _NANOSECONDS,
        )
        settling.end(max(ended_at, self._clock.now()) * _NANOSECONDS)

    def write_refused(self, task: Task) -> None:
        """The run's own span says that it did not land."""

    def reaped(self, task: Task, now: Instant) -> None:
        """Whose run it was is gone."""

    def claimed(self, count: int) -> None:
        """Claims have no span: they belong to no run."""


def _attributes(task: Task) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "rota.task.type": task.task_type,
        "rota.task.trigger": task.trigger_mode,
        "rota.run.attempt": task.attempt,
    }
    if task.attempt == 1 and task.claimed_at is not None:
        attributes["rota.run.late_ms"] = max(0, task.claimed_at - task.scheduled_at)
    return attributes


def _links(task: Task) -> list[Link]:
    """To the call that has made the task, where that was traced."""
    from opentelemetry.trace import Link

    made_in = context_of(task.trace)
    return [] if made_in is None else [Link(made_in, {"rota.link": "made by"})]
