"""Redis and the way to it go wrong in every way we know. No worker exits, and work goes on by itself afterwards.

Each fault is a place in time: before it work runs; during it every call says that the store is unavailable; after it
the work that waited runs, and the run that was under way is settled once. How long the worker needed to go on is
recorded with each test (`seconds_to_resume`); the promise is 5 s, and the tests only insist on more than that, because
they share their machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest
from tests.opening import opened

from rota.call_timeout import DEFAULT_MS
from rota.clock import SECOND, SystemClock
from rota.core.outcome import ScheduleOutcome
from rota.core.task import Identity, NewTask, Task, TaskStatus
from rota.core.task_type import RetryPolicy, TaskType, TriggerMode
from rota.errors import StoreUnavailable
from rota.runtime import Run
from rota.runtime.handler import make_handler
from rota.runtime.worker import Worker, WorkerSettings
from rota.stores import open_store
from rota.stores.base import Store
from rota.testing.leaks import assert_no_leaks
from rota.testing.proxy import Proxy
from rota.testing.redis_servers import HOST, RedisServer, redis_server
from rota.testing.servers import ServerAbsent, require_server
from rota.testing.waiting import until

WORK = TaskType(name="work", trigger_mode=TriggerMode.ONCE, retry=RetryPolicy(base_ms=0, max_ms=0))
PATIENCE = 60.0
"""Seconds after which a worker that has not gone on never will; the promise is 5."""
OUTAGE = 6.0
"""Seconds that an outage lasts, at least: by then a worker tries again every 1 to 3 s only."""
LEAD = 4.0
"""Seconds ahead that a task is due which is to wait out an outage; more where it takes long to begin one."""
LASTING = 16_000
"""Milliseconds of an outage that only time ends: a busy machine must still notice it before it is over."""
CALL_TIMEOUT = DEFAULT_MS / SECOND
"""The real limit: here it is what is tested, since a store that says nothing is known by nothing else."""
CALL_LIMIT = 60.0
"""A store call has 5 s; what it may take here on a machine that is busy with other tests."""

Note = Callable[[str, object], None]
T = TypeVar("T")


@dataclass
class Scene:
    """A worker whose way to Redis leads through the proxy, and a second store that goes straight there."""

    server: RedisServer
    proxy: Proxy
    store: Store
    direct: Store
    worker: Worker
    ran: Counter[str]
    gate: asyncio.Event
    """Closed: a task whose key begins with 'long' waits for it."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    async def answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the second store says, sooner or later."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await call()
            except StoreUnavailable:
                assert time.monotonic() < deadline, f"there was no answer for {PATIENCE:g} s"
                await asyncio.sleep(0.05)

    async def schedule(self, key: str, in_ms: int = 0) -> None:
        """Acknowledged, sooner or later."""

        async def ask() -> ScheduleOutcome:
            new = NewTask(task_type="work", key=key, scheduled_at=await self.direct.now() + in_ms)
            return (await self.direct.schedule([new]))[0].outcome

        # `exists`: the call before this one took effect, and its reply was lost.
        assert await self.answered(ask) in {ScheduleOutcome.CREATED, ScheduleOutcome.EXISTS}

    async def works(self, prefix: str = "probe") -> float:
        """A new task runs; how many seconds that took."""
        key = f"{prefix}-{next(self._numbers)}"
        started = time.monotonic()
        await self.schedule(key)
        await until(lambda: self.ran[key] > 0, f"{key} to run")
        return time.monotonic() - started

    async def task(self, key: str) -> Task:
        (task,) = await self.answered(lambda: self.direct.get([Identity("work", key)]))
        assert task is not None, f"{key} is lost"
        return task

    async def completed(self, key: str) -> Task:
        """The task, once it is completed."""
        deadline = time.monotonic() + PATIENCE
        while (task := await self.task(key)).status is not TaskStatus.COMPLETED:
            assert time.monotonic() < deadline, f"{key} is still {task.status} after {PATIENCE:g} s"
            await asyncio.sleep(0.02)
        return task

    async def renewed(self, key: str, for_ms: int) -> None:
        """Wait until the task's lease lies this much later than now: it was kept all the time."""
        first = (await self.task(key)).lease_until
        assert first is not None
        deadline = time.monotonic() + PATIENCE + for_ms / 1_000
        while ((await self.task(key)).lease_until or 0) < first + for_ms:
            assert time.monotonic() < deadline, f"the lease of {key} is not renewed"
            await asyncio.sleep(0.1)

    async def until_troubled(self) -> None:
        """Claiming fails, and no sweep has come through for so long that the pauses between attempts have grown."""
        deadline = time.monotonic() + PATIENCE
        while not self._is_troubled():
            assert time.monotonic() < deadline, f"the worker does not notice: {self.worker.health()}"
            await asyncio.sleep(0.01)

    def _is_troubled(self) -> bool:
        health = self.worker.health()
        silent = (health.seconds_since_good or {}).get("sweeper")
        return silent is not None and silent > OUTAGE and any("The dispatcher fails" in one for one in health.reasons)

    def check_worker(self) -> None:
        assert self.worker.is_running, "a fault of the store must never end a worker"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, to be mistreated: every write is on disk before it is acknowledged."""
    try:
        with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as made:
            yield made
            if made.is_running:
                assert_no_leaks(made)
    except ServerAbsent as absent:
        require_server(absent)


@asynccontextmanager
async def stage(server: RedisServer) -> AsyncGenerator[Scene]:
    ran: Counter[str] = Counter()
    gate = asyncio.Event()

    async def work(run: Run) -> None:
        ran[run.key] += 1
        if run.key.startswith("long"):
            await gate.wait()

    with Proxy(HOST, server.port) as proxy:
        proxied = open_store(f"redis://{HOST}:{proxy.port}/0", call_timeout=CALL_TIMEOUT)
        async with opened(proxied) as store, opened(open_store(server.url)) as direct:
            await direct.put_types([WORK])
            handlers, settings = {"work": make_handler("work", work)}, WorkerSettings(call_timeout=CALL_TIMEOUT)
            worker = Worker(store, handlers, {"work": WORK}, settings, clock=SystemClock())
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await until(lambda: worker.is_running, "the worker to start")
                try:
                    yield Scene(server, proxy, store, direct, worker, ran, gate)
                finally:
                    proxy.normal()
                    await worker.stop(timeout=0)


# --- the faults ---


@dataclass(frozen=True)
class Fault:
    """How to break it, how to mend it. `reads` tells whether reading still works meanwhile."""

    begin: Callable[[Scene], object]
    end: Callable[[Scene], object]
    reads: bool = False


def _mended(scene: Scene) -> None:
    scene.proxy.normal()


def _read_only(scene: Scene) -> None:
    """A replica of a master that is not there, as after a failover."""
    scene.server.ask("REPLICAOF", HOST, 1)


def _disk_full(scene: Scene) -> None:
    """The snapshot cannot be written: a directory has its name. Redis then refuses writes (MISCONF)."""
    (scene.server.directory / "dump.rdb").mkdir()
    scene.server.ask("CONFIG", "SET", "save", "900 1")
    scene.server.ask("BGSAVE")
    deadline = time.monotonic() + PATIENCE
    while "rdb_last_bgsave_status:err" not in _info(scene):
        assert time.monotonic() < deadline, "the snapshot should have failed"
        time.sleep(0.02)


def _disk_free(scene: Scene) -> None:
    (scene.server.directory / "dump.rdb").rmdir()
    scene.server.ask("CONFIG", "SET", "save", "")


def _info(scene: Scene) -> str:
    """The persistence section as the server writes it."""
    return str(scene.server.ask("EVAL", "return redis.call('INFO', 'persistence')", 0))


FILL = "for i = 1, ARGV[1] do redis.call('SET', 'filler:' .. i, i, 'EX', 600) end"


def _load_slowly(scene: Scene) -> None:
    """Up again, but for some seconds it only reads its file (LOADING)."""
    with scene.server.client() as client:
        client.execute_command("EVAL", FILL, 0, LASTING)
    scene.server.kill()
    scene.server.start("--key-load-delay", "1000", wait=False)


FAULTS = {
    "cut": Fault(lambda scene: scene.proxy.cut(), _mended),
    "half-open": Fault(lambda scene: scene.proxy.half_open(), _mended),
    "RST in mid-reply": Fault(lambda scene: scene.proxy.reset_mid_reply(), _mended),
    "1 byte a second": Fault(lambda scene: scene.proxy.trickle(), _mended),
    # Nothing but time ends this one: the command that would is paused too.
    "CLIENT PAUSE": Fault(
        lambda scene: scene.server.ask("CLIENT", "PAUSE", LASTING),
        lambda scene: scene.server.wait_until_ready(),
    ),
    "READONLY": Fault(_read_only, lambda scene: scene.server.ask("REPLICAOF", "NO", "ONE"), reads=True),
    "MISCONF": Fault(_disk_full, _disk_free, reads=True),
    "OOM": Fault(
        lambda scene: scene.server.ask("CONFIG", "SET", "maxmemory", "1"),
        lambda scene: scene.server.ask("CONFIG", "SET", "maxmemory", "0"),
        reads=True,
    ),
    "LOADING": Fault(_load_slowly, lambda scene: scene.server.wait_until_ready()),
    "stopped": Fault(lambda scene: scene.server.stop(), lambda scene: scene.server.start()),
    "killed": Fault(lambda scene: scene.server.kill(), lambda scene: scene.server.start()),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_work_goes_on_after(name: str, server: RedisServer, record_property: Note) -> None:
    """One task comes due while the store is away and one run ends: both must be seen to, soon after it is back."""
    fault = FAULTS[name]
    async with stage(server) as scene:
        await scene.schedule("long")
        await until(lambda: scene.ran["long"] == 1, "the long task to start")
        await scene.works("before")
        waiting, due = await _broken(scene, fault)
        scene.gate.set()
        await scene.until_troubled()
        await until(lambda: time.monotonic() > due, "it is due")
        assert scene.ran[waiting] == 0
        await asyncio.to_thread(fault.end, scene)
        back = time.monotonic()
        await until(lambda: scene.ran[waiting] > 0, "the task that waits to run")
        record_property("seconds_to_resume", round(time.monotonic() - back, 2))
        await scene.works("after")
        scene.check_worker()
        assert (await scene.completed("long")).crashes == 0, "an outage is nobody's crash"
        await until(lambda: scene.worker.health().ok, "the worker to be well again")


async def _broken(scene: Scene, fault: Fault) -> tuple[str, float]:
    """Begin the fault while a task is due in a moment, and not before it has begun; its key, and when that will be."""
    lead = LEAD
    while True:
        key, due = f"waiting-{lead:g}", time.monotonic() + lead
        await scene.schedule(key, in_ms=round(lead * 1_000))
        await asyncio.to_thread(fault.begin, scene)
        if time.monotonic() < due - 1:
            return key, due
        # The machine was held up so long that the task may have run before: again, with more time.
        await asyncio.to_thread(fault.end, scene)
        lead *= 2
        assert lead <= PATIENCE, f"it took more than {lead / 2 - 1:g} s to begin"


@pytest.mark.parametrize("name", FAULTS)
async def test_a_call_says_that_the_store_is_unavailable_during(name: str, server: RedisServer) -> None:
    """Soon, and with that error: never an empty answer, never a false success, never an exception of a driver's."""
    fault = FAULTS[name]
    async with stage(server) as scene:
        await scene.works("before")
        await asyncio.to_thread(fault.begin, scene)
        calls = [scene.store.schedule([NewTask(task_type="work", key="during")])]
        if not fault.reads:
            calls += [scene.store.get([Identity("work", "before-1")]), scene.store.counts(), scene.store.list_types()]
        async with asyncio.timeout(CALL_LIMIT):
            answers = await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.to_thread(fault.end, scene)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * len(calls), answers
        await scene.works("after")


async def test_half_a_second_of_latency_is_slow_and_nothing_else(server: RedisServer, record_property: Note) -> None:
    async with stage(server) as scene:
        await scene.works("before")
        scene.proxy.latency(0.5)
        await scene.schedule("long")
        await until(lambda: scene.ran["long"] == 1, "the long task to start")
        record_property("seconds_for_one_task", round(await scene.works("during"), 2))
        await scene.renewed("long", for_ms=12_000)
        scene.gate.set()
        task = await scene.completed("long")
        assert (task.attempt, task.crashes, scene.ran["long"]) == (1, 0, 1)
        scene.check_worker()


async def test_cuts_one_after_another_lose_nothing(server: RedisServer) -> None:
    """Two thousand tasks while every connection is reset again and again, half of them in mid-reply."""
    keys = [f"k{number}" for number in range(2_000)]
    async with stage(server) as scene:
        for start in range(0, len(keys), 200):
            news = [NewTask(task_type="work", key=key) for key in keys[start : start + 200]]
            await scene.direct.schedule(news)
        done = asyncio.Event()

        async def shake() -> int:
            cuts = 0
            # So many and no more: on a busy machine little is done between two cuts, and it must end all the same.
            while not done.is_set() and cuts < 100:
                await asyncio.to_thread(scene.proxy.cut if cuts % 2 else scene.proxy.reset_mid_reply)
                await asyncio.sleep(0.02)
                await asyncio.to_thread(scene.proxy.normal)
                await asyncio.sleep(0.25)
                cuts += 1
            return cuts

        shaking = asyncio.create_task(shake())
        deadline = time.monotonic() + 300
        while (counts := (await scene.answered(scene.direct.counts))["work"]).completed < len(keys):
            assert time.monotonic() < deadline, f"after 300 s: {counts}"
            await asyncio.sleep(0.1)
        done.set()
        assert await shaking > 0
        assert set(keys) <= set(scene.ran)
        scene.check_worker()


async def test_with_appendfsync_always_nothing_acknowledged_is_lost(server: RedisServer) -> None:
    """Redis is killed ten times while tasks are scheduled and run."""
    acknowledged: list[str] = []
    async with stage(server) as scene:

        async def feed() -> None:
            for number in count():
                key = f"k{number}"
                await scene.schedule(key)
                acknowledged.append(key)

        feeding = asyncio.create_task(feed())
        for _ in range(10):
            known = len(acknowledged)
            await until(lambda known=known: len(acknowledged) >= known + 20, "tasks to be acknowledged")
            scene.server.kill()
            await asyncio.to_thread(scene.server.start)
        feeding.cancel()
        await asyncio.wait([feeding])
        for key in acknowledged:
            assert (await scene.completed(key)).status is TaskStatus.COMPLETED
        scene.check_worker()
