"""Reading JSON into structs, with everything that it takes prepared at import.

msgspec learns a struct when it is first decoded, and publishes what it has learned before it is complete: two threads
that decode their first record at once can end the process (SIGSEGV). An import is one thread's work. So every decoder
is made, and used once, where its module is imported; nobody decodes by a bare `msgspec.json.decode(..., type=...)`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

__all__ = ["warmed"]

T = TypeVar("T")


def warmed(decoder: msgspec.json.Decoder[T], *samples: str) -> msgspec.json.Decoder[T]:
    """The decoder, after it has read the samples. Making it has taught msgspec every struct within; reading proves
    that the samples are what it is for."""
    for sample in samples:
        decoder.decode(sample)
    return decoder
