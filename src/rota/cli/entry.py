"""Where `rota` starts, and the one place where its errors end: a message and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final, Protocol, runtime_checkable

from rota.cli.exits import ExitCode, exit_code_of
from rota.cli.garbage import without_garbage_collection
from rota.cli.output import write_json
from rota.errors import RotaError, StoreUnavailable
from rota.printable import printable_lines

__all__ = ["main"]

_DEBUG: Final = "ROTA_DEBUG"


@runtime_checkable
class _UsageError(Protocol):
    """What Typer raises for a wrong option or value. Its class is private there, its shape is not."""

    exit_code: int

    def format_message(self) -> str: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. `arguments` None takes those of the process."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _never_fail_to_print()
    try:
        return _run(given)
    except KeyboardInterrupt:
        return _report(given, "interrupted", "Interrupted.", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        return _reader_gone()
    except StoreUnavailable as error:
        return _report(given, error.code, _with_a_way_on(given, error), exit_code_of(error))
    except RotaError as error:
        return _report(given, error.code, str(error), exit_code_of(error))
    except Exception as error:
        return _surprise(given, error)


def _run(given: list[str]) -> int:
    # Here, so that Ctrl-C during the imports is met by `main` too.
    with without_garbage_collection():
        from rota.cli.root import root

    try:
        outcome: object = root(given, prog_name="rota", standalone_mode=False)
    except Exception as error:
        if isinstance(error, _UsageError):
            return _wrong_usage(given, error)
        if type(error).__name__ == "Abort":  # a question answered by Ctrl-C or by the end of the input
            return _report(given, "interrupted", "Stopped; nothing was changed.", ExitCode.INTERRUPTED)
        raise
    if outcome == ExitCode.INTERRUPTED:
        return _report(given, "interrupted", "Interrupted.", ExitCode.INTERRUPTED)
    return outcome if isinstance(outcome, int) else ExitCode.OK


def _wrong_usage(given: list[str], error: _UsageError) -> int:
    message = error.format_message().strip()
    if not message or type(error).__name__ == "NoArgsIsHelpError":
        # A group without a command: the message is the group's help.
        sys.stderr.write(f"{message}\n" if message else "")
        return ExitCode.BAD_INPUT
    context: object = getattr(error, "ctx", None)
    path: object = getattr(context, "command_path", "rota")
    sentence = message if message.endswith((".", "?")) else f"{message}."
    return _report(given, "usage", f"{sentence} See '{path} --help'.", ExitCode.BAD_INPUT)


def _with_a_way_on(given: list[str], error: StoreUnavailable) -> str:
    """The driver says what is wrong, and not what to do about it."""
    message = str(error).rstrip()
    sentence = message if message.endswith((".", "?", "!")) else f"{message}."
    return sentence if "doctor" in given else f"{sentence} Is it there, and may it be used? `rota doctor` looks closer."


def _surprise(given: list[str], error: Exception) -> int:
    if os.environ.get(_DEBUG):
        traceback.print_exc()
    name = type(error).__name__
    first_line = str(error).strip().partition("\n")[0]
    hint = "" if os.environ.get(_DEBUG) else f" Set {_DEBUG}=1 to see the traceback."
    return _report(given, "unexpected", f"Unexpected {name}: {first_line}.{hint}", ExitCode.FAILED)


def _report(given: list[str], code: str, message: str, exit_code: ExitCode) -> int:
    if "--json" in given:
        write_json({"error": {"code": code, "message": message}}, sys.stderr)
    else:
        # Drivers indent with tabs; that is no control character worth spelling out.
        sys.stderr.write(f"error: {printable_lines(message.expandtabs(2))}\n")
    return exit_code


def _reader_gone() -> int:
    # Whoever read our output has left (`| head`); the interpreter would complain about it once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.FAILED


def _never_fail_to_print() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
