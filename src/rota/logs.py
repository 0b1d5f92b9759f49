"""Where Rota's own log lines go.

An application that has configured structlog gets them there, with its own processors. Any other gets them through the
standard library's `logging`, under names that begin with `rota`: a library must not print to somebody's terminal.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from rota.masking import masker

__all__ = ["get_logger"]


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger that looks where it should write whenever it writes: applications configure logging late."""
    return cast("FilteringBoundLogger", _Logger(name))


class _Logger:
    def __init__(self, name: str) -> None:
        self._name = name
        self._standard: Any = structlog.wrap_logger(
            logging.getLogger(name),
            processors=[structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _as_text],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def __getattr__(self, method: str) -> Any:
        logger = structlog.get_logger(self._name) if structlog.is_configured() else self._standard
        return getattr(logger, method)

    def is_enabled_for(self, level: int) -> bool:
        if structlog.is_configured():
            return bool(structlog.get_logger(self._name).bind().is_enabled_for(level))
        return logging.getLogger(self._name).isEnabledFor(level)


def _as_text(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """The event and its values on one line; a traceback below."""
    trace = event.pop("exception", None)
    text = " ".join([str(event.pop("event")), *(f"{key}={value}" for key, value in event.items())])
    return text if trace is None else f"{text}\n{masker().text(trace)}"
