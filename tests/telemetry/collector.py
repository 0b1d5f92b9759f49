"""A collector of OpenTelemetry: it takes OTLP over HTTP, decodes the protobuf and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

__all__ = ["Collected", "Collector", "collector"]


class Collected(NamedTuple):
    """One span as it came over the wire."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    """The trace and the span of each."""
    attributes: Mapping[str, str]

    @property
    def at(self) -> tuple[str, str]:
        return self.trace_id, self.span_id


@dataclass(frozen=True)
class Collector:
    """Where it listens, and what has come so far."""

    endpoint: str
    spans: list[Collected]

    def named(self, name: str) -> list[Collected]:
        return [span for span in self.spans.copy() if span.name == name]


@contextmanager
def collector() -> Generator[Collector]:
    """One for the length of the block."""
    spans: list[Collected] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            spans.extend(_decoded(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so it is called there
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Collector(f"http://127.0.0.1:{server.server_address[1]}", spans)
        finally:
            server.shutdown()
            thread.join()


def _decoded(body: bytes) -> list[Collected]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Collected(
            service=_said(of_process.resource.attributes).get("service.name", ""),
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
            attributes=_said(span.attributes),
        )
        for of_process in request.resource_spans
        for scope in of_process.scope_spans
        for span in scope.spans
    ]


def _said(attributes: Iterable[KeyValue]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        found[each.key] = "" if kind is None else str(getattr(each.value, kind))
    return found
