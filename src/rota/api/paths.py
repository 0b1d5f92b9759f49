"""A task's key as one segment of a URL.

A key may hold any character, "/" and "%" included. Percent-encoded, each is one segment; but servers hand on the
decoded path, in which an encoded slash looks like any other. So the guard decodes each segment by itself and marks the
slashes within it by a character that no key contains, and `KeyInPath` turns the marks back.

"." and ".." are legal keys, but URLs resolve them even when they are encoded. They are written with a "~" before them;
so are keys that look like that.
"""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import quote, unquote_to_bytes

from fastapi import Path
from pydantic import AfterValidator, JsonValue

from rota.api.problems import Refused

__all__ = ["KeyInPath", "TypeInPath", "UserInPath", "key_of", "marked_path", "quote_key"]

MARK: Final = "\0"
"""Stands for a slash within a segment."""

_NO_NUL: dict[str, JsonValue] = {"pattern": r"^[^\x00]*$"}
"""Said, but not checked here: the guard has refused a NUL, and what is one here is a mark."""
_DOTS = re.compile(r"~*\.{1,2}")


def quote_key(key: str) -> str:
    """A key as a segment of a URL."""
    return quote(f"~{key}" if _DOTS.fullmatch(key) else key, safe="")


def marked_path(raw: bytes) -> str:
    """The decoded path, with the slashes that were encoded marked."""
    return "/".join(_segment(part) for part in raw.split(b"/"))


def _segment(part: bytes) -> str:
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refused(400, "invalid_path", "The path is no UTF-8. Percent-encode the key as UTF-8.") from None
    if MARK in text:
        raise Refused(400, "invalid_path", "The path contains a NUL character, which no key does. Remove it.")
    return text.replace("/", MARK)


def key_of(segment: str) -> str:
    """The key that a marked segment stands for."""
    key = segment.replace(MARK, "/")
    return key[1:] if key.startswith("~") and _DOTS.fullmatch(key) else key


KeyInPath = Annotated[
    str,
    Path(
        description='The key, percent-encoded. The global key is "global". The keys "." and ".." are "~." and "~..".',
        min_length=1,
        max_length=2_400,
        json_schema_extra=_NO_NUL,
        examples=["u1:phone:default"],
    ),
    AfterValidator(key_of),
]
TypeInPath = Annotated[
    str,
    Path(description="The task type.", pattern="^[a-z][a-z0-9_]*$", max_length=64, examples=["memory_compression"]),
]
UserInPath = Annotated[
    str,
    Path(description="The user id, percent-encoded.", min_length=1, max_length=255, json_schema_extra=_NO_NUL),
    AfterValidator(key_of),
]
