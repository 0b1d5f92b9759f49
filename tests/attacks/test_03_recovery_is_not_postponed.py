"""3: "nobody swept for a while" prolonged every lease at every sweep, so a lone survivor never took over.

The rules for leases are in the conformance suite (reap.py); here is the thread that they need.
"""

from __future__ import annotations

import asyncio
import threading

from rota.clock import Instant, SystemClock
from rota.core.task import NewTask
from rota.core.task_type import TaskType
from rota.runtime import Worker, WorkerSettings, make_handler
from rota.stores.base import Beat, ClaimRequest, Tick
from rota.stores.memory import MemoryStore
from rota.testing import FaultyStore
from rota.testing.waiting import PATIENCE, until


async def test_a_survivor_takes_over_while_its_event_loop_is_blocked() -> None:
    taken_back = threading.Event()
    blocked: list[bool] = []

    class Watched(FaultyStore):
        def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
            tick = super().tick_blocking(beat, now=now, timeout=timeout)
            if any(task.key == "victim" for task in tick.reaped):
                taken_back.set()
            return tick

    async def block() -> None:
        # The loop stands still until somebody else has found the dead, or for as long as a test may take.
        blocked.append(taken_back.wait(PATIENCE))

    clock = SystemClock()
    store = Watched(MemoryStore(clock))
    types = {"block": TaskType(name="block"), "slow": TaskType(name="slow")}
    await store.put_types(list(types.values()))
    await store.schedule([NewTask(task_type="slow", key="victim"), NewTask(task_type="block", key="b")])
    await store.claim(ClaimRequest(wants=[("slow", 1)], instance="dead", claim_id="c", lease_ms=300))
    handlers = {"block": make_handler("block", block)}
    worker = Worker(store, handlers, types, WorkerSettings(lease_ms=1_000, sweep_ms=100), clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await until(lambda: blocked)
        await worker.stop(timeout=0)
    assert blocked == [True]
