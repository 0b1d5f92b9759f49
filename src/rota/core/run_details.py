"""What a run leaves beside its record: the traceback, its log lines and prints, its progress, its steps.

A run that leaves nothing has none, and costs nothing. They are kept under the run's token, so they can be written while
it runs, and found when it was lost. Times are counted from the handler's start, by the clock of its own process: they
need no clock that agrees with the store's.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rota.clock import Millis
from rota.codec import warmed

__all__ = [
    "NO_DETAILS",
    "Line",
    "Progress",
    "RunDetails",
    "Step",
    "decode_details",
    "encode_details",
]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line that was logged or printed."""

    at_ms: Millis
    text: str
    level: str = "print"
    """debug, info, warning, error, critical; print and stderr for what was written there."""
    logger: str = ""


class Progress(msgspec.Struct, frozen=True):
    """One report of progress, as JSON."""

    at_ms: Millis
    value: str


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named part of a run."""

    name: str
    from_ms: Millis
    to_ms: Millis | None = None
    """None: it had not ended."""
    error: str | None = None


class RunDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a run has left so far."""

    host: str = ""
    pid: int = 0
    waited_ms: Millis = 0
    """From the claim to the handler's start."""
    exception: str | None = None
    """The class of what was raised."""
    place: str | None = None
    """Where in the program, as people say it."""
    traceback: str | None = None
    lines: tuple[Line, ...] = ()
    lines_left_out: int = 0
    """Lines between the first and the last ones: there is a limit on what is kept."""
    progress: tuple[Progress, ...] = ()
    progress_left_out: int = 0
    steps: tuple[Step, ...] = ()
    payload: str | None = None
    """What the run was given, with secrets hidden; None if it is not kept here."""


NO_DETAILS: Final = RunDetails()

decode_details = warmed(
    msgspec.json.Decoder(RunDetails),
    '{"lines":[{"at_ms":0,"text":""}],"progress":[{"at_ms":0,"value":""}],"steps":[{"name":"","from_ms":0}]}',
).decode


def encode_details(details: RunDetails) -> str:
    """As it is kept."""
    return msgspec.json.encode(details).decode()
