"""Callers go away in the middle of a call. Nobody may get the reply that was meant for somebody else.

A client that gives up reading leaves its connection one reply behind; the next caller on it reads the wrong answer, and
so do all after it. So a call is never cancelled on the wire, whatever happens to whoever made it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest

from rota.core.task import Identity, NewTask
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import StoreUnavailable
from rota.stores import open_store
from rota.stores.base import Store
from rota.testing.proxy import Proxy
from rota.testing.redis_servers import HOST, RedisServer

CALLS = 10_000
AT_ONCE = 200
PAGE = 50
KEYS = [f"k{number:03}" for number in range(AT_ONCE)]


async def _read(store: Store, key: str) -> None:
    task = (await store.get([Identity("work", key)]))[0]
    assert task is not None
    assert task.payload == key == task.key, f"asked for {key}, got the reply about {task.key}"


async def _write(store: Store, key: str) -> None:
    task = (await store.schedule([NewTask(task_type="work", key=key)]))[0].task
    assert task is not None
    assert task.payload == key == task.key, f"scheduled {key}, got the reply about {task.key}"


async def _count(store: Store, key: str) -> None:
    counts = (await store.counts())["work"]
    assert (counts.pending, counts.running) == (len(KEYS), 0), f"asked for counts beside {key}, got {counts}"


async def _storm(store: Store, luck: random.Random) -> int:
    """One call per key, nearly all of them cancelled at a random moment; how many were."""
    tasks = [asyncio.create_task(luck.choice((_read, _write, _count))(store, key)) for key in KEYS]
    loop = asyncio.get_running_loop()
    for task in tasks:
        if luck.random() < 0.97:
            loop.call_later(luck.random() * 0.12, task.cancel)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    for answer in answers:
        # That the store did not answer in time is an answer, too, on a machine that is busy; a wrong one never is.
        if isinstance(answer, Exception) and not isinstance(answer, StoreUnavailable):
            raise answer
    return sum(isinstance(answer, asyncio.CancelledError) for answer in answers)


async def _all(store: Store) -> None:
    """Every key by every call, a page at a time: all at once would be more than a slow line answers in 5 s."""
    for start in range(0, len(KEYS), PAGE):
        for call in (_read, _write, _count):
            await asyncio.gather(*(_answered(call, store, key) for key in KEYS[start : start + PAGE]))


async def _answered(call: Callable[[Store, str], Awaitable[None]], store: Store, key: str) -> None:
    """An answer, and the right one: a machine that is busy may need more than one call for it."""
    for _ in range(10):
        with suppress(StoreUnavailable):
            return await call(store, key)
    return await call(store, key)


@pytest.fixture
async def slow(redis: RedisServer, redis_url: str) -> AsyncIterator[tuple[Store, Proxy]]:
    """A store with a task per key, behind a proxy that takes its time."""
    assert redis_url
    with Proxy(HOST, redis.port) as proxy:
        store = open_store(f"redis://{HOST}:{proxy.port}/0")
        await store.open()
        try:
            await store.put_types([TaskType(name="work", trigger_mode=TriggerMode.ONCE)])
            await store.schedule([NewTask(task_type="work", key=key, payload=key, scheduled_at=2**42) for key in KEYS])
            proxy.latency(0.05)
            yield store, proxy
        finally:
            proxy.normal()
            await store.close()


async def test_ten_thousand_cancelled_calls(slow: tuple[Store, Proxy]) -> None:
    store, proxy = slow
    luck = random.Random(1)
    await _all(store)
    before = proxy.open_connections
    cancelled = 0
    while cancelled < CALLS:
        cancelled += await _storm(store, luck)
    await _all(store)
    assert proxy.open_connections <= before + 1, "the pool must not grow by what was cancelled"
