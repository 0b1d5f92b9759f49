"""Spans: one around what makes work, one for every run with the handler's own inside, nothing without a provider."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from rota import Rota
from rota.core.task import Task, TaskStatus
from rota.errors import InvalidConfig, InvalidInput
from rota.events import Effect, Event
from rota.runtime.running import Running
from rota.telemetry import trace, trace_if_configured
from rota.telemetry.tracing import _RunSpans  # pyright: ignore[reportPrivateUsage] -- a run that is lost is told to it
from rota.testing import FakeClock
from rota.testing.waiting import until


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


async def test_calls_and_runs_have_spans_with_types_and_reasons(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    app = Rota("memory://")
    tracer = provider.get_tracer("handler")

    @app.on_activity(after="0s", max_retries=0)
    async def work(user_id: str) -> None:
        with tracer.start_as_current_span("inside"):
            if user_id == "bad":
                raise ValueError("a secret payload")

    @app.task
    def plain(payload: object) -> None:
        with tracer.start_as_current_span("in a thread"):
            pass

    trace(app, provider)
    async with app:
        await work.touch(user_id="good")
        await work.touch(user_id="bad")
        await plain.schedule({"secret": "payload"})
        assert await app.run_until_idle() == 3

    touches = named(exporter, "touch work")
    assert [span.kind for span in touches] == [SpanKind.PRODUCER] * 2
    assert all((span.attributes or {})["rota.outcome"] == "created" for span in touches)
    (scheduled,) = named(exporter, "schedule plain")
    assert (scheduled.attributes or {})["rota.outcome"] == "created"

    runs = named(exporter, "run work")
    assert [span.kind for span in runs] == [SpanKind.CONSUMER] * 2
    by_outcome = {str((span.attributes or {})["rota.run.outcome"]): span for span in runs}
    failed = by_outcome["retry"]
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["rota.run.reason"] == "error"
    assert (failed.attributes or {})["rota.run.attempt"] == 1
    assert "rota.run.late_ms" in (failed.attributes or {})
    assert by_outcome["complete"].status.status_code is not StatusCode.ERROR

    ids = {span.context.span_id for span in [*runs, *named(exporter, "run plain")] if span.context is not None}
    inside = [*named(exporter, "inside"), *named(exporter, "in a thread"), *named(exporter, "settle")]
    assert len(inside) == 2 + 1 + 3
    assert all(span.parent is not None and span.parent.span_id in ids for span in inside)
    assert all(span.start_time is not None and (span.end_time or 0) >= span.start_time for span in runs)
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans() if span.name != "inside")


async def test_a_call_that_fails_says_so_without_naming_anybody(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    app = Rota("memory://")
    trace(app, provider)
    assert app.host.producer is not None
    with pytest.raises(InvalidInput), app.host.producer.making("schedule", "plain"):
        raise InvalidInput("The key 'ada' belongs to somebody else.")
    (span,) = named(exporter, "schedule plain")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, InvalidInput.code)
    assert "ada" not in span.to_json()


async def test_an_app_that_traces_itself_has_one_span_a_run_wherever_it_is_served(
    provider: TracerProvider, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    app = Rota("memory://")

    @app.on_activity(after="0s")
    async def work() -> None: ...

    trace(app, provider)
    trace(app, provider)
    assert trace_if_configured(app) is True
    async with app:
        await work.touch(user_id="u")
        await app.run_until_idle()
    assert len(app.host.observers) == 1
    assert [len(named(exporter, name)) for name in ("touch work", "run work", "settle")] == [1, 1, 1]


async def test_a_run_that_was_taken_away_lasts_until_then(
    provider: TracerProvider, exporter: InMemorySpanExporter, clock: FakeClock
) -> None:
    spans = _RunSpans(provider.get_tracer("rota"), clock)
    running = Running(Task("work", "k", TaskStatus.RUNNING, 0, 0, 0), None, 1_000, 0.0)
    spans.run_started(running)
    clock.advance("7s")
    spans.run_ended(running, None, landed=False)
    (span,) = named(exporter, "run work")
    assert (span.end_time or 0) - (span.start_time or 0) == 7_000_000_000
    assert (span.attributes or {})["rota.run.outcome"] == "lost"


async def test_without_a_provider_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Rota("memory://")
    assert not isinstance(api.get_tracer_provider(), TracerProvider)
    assert trace_if_configured(app) is False
    monkeypatch.setattr("rota.telemetry.tracing.find_spec", dict[str, object]().get)
    assert trace_if_configured(app) is False
    with pytest.raises(InvalidConfig, match="otel"):
        trace(app)
    assert (app.host.observers, app.host.producer) == ([], None)


async def test_the_global_provider_is_taken_if_there_is_one(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    app = Rota("memory://")
    assert trace_if_configured(app) is True
    assert len(app.host.observers) == 1


async def test_one_trace_leads_from_a_request_over_events_to_its_result(
    provider: TracerProvider, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    app = Rota(f"sqlite:///{tmp_path}/rota.db")
    tracer = provider.get_tracer("request")
    seen: list[Event] = []

    @app.consumer("Shop.Order.Created", name="billing")
    async def bill(event: Event) -> Effect:
        outbox = (await app.events()).outbox
        return lambda connection: outbox.add(connection, event.then("Billing.Invoice.Created", {"secret": "payload"}))

    @app.consumer("Billing.Invoice.Created", name="mail")
    async def send(event: Event) -> None:
        seen.append(event)

    trace(app, provider)
    async with app:
        await app.start()
        with tracer.start_as_current_span("request"):
            await (await app.events()).outbox.publish(Event("Shop.Order.Created", aggregate_id="o1", user_id="ada"))
        await until(lambda: named(exporter, "handle Billing.Invoice.Created"), "the last one is handled")
        await app.stop()

    names = ("request", "handle Shop.Order.Created", "handle Billing.Invoice.Created")
    (request,), (billed,), (sent,) = (named(exporter, name) for name in names)
    assert request.parent is None
    assert ids_of(billed.parent) == ids_of(request.context)
    assert ids_of(sent.parent) == ids_of(billed.context)
    assert dict(sent.attributes or {}) == {"rota.consumer": "mail", "rota.event.type": "Billing.Invoice.Created"}
    assert seen[0].headers["traceparent"].split("-")[1] == f"{ids_of(request.context)[0]:032x}"


def ids_of(context: SpanContext | None) -> tuple[int, int]:
    """The trace, and the span in it."""
    assert context is not None
    return context.trace_id, context.span_id
