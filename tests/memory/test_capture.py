"""Capturing: what is taken, what is refused, and that nobody waits for the scheduler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rota import Rota
from rota.database import Database
from rota.errors import InvalidInput, StoreUnavailable
from rota.memory import (
    ChatMessagePush,
    ChatPush,
    DocumentPush,
    HashingEmbedder,
    Kind,
    Memory,
    MemorySettings,
    Message,
    Scope,
    ScreenshotPush,
    install_memory,
)
from rota.memory.pushes import parse
from rota.memory.vectors import Vectors
from rota.stores.redis.store import RedisStore
from rota.testing import FakeClock
from rota.testing.redis_servers import RedisServer
from rota.testing.waiting import PATIENCE, until


class Scheduler:
    """Takes notes of touches, and can be made to hang or to fail."""

    def __init__(self) -> None:
        self.touched: list[tuple[str, ...]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None

    async def touch(self, *call: str) -> None:
        self.touched.append(call)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error


@pytest.fixture
async def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def memory(sqlite: Database, scheduler: Scheduler) -> Memory:
    return memory_on(sqlite, scheduler)


def memory_on(database: Database, scheduler: Scheduler, **settings: Any) -> Memory:
    async def given() -> Database:
        return database

    return Memory(given, scheduler.touch, lambda: ["one", "two"], settings=MemorySettings(**settings))


async def test_a_chat_is_kept_and_every_type_is_touched(memory: Memory, scheduler: Scheduler) -> None:
    push = ChatPush(messages=[Message(content="Hi."), Message(content="Hello!", role="assistant")], user_id="u1")
    answer = await memory.push(push)
    await memory.drain()
    assert answer.success
    assert answer.data.message_count == 2
    assert scheduler.touched == [("one", "u1", "default", "default"), ("two", "u1", "default", "default")]
    page = await (await memory.contexts()).page(Scope("u1"))
    assert [(one.text, one.details["role"], one.kind) for one in page.contexts] == [
        ("Hello!", "assistant", Kind.CHAT),
        ("Hi.", "user", Kind.CHAT),
    ]
    assert {one.batch_id for one in page.contexts} == {answer.data.batch_id}


async def test_the_answer_to_a_message(memory: Memory) -> None:
    answer = await memory.push_message(ChatMessagePush(content="Hi.", user_id="u1", device_id="phone"))
    assert answer.model_dump()["status"] == "success"
    found = await (await memory.contexts()).get("u1", answer.context_id)
    assert found is not None
    assert found.owner.device_id == "phone"
    await memory.drain()


async def test_screenshots_and_documents(memory: Memory) -> None:
    await memory.push(ScreenshotPush(text="Inbox (3)", window="Mail", app="Firefox", user_id="u1"))
    await memory.push(DocumentPush(text="Chapter one.", title="A book", url="https://example.org", user_id="u1"))
    await memory.drain()
    book, screen = (await (await memory.contexts()).page(Scope("u1"))).contexts
    assert (book.kind, book.title, book.details) == (Kind.DOCUMENT, "A book", {"url": "https://example.org"})
    assert (screen.kind, screen.title, screen.details) == (
        Kind.SCREENSHOT,
        "Mail",
        {"window": "Mail", "app": "Firefox"},
    )


async def test_the_answer_does_not_wait_for_the_scheduler(memory: Memory, scheduler: Scheduler) -> None:
    scheduler.may_answer.clear()
    async with asyncio.timeout(PATIENCE):
        for _ in range(20):
            await memory.push(ChatPush(messages=[Message(content="Hi.")], user_id="u1"))
    assert len(scheduler.touched) <= 2
    scheduler.may_answer.set()
    await memory.drain()
    # Those who came while the first touches were out are touched once, together.
    assert len(scheduler.touched) == 4


async def test_a_scheduler_that_is_away_loses_no_context(memory: Memory, scheduler: Scheduler) -> None:
    scheduler.error = StoreUnavailable("gone")
    answer = await memory.push(ChatPush(messages=[Message(content="Hi.")], user_id="u1"))
    await memory.drain()
    assert await (await memory.contexts()).get("u1", answer.data.context_ids[0]) is not None


async def test_without_a_user_it_is_the_default_one_or_refused(sqlite: Database, scheduler: Scheduler) -> None:
    push = ChatPush(messages=[Message(content="Hi.")])
    taken = memory_on(sqlite, scheduler)
    await taken.push(push)
    await taken.drain()
    assert len((await (await taken.contexts()).page(Scope("default"))).contexts) == 1
    with pytest.raises(InvalidInput, match=r"memory\.anonymous"):
        await memory_on(sqlite, scheduler, anonymous="reject").push(push)


@pytest.mark.parametrize("user_id", ["__base__", "____", "__x__"])
async def test_reserved_ids_are_refused(memory: Memory, user_id: str) -> None:
    with pytest.raises(InvalidInput, match="reserved"):
        await memory.push(ChatPush(messages=[Message(content="Hi.")], user_id=user_id))


@pytest.mark.parametrize(
    ("shape", "data", "said"),
    [
        (ChatPush, {"messages": []}, "messages"),
        (ChatPush, {"messages": [{"content": "x"}] * 101}, "messages"),
        (ChatPush, {"messages": [{"content": ""}]}, r"messages\.0\.content"),
        (ChatPush, {"messages": [{"content": "x" * 100_001}]}, r"messages\.0\.content"),
        (ChatPush, {"messages": [{"content": "x", "importance": 11}]}, "importance"),
        (ChatPush, {"messages": [{"content": "x"}], "user_id": "u" * 256}, "user_id"),
        (ChatPush, {"messages": [{"content": "x"}], "device_id": "d" * 101}, "device_id"),
        (ChatMessagePush, {"user_id": "u1"}, "content"),
        (ScreenshotPush, {}, "text"),
        (DocumentPush, {"text": "x", "title": "t" * 501}, "title"),
    ],
)
def test_what_cannot_be_taken_is_said(shape: type[BaseModel], data: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse(shape, data)


async def test_text_that_no_database_keeps_is_refused(memory: Memory) -> None:
    for text in ("a\0b", "\ud800", "   "):
        with pytest.raises(InvalidInput):
            await memory.push(ChatPush(messages=[Message.model_construct(content=text)], user_id="u1"))


@pytest.mark.parametrize("timestamp", [0, "1970-01-01T00:00:00Z", "1969-07-20T20:17:00Z"])
async def test_what_happened_long_ago_stays_there(memory: Memory, timestamp: object) -> None:
    push = parse(ChatMessagePush, {"user_id": "u1", "content": "One small step.", "timestamp": timestamp})
    found = await (await memory.contexts()).get("u1", (await memory.push_message(push)).context_id)
    assert found is not None
    assert found.created_at == (-14_182_980_000 if "1969" in str(timestamp) else 0)
    await memory.drain()


async def test_a_long_text_does_not_hold_the_event_loop(memory: Memory) -> None:
    """It is embedded in a thread: meanwhile others get their turn."""
    loop_thread, seen = threading.get_ident(), list[int]()
    embed = memory.embedder.embed

    class Watched(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            seen.append(threading.get_ident())
            return embed(texts)

    memory.embedder = Watched()
    for text in ("Short.", "word " * 20_000):
        await memory.push_message(ChatMessagePush(user_id="u1", content=text))
    await memory.drain()
    assert [one == loop_thread for one in seen] == [True, False]


async def test_while_redis_is_down_pushes_are_taken_and_run_afterwards(
    own_redis: RedisServer, tmp_path: Path, clock: FakeClock
) -> None:
    """`python -m bench.memory` measures how long they take; here they must be taken, and run when it is back."""
    configuration = {"spool": str(tmp_path / "spool.db"), "database": f"sqlite:///{tmp_path}/rota.db"}
    app = Rota(configuration, store=RedisStore(own_redis.url, clock=clock), clock=clock)
    memory = install_memory(app)
    async with app:
        await app.run_until_idle()
        await asyncio.to_thread(own_redis.stop)
        for user in range(20):
            await memory.push(ChatPush(messages=[Message(content="Hi there.")], user_id=f"u{user}"))
        await memory.drain()
        assert app.health().spooled == 20
        await asyncio.to_thread(own_redis.start)
        await until(lambda: not app.health().spooled)
        for _ in range(2):
            clock.advance("31m")
            await app.run_until_idle()
        contexts = await memory.contexts()
        for user in range(20):
            assert [one.state for one in (await contexts.page(Scope(f"u{user}"))).contexts] == ["kept"]
