"""A connection as the SDK reads and writes its standard input and output: by lines of text.

One request at a time is taken from it. The SDK starts work for every message that it gets; an agent that asks without
waiting for answers would have it start without end, in Rota's memory and not in its own.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import msgspec

from rota.codec import warmed
from rota.logs import get_logger

__all__ = ["LineStream"]

LONGEST_WAIT: Final = 60.0
"""Seconds for an answer before the next request is taken all the same. Far more than any tool takes."""

_log = get_logger("rota.mcp")


class _Message(msgspec.Struct):
    """What tells a request (with an id and a method) and its answer (with an id alone) from everything else."""

    id: str | int | None = None
    method: str | None = None


_decode = warmed(msgspec.json.Decoder(_Message), "{}").decode


class LineStream:
    """Both directions of one connection."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answered = asyncio.Event()

    async def __aiter__(self) -> AsyncGenerator[str]:
        while line := await self._next():
            message = _message(line)
            self._answered.clear()
            yield line.decode("utf-8", "replace")
            if message is not None and message.id is not None and message.method is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._answered.wait(), LONGEST_WAIT)

    async def write(self, text: str) -> None:
        data = text.encode()
        self._writer.write(data)
        message = _message(data)
        if message is not None and message.method is None:
            self._answered.set()

    async def flush(self) -> None:
        # Whoever has gone hears nothing; that they have gone is found out by reading.
        with suppress(ConnectionError):
            await self._writer.drain()

    async def _next(self) -> bytes:
        try:
            return await self._reader.readline()
        except (ValueError, ConnectionError) as error:
            # A line beyond every measure, or a client that has gone: nothing that follows can be understood.
            _log.debug("conversation broken off", error=str(error))
            return b""


def _message(line: bytes) -> _Message | None:
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
