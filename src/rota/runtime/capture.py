"""Hears what handlers log and print, and gives each line to the run that it came from.

Which run that is, the context knows: it is set when a handler is called, and goes along into threads and tasks that the
handler starts. What comes from elsewhere is passed on and forgotten. Nothing is taken away from anybody: lines go where
they went before.

It listens while a worker is at work in this process, and once however many those are.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol, TextIO, cast

__all__ = ["RunOfLines", "entered", "keep_event", "listen", "stop_listening"]


class RunOfLines(Protocol):
    """Whoever keeps the lines of one run."""

    def keep_line(self, text: str, level: str, logger: str = "") -> None: ...


_run: ContextVar[RunOfLines | None] = ContextVar("rota_run", default=None)


def entered(run: RunOfLines) -> None:
    """From here on, in this context, lines belong to this run."""
    _run.set(run)


# --- logging ----------------------------------------------------------------------------------------------------------


class _Lines(logging.Handler):
    """On the root logger: it sees whatever is logged and passes the levels that are set."""

    def emit(self, record: logging.LogRecord) -> None:
        run = _run.get()
        if run is not None and not _is_own(record.name):
            run.keep_line(_text_of(record), record.levelname.lower(), record.name)
        if record.levelno >= logging.WARNING and len(logging.root.handlers) == 1 and logging.lastResort is not None:
            # Without us nobody would be there, and the library's last resort would print it.
            logging.lastResort.handle(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """A line that cannot be kept is nobody's trouble."""


def _is_own(name: str) -> bool:
    """What Rota itself says of a run stands in its record."""
    return name == "rota" or name.startswith("rota.")


_plain: Final = logging.Formatter()


def _text_of(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # arguments that do not fit their text: logging itself reports that
        text = f"{record.msg} {record.args}"
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text}\n{_plain.formatException(record.exc_info)}"
    return text


def keep_event(_logger: object, method: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """A processor of structlog: keeps the event if it is a run's, and hands it on as it is."""
    run = _run.get()
    if run is not None:
        said = " ".join(f"{key}={value!r}" for key, value in event.items() if key not in _TAKEN)
        run.keep_line(f"{event.get('event', '')} {said}".strip(), str(event.get("level", method)))
    return event


_TAKEN: Final = frozenset({"event", "level", "timestamp", "exc_info", "exception"})


# --- prints -----------------------------------------------------------------------------------------------------------


class _Tee:
    """Stands where a standard stream stood: everything goes there, and a run's own lines are kept, too."""

    def __init__(self, stream: TextIO, level: str) -> None:
        self.stream = stream
        self._level = level
        self._part: ContextVar[str] = ContextVar(f"rota_{level}", default="")

    def write(self, text: str) -> int:
        run = _run.get()
        if run is not None:
            *whole, rest = (self._part.get() + text).split("\n")
            self._part.set(rest[-10_000:])
            for line in whole:
                if line.strip():
                    run.keep_line(line, self._level)
        return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


# --- listening --------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_listeners = 0
_handler = _Lines(logging.NOTSET)


def listen() -> None:
    """Hear this process's lines from now on."""
    global _listeners
    with _lock:
        _listeners += 1
        if _handler not in logging.root.handlers:
            logging.root.addHandler(_handler)
        # A process without a terminal may have none.
        if sys.stdout and not isinstance(sys.stdout, _Tee):
            sys.stdout = cast("TextIO", _Tee(sys.stdout, "print"))
        if sys.stderr and not isinstance(sys.stderr, _Tee):
            sys.stderr = cast("TextIO", _Tee(sys.stderr, "stderr"))


def stop_listening() -> None:
    """The last one who listened puts everything back, unless somebody else stands there by now."""
    global _listeners
    with _lock:
        _listeners -= 1
        if _listeners > 0:
            return
        logging.root.removeHandler(_handler)
        if isinstance(sys.stdout, _Tee):
            sys.stdout = sys.stdout.stream
        if isinstance(sys.stderr, _Tee):
            sys.stderr = sys.stderr.stream
