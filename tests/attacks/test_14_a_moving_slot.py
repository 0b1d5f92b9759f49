"""14: while a Redis Cluster moves a slot, a step on it is taken wholly or not at all; and what was harmed is mended."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from redis.crc import key_slot
from tests.records import field_of

from rota.clock import SystemClock
from rota.core.outcome import Answer, ScheduleOutcome
from rota.core.task import NewTask, Settlement, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import StoreError, StoreUnavailable
from rota.runtime import reconciler
from rota.runtime.health import Pulse
from rota.runtime.reconciler import Reconciler
from rota.stores import open_store
from rota.stores.base import ClaimRequest
from rota.stores.redis import RedisStore
from rota.testing.redis_servers import HOST, RedisCluster, RedisServer
from rota.testing.waiting import until

WORK = TaskType(name="work", trigger_mode=TriggerMode.ONCE)
SLOT = key_slot(b"work")
QUEUE = "scheduler:queue:{work}"


def _claim(claim_id: str) -> ClaimRequest:
    return ClaimRequest(wants=[("work", 9)], instance="i", claim_id=claim_id, lease_ms=10_000)


class Move:
    """The slot of the type on its way from one node to the other, key by key, as far as the test says."""

    def __init__(self, cluster: RedisCluster) -> None:
        self.source, self.target = sorted(cluster.nodes, key=lambda node: not node.ask("CLUSTER COUNTKEYSINSLOT", SLOT))
        self._ids = [str(node.ask("CLUSTER MYID")) for node in (self.source, self.target)]

    def begin(self) -> None:
        self.target.ask("CLUSTER SETSLOT", SLOT, "IMPORTING", self._ids[0])
        self.source.ask("CLUSTER SETSLOT", SLOT, "MIGRATING", self._ids[1])

    def keys(self, *keys: str) -> None:
        self.source.ask("MIGRATE", HOST, self.target.port, "", 0, 5_000, "KEYS", *keys)

    def end(self) -> None:
        left = cast("list[str]", self.source.ask("CLUSTER GETKEYSINSLOT", SLOT, 1_000))
        if left:
            self.keys(*left)
        for node in (self.target, self.source):
            node.ask("CLUSTER SETSLOT", SLOT, "NODE", self._ids[1])


@pytest.mark.parametrize("moved", [[], [QUEUE], ["scheduler:task_type:{work}"]], ids=["none", "queue", "type"])
async def test_a_script_that_meets_it_writes_nothing(cluster: RedisCluster, moved: list[str]) -> None:
    store = open_store(cluster.url)
    assert isinstance(store, RedisStore)
    await store.open()
    await store.put_types([WORK])
    await store.schedule([NewTask(task_type="work", key="running")])
    (running,) = (await store.claim(_claim("a"))).tasks
    await store.schedule([NewTask(task_type="work", key="before")])
    move = Move(cluster)
    move.begin()
    if moved:
        move.keys(*moved)
    before = sorted(cluster.keys())
    with pytest.raises(StoreUnavailable):
        await store.schedule([NewTask(task_type="work", key="during")])
    with pytest.raises(StoreUnavailable):
        await store.claim(_claim("b"))
    done = Settlement(task_type="work", key="running", token=running.token, transition=Transition.COMPLETE)
    with pytest.raises(StoreUnavailable):
        await store.settle([done])
    assert sorted(cluster.keys()) == before
    assert field_of(move.source, "work", "running", "status") == "running"
    assert (await store.counts())["work"].pending == 1, "a plain read follows its key"
    assert [record.task_type.name for record in await store.list_types()] == ["work"]
    move.end()
    assert [reply.answer for reply in await store.settle([done])] == [Answer.OK]
    answers = await store.schedule([NewTask(task_type="work", key="during")])
    assert [answer.outcome for answer in answers] == [ScheduleOutcome.CREATED]
    claimed = await store.claim(_claim("c"))
    assert sorted(task.key for task in claimed.tasks) == ["before", "during"]
    assert (await store.reconcile()).total == 0
    await store.close()


async def test_after_a_script_that_stopped_half_way_the_reconciler_comes_at_once(
    redis: RedisServer, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "HARM_SECONDS", 0.2)
    store = RedisStore(redis_url)
    await store.open()
    await store.put_types([WORK])
    duty = Reconciler(store, clock=SystemClock(), pulse=Pulse(SystemClock()), chance=lambda: 0.5)
    running = asyncio.create_task(duty.run())
    await until(lambda: redis.ask("HGET", "scheduler:meta", "indexes") == "2", "the first pass is made")
    redis.ask("SET", QUEUE, "not a queue")
    with pytest.raises(StoreError, match="something else than Rota put there"):
        await store.schedule([NewTask(task_type="work", key="k")])
    redis.ask("DEL", QUEUE)

    async def is_claimed() -> bool:
        return bool(
            (await store.claim(ClaimRequest(wants=[("work", 1)], instance="i", claim_id="c", lease_ms=10_000))).tasks
        )

    await until(is_claimed, "the task that stood in no queue is found", seconds=30)
    await until(lambda: redis.ask("HGET", "scheduler:counts:{work}", "running") in {"1", "0"}, "it is counted")
    duty.stop()
    await running
    await store.close()
