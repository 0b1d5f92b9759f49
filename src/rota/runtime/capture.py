"""Hears what handlers log and print, and gives each line to the run that it came from.

Which run that is, the context knows: it is set when a handler is called, and goes along into threads and tasks that the
handler starts. What comes from elsewhere is passed on and forgotten. Nothing is taken away from anybody: lines go where
they went before, and nobody's logging is set up differently.

It listens while a worker is at work in this process, and once however many those are.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

__all__ = ["LineBuffer", "RunOfLines", "entered", "from_info_on", "keep_listening", "listen", "stop_listening"]

_LONGEST_LINE: Final = 10_000


class RunOfLines(Protocol):
    """Whoever keeps the lines of one run."""

    def keep_line(self, text: str, level: str, logger: str = "") -> None: ...
    def keep_print(self, text: str, level: str) -> None: ...


_run: ContextVar[RunOfLines | None] = ContextVar("rota_run", default=None)
_logged: ContextVar[str] = ContextVar("rota_logged", default="")
"""What was logged last, until it comes by again: on its way to its end it is often logged or printed once more."""


def entered(run: RunOfLines) -> None:
    """From here on, in this context, lines belong to this run."""
    _run.set(run)


def _keep_logged(run: RunOfLines, text: str, level: str, logger: str) -> None:
    if not _was_logged(text):
        _logged.set(text[:_LONGEST_LINE])
        run.keep_line(text, level, logger)


def _was_logged(text: str) -> bool:
    """Whether this is what was logged last, coming by again: formatted, or a line of it."""
    logged = _logged.get()
    if not logged:
        return False
    first, _, rest = logged.strip().partition("\n")
    if first in text or (text.strip() and text.strip() in rest):
        return True
    _logged.set("")
    return False


# --- logging ----------------------------------------------------------------------------------------------------------

_plain: Final = logging.Formatter()
_make_record: Callable[..., logging.LogRecord] = logging.LogRecord


def _heard_record(*args: Any, **named: Any) -> logging.LogRecord:
    """Makes a record as it was made before. A handler on the root logger would be in the way of `basicConfig`."""
    record = _make_record(*args, **named)
    run = _run.get()
    # One without a name is a copy of another process's; what Rota itself says of a run stands in its record.
    if run is not None and isinstance(record.name, str) and record.name.partition(".")[0] != "rota":  # pyright: ignore[reportUnnecessaryIsInstance]  # copies have None
        _keep_logged(run, _text_of(record), record.levelname.lower(), record.name)
    return record


def _text_of(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # arguments that do not fit their text: logging itself reports that
        text = f"{record.msg} {record.args}"
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text}\n{_plain.formatException(record.exc_info)}"
    return text


def _heard_event(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """The first of structlog's processors: keeps the event if it is a run's, and hands it on as it is."""
    run = _run.get()
    if run is not None:
        said = " ".join(f"{key}={value!r}" for key, value in event.items() if key not in _NOT_SAID)
        _keep_logged(run, f"{event.get('event', '')} {said}".rstrip(), str(event.get("level", method)), "")
        # What follows has another form of the same.
        _logged.set(str(event.get("event", "")))
    return event


_NOT_SAID: Final = frozenset({"event", "level", "timestamp", "exc_info", "exception"})


def from_info_on() -> None:
    """Have lines of the level INFO made as well, unless the application has said which ones it wants."""
    if logging.root.level == logging.WARNING and not logging.root.handlers:
        logging.root.setLevel(logging.INFO)


# --- prints -----------------------------------------------------------------------------------------------------------


class LineBuffer:
    """Makes whole lines of what is written piece by piece."""

    def __init__(self) -> None:
        self.rest = ""
        """What no line end has followed yet."""

    def add(self, text: str) -> list[str]:
        *whole, rest = (self.rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.rest = rest[-_LONGEST_LINE:]
        return [line for line in whole if line.strip()]


class _Tee:
    """Stands where a standard stream stood: everything goes there, and a run's own lines are kept, too."""

    def __init__(self, stream: TextIO, level: str) -> None:
        self.stream = stream
        self._level = level

    def write(self, text: str) -> int:
        run = _run.get()
        if run is not None and not _was_logged(text):
            run.keep_print(text, self._level)
        return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


# --- listening --------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_listeners = 0


def listen() -> None:
    """Hear this process's lines from now on."""
    global _listeners, _make_record
    with _lock:
        _listeners += 1
        if _listeners > 1:
            return
        if logging.getLogRecordFactory() is not _heard_record:
            _make_record = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_heard_record)
        # A process without a terminal may have none.
        if sys.stdout:
            sys.stdout = cast("TextIO", _Tee(sys.stdout, "print"))
        if sys.stderr:
            sys.stderr = cast("TextIO", _Tee(sys.stderr, "stderr"))
    keep_listening()


def keep_listening() -> None:
    """Applications set up structlog late, and may do it again."""
    processors = cast("list[object]", structlog.get_config()["processors"])
    if _listeners > 0 and _heard_event not in processors:
        processors.insert(0, _heard_event)


def stop_listening() -> None:
    """The last one who listened puts everything back, unless somebody else stands there by now."""
    global _listeners
    with _lock:
        _listeners -= 1
        if _listeners > 0:
            return
        if logging.getLogRecordFactory() is _heard_record:
            logging.setLogRecordFactory(_make_record)
        processors = cast("list[object]", structlog.get_config()["processors"])
        if _heard_event in processors:
            processors.remove(_heard_event)
        if isinstance(sys.stdout, _Tee):
            sys.stdout = sys.stdout.stream
        if isinstance(sys.stderr, _Tee):
            sys.stderr = sys.stderr.stream
