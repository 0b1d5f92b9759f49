"""Erasing one user removes all of that user and nothing of anybody else, whatever the ids and however it is cut up."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.core.task import Activity, Identity, Settlement, Transition
from rota.core.task_type import TaskType
from rota.keys import UserKeyBuilder
from rota.stores.base import ClaimRequest, RunRecord, Snapshot, Store
from rota.stores.memory import MemoryStore
from rota.stores.redis import RedisStore
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock
from rota.testing.redis_servers import RedisServer

# Few characters, and all that mean something to somebody: so that ids are parts, patterns and encodings of each other.
user_ids = st.text(alphabet="ab:%;*?_[]\\2A53'\u0301é/ ", min_size=1, max_size=5)
build_key = UserKeyBuilder().build_key


async def _live(store: Store, users: list[str]) -> None:
    """Everybody has been active twice; every other task has run, and of those every other one was purged."""
    await store.put_types([TaskType(name="work", interval_ms=0)])
    identities = [Identity("work", build_key(user, device)) for user in users for device in ("phone", None)]
    owners = [user for user in users for _ in range(2)]
    pairs = list(zip(identities, owners, strict=True))
    await store.touch([Activity(task_type="work", key=each.key, user_id=user) for each, user in pairs])
    request = ClaimRequest(wants=[("work", len(pairs) // 2)], instance="i", claim_id="c", lease_ms=1_000)
    claimed = (await store.claim(request)).tasks
    await store.settle(
        [
            Settlement(task_type="work", key=task.key, token=task.token, transition=Transition.COMPLETE)
            for task in claimed
        ]
    )
    await store.purge([task.identity for task in claimed[::2]])


async def _known(store: Store, user_id: str) -> list[Snapshot | RunRecord]:
    page = await store.export_user(user_id)
    found = list(page.items)
    while page.cursor is not None:
        page = await store.export_user(user_id, page.cursor)
        found += page.items
    return found


async def _check(store: Store, users: list[str], limit: int) -> None:
    await store.open()
    try:
        await _live(store, users)
        before = {user: await _known(store, user) for user in users}
        assert all(before.values())
        erased = users[0]
        while (await store.erase_user(erased, limit=limit)).done_at is None:
            pass
        assert {user: await _known(store, user) for user in users} == {**before, erased: []}
        counts = (await store.counts())["work"]
        left = [each for user in users for each in await _known(store, user)]
        tasks = [each for each in left if isinstance(each, Snapshot) and each.task is not None]
        assert counts.pending + counts.completed == len(tasks)
    finally:
        await store.close()


SETTINGS = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
everybody = st.lists(user_ids, min_size=2, max_size=6, unique=True)
limits = st.sampled_from([1, 3, 500])


@SETTINGS
@given(users=everybody, limit=limits)
def test_in_memory(users: list[str], limit: int) -> None:
    asyncio.run(_check(MemoryStore(FakeClock()), users, limit))


@SETTINGS
@given(users=everybody, limit=limits)
def test_on_sqlite(users: list[str], limit: int) -> None:
    asyncio.run(_check(SqlStore("sqlite://", clock=FakeClock()), users, limit))


@SETTINGS
@given(users=everybody, limit=limits)
def test_on_redis(redis: RedisServer, users: list[str], limit: int) -> None:
    redis.ask("FLUSHALL")
    asyncio.run(_check(RedisStore(redis.url, clock=FakeClock()), users, limit))
