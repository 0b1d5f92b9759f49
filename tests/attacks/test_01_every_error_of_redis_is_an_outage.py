"""1: a Redis Cluster that is away is away, under whatever name; and one node of its URL that is down is not the end."""

from __future__ import annotations

import pytest

from rota.core.task import Identity, NewTask, Settlement, Transition
from rota.core.task_type import TaskType
from rota.errors import StoreUnavailable
from rota.stores import open_store
from rota.stores.base import Beat, ClaimRequest
from rota.testing.redis_servers import HOST, RedisCluster
from rota.testing.waiting import until


async def test_every_call_on_a_cluster_without_a_node_says_so(cluster: RedisCluster) -> None:
    store = open_store(cluster.url)
    await store.open()
    await store.put_types([TaskType(name="work")])
    for node in cluster.nodes:
        node.kill()
    settlement = Settlement(task_type="work", key="k", token=1, transition=Transition.COMPLETE)
    # More than once: the first error is of the connection, and only later ones are of a cluster that has no node left.
    for _ in range(3):
        for call in (
            store.settle([settlement]),
            store.schedule([NewTask(task_type="work", key="k")]),
            store.pause([Identity("work", "k")]),
            store.claim(ClaimRequest(wants=[("work", 1)], instance="i", claim_id="c", lease_ms=10_000)),
            store.tick(Beat(instance="i", types=("work",), lease_ms=10_000)),
            store.counts(),
        ):
            with pytest.raises(StoreUnavailable):
                await call
    await store.close()


async def test_a_cluster_is_found_by_any_of_the_nodes_that_its_url_names(cluster: RedisCluster) -> None:
    first, second = (f"{HOST}:{node.port}" for node in cluster.nodes)
    absent = f"{HOST}:1"
    store, other = open_store(f"redis+cluster://{absent},{second}"), open_store(f"redis+cluster://{first}")
    await store.open()
    await other.open()
    await store.put_types([TaskType(name="work")])
    await store.pause([Identity("work", "k")])

    async def is_woken() -> bool:
        await other.schedule([NewTask(task_type="work", key="k")])
        await other.cancel([Identity("work", "k")])
        return await store.wait(200)

    await until(is_woken, "a wake-up is heard from the node that is there")
    await store.close()
    await other.close()
