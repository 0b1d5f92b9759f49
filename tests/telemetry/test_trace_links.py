"""From the maker to the run: a run in another process is linked to the call that has made its task, on every store."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from tests.telemetry.collector import Collected, Collector, collector
from tests.telemetry.worker_process import worker

from rota import Rota
from rota.access import Role, Tokens
from rota.api import Service, create_api
from rota.core.task import Identity
from rota.telemetry import trace
from rota.telemetry.traceparent import context_of, traceparent_of
from rota.testing.waiting import until

PROJECT = """
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider(resource=Resource({{"service.name": "worker"}}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter("{endpoint}/v1/traces")))
otel.set_tracer_provider(provider)

from rota import Retry, Rota, Run

app = Rota()

@app.on_activity(after="0s")
async def refresh(user_id: str) -> None: ...

@app.task(max_retries=3)
async def charge(payload: str, run: Run) -> str:
    if run.attempt == 1:
        raise Retry(after="0s")
    with otel.get_tracer("bank").start_as_current_span("ask the bank"):
        return payload

@app.after("charge")
async def receipt() -> str:
    await app.schedule("mail", "ada@example.org")
    return "sent"

@app.task
async def mail(payload: str) -> None: ...

@app.task
async def tick() -> None: ...
"""

NAMES = ("run refresh", "run charge", "run charge", "run receipt", "run mail", "run tick", "ask the bank")


@pytest.fixture
def received() -> Generator[Collector]:
    with collector() as running:
        yield running


def traced(app: Rota, received: Collector) -> TracerProvider:
    provider = TracerProvider(resource=Resource({"service.name": "maker"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{received.endpoint}/v1/traces")))
    trace(app, provider)
    return provider


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"])
async def test_a_collector_gets_the_whole_way_from_a_request_to_its_runs(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, received: Collector
) -> None:
    url: str = request.getfixturevalue(f"{store}_url")
    with worker(tmp_path, url, project=PROJECT.format(endpoint=received.endpoint)) as one:
        app = Rota(url, spool="off")
        provider = traced(app, received)
        async with app:
            await until(one.is_ready, "the worker knows its types")
            with provider.get_tracer("shop").start_as_current_span("order"):
                await app.touch("refresh", user_id="ada")
                await app.schedule("charge", "secret", key="order-1", user_id="ada")
                await app.schedules.upsert("once", type="tick", every="1s", max_runs=1)
            await until(lambda: all(received.named(name) for name in NAMES), "all of it has run")
            await until(lambda: len(received.named("run charge")) == 2, "both tries are told")
        one.process.terminate()
        one.process.communicate(timeout=60)
        provider.shutdown()

    (order,) = received.named("order")
    made = {name: only(received, name) for name in ("touch refresh", "schedule charge", "schedule tick")}
    assert all(span.parent_id == order.span_id and span.service == "maker" for span in made.values())
    assert only(received, "run refresh").links == (made["touch refresh"].at,)
    assert only(received, "run tick").links == (made["schedule tick"].at,)

    first, second = received.named("run charge")
    assert first.links == second.links == (made["schedule charge"].at,), "each try is linked to the maker"
    assert first.trace_id != second.trace_id != order.trace_id
    assert {first.attributes["rota.run.attempt"], second.attributes["rota.run.attempt"]} == {"1", "2"}
    assert only(received, "ask the bank").parent_id in (first.span_id, second.span_id)

    receipt = only(received, "run receipt")
    assert receipt.links == (made["schedule charge"].at,), "what comes after it is linked to the same maker"
    mailed = only(received, "schedule mail")
    assert (mailed.parent_id, mailed.service) == (receipt.span_id, "worker")
    assert only(received, "run mail").links == (mailed.at,), "what a run makes is linked to that run's call"
    assert "ada" not in str(received.spans)
    assert "secret" not in str(received.spans)


def only(received: Collector, name: str) -> Collected:
    (span,) = received.named(name)
    return span


async def test_a_request_over_http_goes_on_in_the_trace_of_its_client(sqlite_url: str, received: Collector) -> None:
    app = Rota(sqlite_url)

    @app.task
    async def report(payload: object) -> None: ...

    provider = traced(app, received)
    async with app, Service(app) as service:
        secret = (await Tokens(await app.database()).add("ann", Role.OPERATOR, created_by="test")).secret
        headers = {
            "Authorization": f"Bearer {secret}",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        }
        transport = httpx.ASGITransport(create_api(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            answer = await client.post("/api/tasks", json={"task_type": "report", "key": "ada", "payload": {"n": 1}})
            assert answer.status_code == 201, answer.text
            assert (await client.get("/api/tasks")).status_code == 200
        assert await app.run_until_idle() == 1
    provider.shutdown()

    asked = only(received, "POST")
    assert (asked.trace_id, asked.parent_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert asked.attributes == {"http.request.method": "POST", "http.response.status_code": "201"}
    scheduled = only(received, "schedule report")
    assert (scheduled.trace_id, scheduled.parent_id) == (asked.trace_id, asked.span_id)
    assert only(received, "run report").links == (scheduled.at,)
    assert not received.named("GET"), "who only looks makes nothing"


async def test_what_was_made_without_a_trace_is_linked_to_nothing() -> None:
    app, spans = Rota("memory://"), InMemorySpanExporter()

    @app.task
    async def report() -> None: ...

    async with app:
        await report.schedule()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        trace(app, provider)
        await app.run_until_idle()
    (run,) = [span for span in spans.get_finished_spans() if span.name == "run report"]
    assert not run.links


async def test_a_maker_that_is_not_sampled_is_linked_all_the_same() -> None:
    """Whoever keeps the trace elsewhere finds it by its id; the flag says that it was not recorded here."""
    app = Rota("memory://")

    @app.task
    async def report() -> None: ...

    trace(app, TracerProvider(sampler=ALWAYS_OFF))
    async with app:
        await report.schedule(key="k")
        (task,) = await (await app.store()).get([Identity("report", "k")])
    assert task is not None
    made_in = context_of(task.trace)
    assert made_in is not None
    assert not made_in.trace_flags.sampled


@pytest.mark.parametrize(
    "text",
    [None, "", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7-01"],
)
def test_what_is_no_context_is_none(text: str | None) -> None:
    assert context_of(text) is None


def test_a_context_is_written_and_read() -> None:
    text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    context = context_of(text)
    assert context is not None
    assert traceparent_of(context) == text
