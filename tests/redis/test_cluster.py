"""A real Redis Cluster of three nodes: every verb, on types that live on different nodes.

A cluster refuses a script whose keys lie in several slots, or on another node; so whatever passes here touches one slot
at a time. The rules of the conformance suite that involve more than one task are tried here too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.opening import opened
from tour import TYPES, tour

from rota.core.task import NewTask, TaskStatus, Transition
from rota.stores import open_store
from rota.stores.base import Store, TaskQuery
from rota.testing.clock import FakeClock
from rota.testing.conformance.after import TestAfter
from rota.testing.conformance.claim import TestAbandon, TestClaim, TestTokens
from rota.testing.conformance.counts import TestCounts
from rota.testing.conformance.find import TestFind
from rota.testing.conformance.rate import TestRateLimit
from rota.testing.conformance.reap import TestReap
from rota.testing.conformance.serial import TestSerial
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisCluster

__all__ = [
    "TestAbandon",
    "TestAfter",
    "TestClaim",
    "TestCounts",
    "TestFind",
    "TestRateLimit",
    "TestReap",
    "TestSerial",
    "TestTokens",
]


@pytest.fixture
async def store(redis_cluster_url: str, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(open_store(redis_cluster_url, clock)) as store:
        yield store


async def test_every_verb_on_a_cluster(store: Store, clock: FakeClock) -> None:
    await tour(World(store, clock))


async def test_the_types_are_spread_over_the_nodes(store: Store, clock: FakeClock, redis_three: RedisCluster) -> None:
    world = World(store, clock)
    for name in TYPES:
        await world.type(name)
    news = [NewTask(task_type=name, key=f"k{number}") for number in range(100) for name in TYPES]
    answers = await store.schedule(news, now=world.now)
    assert [answer.task.identity for answer in answers if answer.task] == [new.identity for new in news]
    assert all(int(str(node.ask("DBSIZE"))) > 0 for node in redis_three.nodes)
    claimed = await world.claim(50, TYPES)
    assert len(claimed) == 50 * len(TYPES)
    for task in claimed:
        await world.settle(task, Transition.COMPLETE)
    page = await store.find(TaskQuery(status=TaskStatus.COMPLETED, limit=1_000))
    assert len(page.items) == len(claimed)
