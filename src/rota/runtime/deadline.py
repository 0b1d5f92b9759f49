"""A limit on how long anything may take to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from rota.errors import StoreUnavailable

__all__ = ["within"]

T = TypeVar("T")


async def within(seconds: float, verb: str, call: Awaitable[T]) -> T:
    """The answer of a store call. None in time is `StoreUnavailable`, like a store that cannot be reached."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise StoreUnavailable(
            f"The store did not answer {verb!r} within {seconds:g} s. It is asked again; check that it is up."
        ) from None
