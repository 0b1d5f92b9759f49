"""Completions for a follower that no process serves any more were kept for ever: pruning hands them on, by pages."""

from __future__ import annotations

from rota.clock import HOUR
from rota.core.task_type import TriggerMode
from rota.runtime.duty import DutyContext
from rota.runtime.health import Pulse
from rota.runtime.pruner import Pruner
from rota.stores.memory import MemoryStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.waiting import PATIENCE


async def test_a_worker_without_the_follower_hands_all_of_them_on(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    world = World(store, clock)
    await world.type("a")
    await world.type("b", trigger_mode=TriggerMode.AFTER, after=("a",))
    for number in range(25):
        await world.schedule(f"k{number}", "a")
        await world.run(task_type="a")
    context = DutyContext(store, "i1", clock, Pulse(clock), lambda: 0.5, PATIENCE)
    pruner = Pruner(context, run_ttl_ms=HOUR, page=10)
    assert (await pruner.run_once()).handed_on == 25, "more than a page is no reason to stop"
    assert await store.pump() == 0, "none is left"
    assert (await store.counts())["b"].pending == 25
