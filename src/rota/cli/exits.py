"""Exit codes: what a shell script may switch on."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from rota.errors import (
    CountChanged,
    IllegalTransition,
    InvalidInput,
    LeaseLost,
    NotAllowed,
    RotaError,
    RunnerUnavailable,
    StoreError,
)

__all__ = ["EPILOGUE", "ExitCode", "exit_code_of"]


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    STORE_UNAVAILABLE = 3
    REFUSED = 4
    INCOMPLETE = 5
    INTERRUPTED = 130


EPILOGUE: Final = "\n\n".join(
    (
        "[bold]Exit codes[/bold]",
        "  0  done; a service or worker that was asked to stop has stopped",
        "  1  something unexpected, a fault that `doctor` found, a sink that is not reached, a reader that has gone",
        "  2  bad input: a wrong option, value or setting, an unknown type, task, run, group or token, a taken port",
        "  3  the store cannot be reached or used",
        "  4  refused: something is in a state that does not allow it, or you may not do this",
        "  5  less than was asked for: a batch that is short, failed or cancelled; a drain that takes too long",
        "130  interrupted by Ctrl-C",
        "Errors go to stderr; with --json as an object with error.code and error.message.",
        "NO_COLOR is honoured. ROTA_DEBUG=1 shows the traceback of an unexpected error.",
    )
)

_CODES: Final[tuple[tuple[ExitCode, tuple[type[Exception], ...]], ...]] = (
    # Whatever is unknown is a LookupError.
    (ExitCode.BAD_INPUT, (InvalidInput, LookupError, RunnerUnavailable)),
    (ExitCode.STORE_UNAVAILABLE, (StoreError,)),
    (ExitCode.REFUSED, (IllegalTransition, CountChanged, LeaseLost, NotAllowed)),
)


_REFUSALS: Final = frozenset({409, 429, 503})
"""What an error of a part would be answered with over HTTP, if it says that nothing is wrong but the moment."""


def exit_code_of(error: RotaError) -> ExitCode:
    """The code that belongs to an error of Rota."""
    usual = ExitCode.REFUSED if error.status in _REFUSALS else ExitCode.FAILED
    return next((code for code, kinds in _CODES if isinstance(error, kinds)), usual)
