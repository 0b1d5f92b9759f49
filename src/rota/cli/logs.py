"""Log lines are no answer: they go to stderr, as text for people or as JSON for programs."""

from __future__ import annotations

import logging
import os
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from rota.masking import masker
from rota.runtime.capture import from_info_on

__all__ = ["log_to_stderr"]


def log_to_stderr(level: int = logging.INFO, *, as_json: bool) -> None:
    """Send what Rota logs to stderr, from this level on; ROTA_DEBUG shows everything."""
    shown = logging.DEBUG if os.environ.get("ROTA_DEBUG") else level
    from_info_on()
    structlog.configure(
        processors=_processors(as_json=as_json),
        wrapper_class=structlog.make_filtering_bound_logger(shown),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _processors(*, as_json: bool) -> list[Processor]:
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        # A person has no use for the microseconds, and the line is long enough.
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%Y-%m-%dT%H:%M:%SZ", utc=True),
    ]
    # A traceback is a text before it is written: plain, without a handler's local variables, and with secrets hidden.
    processors += [structlog.processors.format_exc_info, _without_secrets]
    if as_json:
        return [*processors, structlog.processors.JSONRenderer()]
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [*processors, structlog.dev.ConsoleRenderer(colors=colors)]


def _without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    hide = masker().text
    return {name: hide(value) if isinstance(value, str) else value for name, value in event.items()}
