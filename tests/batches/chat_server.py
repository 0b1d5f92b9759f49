"""A model for tests: a real server on loopback that speaks the OpenAI chat protocol and answers as it is told.

    with ChatServer() as server:
        server.then(throttled(7), fails(500))          # the next two calls
        server.usual = items()                         # and all that follow
        client = ChatClient(server.url, "small")
        ...
        assert [call.asked for call in server.calls] == [8, 20, 20]

A reply is a `Reply`, or a function from the `Call` to one. `items()` makes as many items as the call asks for, with
names that no other call gets. `hold()` keeps every answer back until `release()`, so that a test can look at what is
under way. The server has a thread and an event loop of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

__all__ = [
    "Call",
    "ChatServer",
    "Reply",
    "after",
    "fails",
    "items",
    "never",
    "no_json",
    "prose",
    "says",
    "throttled",
    "unique_name",
]


@dataclass
class Call:
    """One question, as it came in."""

    number: int
    """0 for the first."""
    headers: dict[str, str]
    body: dict[str, Any]
    path: str
    started_at: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    """None until it is answered, and for ever if the caller went away."""

    @property
    def asked(self) -> int:
        """How many items it asks for; 0 if it asks for something else."""
        return int(self.request.get("count", 0))

    @property
    def request(self) -> dict[str, Any]:
        """What the generators' prompt holds; {} if it is another prompt."""
        try:
            said = json.loads(self.body["messages"][1]["content"])
        except (LookupError, ValueError):
            return {}
        return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


@dataclass(frozen=True)
class Reply:
    """An answer of the server, or none."""

    status: int = 200
    body: bytes = b""
    headers: tuple[str, ...] = ()
    seconds: float = 0.0
    """How long it takes."""
    never: bool = False


Replies = Reply | Callable[[Call], Reply]


def says(text: str, *, finish_reason: str = "stop", tokens_in: int = 100, tokens_out: int | None = None) -> Reply:
    """The model says this."""
    counted = {"prompt_tokens": tokens_in, "completion_tokens": len(text) // 4 if tokens_out is None else tokens_out}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return Reply(body=json.dumps({"object": "chat.completion", "choices": [choice], "usage": counted}).encode())


def items(how_many: int | None = None, names: Callable[[int], str] | None = None) -> Replies:
    """Good items: as many as asked for, or so many. `names` makes them from numbers that never come twice."""
    numbers = count()
    name_of = names or unique_name

    def reply(call: Call) -> Reply:
        made = [name_of(next(numbers)) for _ in range(call.asked if how_many is None else how_many)]
        return says(json.dumps({"items": [{"name": name, "description": f"{name} is one."} for name in made]}))

    return reply


def throttled(retry_after: int | str | None = None) -> Reply:
    headers = () if retry_after is None else (f"Retry-After: {retry_after}",)
    return fails(429, "Too many requests.", *headers)


def fails(status: int, message: str = "No.", *headers: str) -> Reply:
    return Reply(status, json.dumps({"error": {"message": message, "type": "error"}}).encode(), headers)


def never() -> Reply:
    """No answer at all, until the caller has had enough."""
    return Reply(never=True)


def no_json() -> Reply:
    """What a model sends that was cut off."""
    return says('{"items": [{"name": "Ada", "descr', finish_reason="length")


def prose() -> Reply:
    return says("Certainly! I would call them Ada, Grace and Barbara.")


def after(seconds: float, then: Replies) -> Replies:
    """The same, but slowly."""

    def reply(call: Call) -> Reply:
        return replace(then(call) if callable(then) else then, seconds=seconds)

    return reply


def unique_name(number: int) -> str:
    """A name for a number, unlike that of any other."""
    digest = hashlib.sha256(str(number).encode()).digest()
    syllables = ["bcdfghklmnprstvz"[byte % 16] + "aeiou"[byte // 16 % 5] for byte in digest[:7]]
    return f"{''.join(syllables[:3])} {''.join(syllables[3:])}".title()


class ChatServer:
    """`with ChatServer() as server`; see the module."""

    def __init__(self) -> None:
        self.usual: Replies = items()
        self.calls: list[Call] = []
        self.most_parallel = 0
        self.connections = 0
        """How many were ever made."""
        self._next: deque[Replies] = deque()
        self._parallel = 0
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat server", daemon=True)
        self._free = asyncio.Event()
        self._free.set()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The base URL, for an `OPENAI_BASE_URL`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def parallel(self) -> int:
        """How many calls are under way now."""
        return self._parallel

    def then(self, *replies: Replies) -> None:
        """Answer the next calls so, one after the other, before what is usual."""
        self._next.extend(replies)

    def hold(self) -> None:
        """Keep all answers back."""
        self._loop.call_soon_threadsafe(self._free.clear)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._free.set)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = self._loop.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All calls of one connection."""
        try:
            while True:
                call = await self._received(reader)
                self._parallel += 1
                self.most_parallel = max(self.most_parallel, self._parallel)
                try:
                    await self._answer(call, reader, writer)
                finally:
                    self._parallel -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _received(self, reader: asyncio.StreamReader) -> Call:
        head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        call = Call(len(self.calls), headers, json.loads(body or b"{}"), head.split(" ")[1])
        self.calls.append(call)
        return call

    async def _answer(self, call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies = self._next.popleft() if self._next else self.usual
        reply = replies(call) if callable(replies) else replies
        await self._free.wait()
        if reply.never or reply.seconds:
            await _wait(reader, None if reply.never else reply.seconds)
        lines = [f"HTTP/1.1 {reply.status} X", f"Content-Length: {len(reply.body)}", *reply.headers, "", ""]
        writer.write("\r\n".join(lines).encode() + reply.body)
        await writer.drain()
        call.ended_at = time.monotonic()


async def _wait(reader: asyncio.StreamReader, seconds: float | None) -> None:
    """So long, unless the caller goes away before."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
    except TimeoutError:
        return
    raise ConnectionResetError
