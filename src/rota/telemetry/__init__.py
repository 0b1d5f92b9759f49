"""What leaves a process for those who watch it: metrics for Prometheus, spans for OpenTelemetry."""

from rota.telemetry.metrics import Metrics
from rota.telemetry.tracing import trace, trace_if_configured

__all__ = ["Metrics", "trace", "trace_if_configured"]
