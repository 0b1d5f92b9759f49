"""A payload on the command line: JSON itself, a file of it, or stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rota.errors import InvalidInput
from rota.stores.base import MAX_PAYLOAD_BYTES

__all__ = ["PayloadOption", "read_payload"]

PayloadOption = Annotated[
    str | None, typer.Option("--payload", metavar="JSON|@FILE|-", help="JSON, a file of it, or - for stdin.")
]


def read_payload(given: str | None) -> object:
    """What `--payload` says; None without one."""
    if given is None:
        return None
    text, where = _text_of(given)
    try:
        content: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The payload ({where}) is no JSON: {error}. Write e.g. --payload '{{\"n\": 1}}'.") from None
    return content


def _refuse(constant: str) -> object:
    # Python reads NaN and Infinity, which are no JSON.
    raise ValueError(f"it has no word like {constant}")


def _text_of(given: str) -> tuple[str, str]:
    if given != "-" and not given.startswith("@"):
        return given, "--payload"
    where = "stdin" if given == "-" else given[1:]
    try:
        # One byte more than is allowed is enough to be refused, whatever the size of the file.
        if given == "-":
            data = sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
        else:
            with Path(where).open("rb") as file:
                data = file.read(MAX_PAYLOAD_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidInput(f"The payload cannot be read from {where!r}: {error.strerror}. Check the path.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"The payload in {where!r} is no UTF-8 text. Save it as UTF-8 JSON.") from None
    if len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(f"The payload in {where!r} is over {MAX_PAYLOAD_BYTES:,} bytes. Pass a reference instead.")
    return text, where
