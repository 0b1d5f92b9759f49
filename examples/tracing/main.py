"""From a request to its runs: spans by OpenTelemetry, the run linked to the call that has made its task.

pip install 'rota[otel]' opentelemetry-sdk
python examples/tracing/main.py

It prints every trace with its spans. With the exporter for OTLP installed and OTEL_EXPORTER_OTLP_ENDPOINT set, they go
to your collector, too.
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rota import Retry, Rota, Run
from rota.telemetry import trace

app = Rota("memory://")
tracer = otel.get_tracer("shop")


@app.task(max_retries=3)
async def charge_card(payload: str, run: Run) -> str:
    with tracer.start_as_current_span("ask the bank"):
        if run.attempt == 1:
            raise Retry(after="0s", reason="the bank does not answer the first time")
        return f"charged {payload}"


@app.after("charge_card")
async def send_receipt() -> str:
    return "sent"


async def main() -> None:
    provider, seen = set_up()
    trace(app)
    async with app:
        with tracer.start_as_current_span("POST /orders"):
            await charge_card.schedule("order 1", key="order-1")
        await app.run_until_idle()
    provider.force_flush()
    show(seen.get_finished_spans())


def set_up() -> tuple[TracerProvider, InMemorySpanExporter]:
    """Where spans go: into this program's memory, to be printed; and to a collector, if one is named."""
    provider, seen = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(seen))
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    otel.set_tracer_provider(provider)
    return provider, seen


def show(spans: Iterable[ReadableSpan]) -> None:
    """Trace by trace, each span below its parent, with what it is linked to."""
    in_order = sorted(spans, key=lambda span: span.end_time or 0)
    names = {span.context.span_id: span.name for span in in_order if span.context is not None}
    for root in (span for span in in_order if span.parent is None):
        assert root.context is not None
        print(f"\ntrace {root.context.trace_id:032x}"[:14])
        show_below(root, in_order, names, depth=1)


def show_below(span: ReadableSpan, spans: list[ReadableSpan], names: dict[int, str], depth: int) -> None:
    assert span.context is not None
    said = dict(span.attributes or {})
    words = [str(said[name]) for name in ("rota.outcome", "rota.run.outcome") if name in said]
    links = [f"<- {names[link.context.span_id]}" for link in span.links]
    print("  " * depth + "  ".join([span.name, *words, *links]))
    below = [child for child in spans if child.parent is not None and child.parent.span_id == span.context.span_id]
    for child in sorted(below, key=lambda child: child.name == "settle"):  # measured by a coarser clock
        show_below(child, spans, names, depth + 1)


if __name__ == "__main__":
    asyncio.run(main())
