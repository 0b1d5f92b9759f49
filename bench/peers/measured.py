"""The cases, the same for every queue, and the program around them: `CASE URL COUNT` in, one line of JSON out."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from bench.peers.peer import Cannot, Mark, Peer, Work
from bench.peers.redis_watch import cpu_seconds, idle_commands, is_redis

__all__ = ["LIMIT_SECONDS", "measure", "run_on_fast_loop"]

LIMIT_SECONDS = 60.0
"""A queue that has not run everything by then is given up on."""
SLEEP_SECONDS = 0.001
SLEEPERS = 100
A_SECOND = 500
SETTLING_SECONDS = 1.5
IDLE_SECONDS = 3.0

T = TypeVar("T")
Figures = dict[str, float]
Told = tuple[Figures, dict[str, str]]
"""What was measured, and what this queue cannot do, with the reason."""
Case = Callable[[type[Peer], str, int], Coroutine[Any, Any, Told]]


def measure(queue: type[Peer]) -> None:
    """The whole of a peer's program."""
    if len(sys.argv) != 4 or sys.argv[1] not in CASES:
        sys.exit(f"Write: {sys.argv[0]} {'|'.join(CASES)} URL COUNT")
    case, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    told: dict[str, object] = {"version": queue.version(), "settings": queue.settings, "recovery": queue.recovery}
    try:
        figures, cannot = run_on_fast_loop(CASES[case](queue, url, count))
    except Cannot as why:
        figures, cannot = {}, {case: str(why)}
    print(json.dumps({**told, "figures": figures, "cannot": cannot}), flush=True)


def run_on_fast_loop(main: Coroutine[Any, Any, T]) -> T:
    """On uvloop, and looking for cycles of garbage as seldom as `rota worker` does, for every queue alike."""
    from uvloop import new_event_loop

    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


# --- the cases ---


async def _work(queue: type[Peer], url: str, count: int) -> Told:
    """Enqueue new jobs, enqueue them again, then run them all: jobs a second, and the CPU of a run."""
    work = Work()
    peer = queue(url, work, queue.no_op_concurrency, "work")
    await peer.open()
    figures = {"schedule": await _rate(count, peer.enqueue)}
    cannot: dict[str, str] = {}
    try:
        figures["touch"] = await _rate(count, peer.enqueue_again)
    except Cannot as why:
        cannot["touch"] = str(why)
    figures |= await _run_all(peer, count)
    await peer.close()
    return figures, cannot


async def _run_all(peer: Peer, count: int) -> Figures:
    """From the first jobs that ran to the last: how long a worker takes to start is not what is measured."""
    async with peer.working():
        await _until_run(peer.work, 1)
        spent, started, before = Spent(peer.url), time.time(), len(peer.work.marks)
        await _until_run(peer.work, count)
        ended, ran = await peer.ended_at(count), count - before
        figures = spent.a_run(ran)  # what it takes to end a worker is not counted
    return {"run": ran / (ended - started), **figures}


async def _sleepers(queue: type[Peer], url: str, count: int) -> Told:
    """Jobs that sleep for a millisecond, a hundred at a time: jobs a second."""
    peer = queue(url, Work(SLEEP_SECONDS), SLEEPERS, "sleepers")
    await peer.open()
    await peer.enqueue(count)
    figures = await _run_all(peer, count)
    await peer.close()
    return {"sleepers": figures["run"]}, {}


async def _latency(queue: type[Peer], url: str, count: int) -> Told:
    """Delayed jobs at 500 a second: how late each starts."""
    marks = await _delayed(queue, url, "latency", [number / A_SECOND for number in range(count)])
    return _lateness(marks, "latency"), {}


async def _burst(queue: type[Peer], url: str, count: int) -> Told:
    """All due within one second: how late each starts, and when all are done, from the first due time."""
    marks = await _delayed(queue, url, "burst", [number / count for number in range(count)])
    first_due = min(due for due, _ in marks)
    last_run = max(ran for _, ran in marks)
    return {**_lateness(marks, "burst"), "burst_done_s": last_run - first_due}, {}


async def _delayed(queue: type[Peer], url: str, case: str, offsets: Sequence[float]) -> Sequence[Mark]:
    peer = queue(url, Work(), queue.no_op_concurrency, case)
    await peer.open()
    async with peer.working():
        await asyncio.sleep(1)  # a worker that has just started is not what is measured
        first_due = time.time() + 1 + len(offsets) / queue.delayed_a_second
        # Whole milliseconds, which is what most queues keep.
        await peer.enqueue_at([round(first_due + offset, 3) for offset in offsets])
        if time.time() > first_due:
            raise Cannot(f"{len(offsets):,} delayed jobs were not enqueued before the first was due")
        await _until_run(peer.work, len(offsets))
    await peer.close()
    return peer.work.marks


async def _idle(queue: type[Peer], url: str, _: int) -> Told:
    """A worker with nothing to do: its CPU in percent of a core, and the commands a second that Redis gets."""
    peer = queue(url, Work(), queue.no_op_concurrency, "idle")
    await peer.open()
    figures: Figures = {}
    async with peer.working():
        await asyncio.sleep(SETTLING_SECONDS)
        cpu, started = time.process_time(), time.perf_counter()
        if is_redis(url):
            figures["idle_commands"] = await idle_commands(url, IDLE_SECONDS) / IDLE_SECONDS
        else:
            await asyncio.sleep(IDLE_SECONDS)
        figures["idle_cpu_percent"] = 100 * (time.process_time() - cpu) / (time.perf_counter() - started)
    await peer.close()
    return figures, {}


CASES: Mapping[str, Case] = {
    "work": _work,
    "sleepers": _sleepers,
    "latency": _latency,
    "burst": _burst,
    "idle": _idle,
}


# --- measuring ---


class Spent:
    """CPU of this process and of the Redis server, from now on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._server = cpu_seconds(url)
        self._own = time.process_time()

    def a_run(self, count: int) -> Figures:
        """Microseconds a run."""
        figures = {"python_us": (time.process_time() - self._own) / count * 1e6}
        if is_redis(self._url):
            figures["server_us"] = (cpu_seconds(self._url) - self._server) / count * 1e6
        return figures


async def _rate(count: int, enqueue: Callable[[int], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await enqueue(count)
    return count / (time.perf_counter() - started)


async def _until_run(work: Work, count: int) -> None:
    """The marks say when; this only has to notice."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while len(work.marks) < count:  # noqa: ASYNC110 - threads leave marks too, and an event has its price
            await asyncio.sleep(0.005)


def _lateness(marks: Sequence[Mark], case: str) -> Figures:
    late = sorted((ran - due) * 1_000 for due, ran in marks)
    return {
        f"{case}_p50_ms": late[len(late) // 2],
        f"{case}_p99_ms": late[min(len(late) - 1, int(len(late) * 0.99))],
    }
