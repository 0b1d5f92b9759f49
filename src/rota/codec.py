"""JSON, both ways: structs are read by decoders that are prepared at import, and only what is JSON is written.

msgspec learns a struct when it is first decoded, and publishes what it has learned before it is complete: two threads
that decode their first record at once can end the process (SIGSEGV). An import is one thread's work. So every decoder
is made, and used once, where its module is imported; nobody decodes by a bare `msgspec.json.decode(..., type=...)`.

JSON has no NaN and no infinity. msgspec writes them as null, which is something else than what was said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

__all__ = ["to_json", "warmed"]

T = TypeVar("T")


def warmed(decoder: msgspec.json.Decoder[T], *samples: str) -> msgspec.json.Decoder[T]:
    """The decoder, after it has read the samples. Making it has taught msgspec every struct within; reading proves
    that the samples are what it is for."""
    for sample in samples:
        decoder.decode(sample)
    return decoder


def to_json(value: object) -> bytes:
    """The value as JSON. TypeError, ValueError or a MsgspecError says where it holds what JSON cannot say."""
    text = msgspec.json.encode(value)
    if b"null" in text:  # so nothing is looked through that cannot hold one
        for place, number in _numbers(msgspec.to_builtins(value)):
            if not math.isfinite(number):
                raise ValueError(f"{place or 'it'} is {number}, which JSON has no word for")
    return text


def _numbers(value: object) -> Iterator[tuple[str, float]]:
    """Every float within, and where it stands. Without recursion: how deep it may be is the encoder's business."""
    left: list[tuple[str, object]] = [("", value)]
    while left:
        place, each = left.pop()
        if isinstance(each, float):
            yield place, each
        elif isinstance(each, Mapping):
            left += [(f"{place}[{key!r}]", inner) for key, inner in cast("Mapping[object, object]", each).items()]
        elif isinstance(each, Sequence) and not isinstance(each, str | bytes):
            left += [(f"{place}[{at}]", inner) for at, inner in enumerate(cast("Sequence[object]", each))]
