"""The context of a span as one text, as W3C's `traceparent` writes it: what is kept with a task."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

__all__ = ["context_of", "traceparent_of"]

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def traceparent_of(context: SpanContext) -> str | None:
    """None for a span that nobody keeps any record of: nothing can be linked to it."""
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def context_of(traceparent: str | None) -> SpanContext | None:
    """The context that such a text names; None if it names none."""
    from opentelemetry.trace import SpanContext, TraceFlags

    found = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid else None
