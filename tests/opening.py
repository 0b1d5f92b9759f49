"""What is opened before a test and closed after it, however the test ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

__all__ = ["opened"]


class Opens(Protocol):
    """A store or a database."""

    async def open(self) -> object: ...

    async def close(self) -> object: ...


Opened = TypeVar("Opened", bound=Opens)


@asynccontextmanager
async def opened(made: Opened) -> AsyncGenerator[Opened]:
    """`async with opened(RedisStore(url)) as store`."""
    await made.open()
    try:
        yield made
    finally:
        await made.close()
