"""Two worker processes of Rota on one store: `python -m bench.rota_pair work URL COUNT`, as the peers' programs.

The tasks are due at one time when both workers are up, so that starting them is not measured; the store's totals say
when all are done.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from bench.peers.measured import LIMIT_SECONDS, run_on_fast_loop
from bench.peers.peer import Work
from bench.rota_app import MeasuredApp, measured_app
from bench.rota_peer import RotaPeer

PROCESSES = 2
WORKER = "worker"
SCHEDULED_A_SECOND = 4_000
"""At least, on any store: the tasks are due when all of them have been scheduled."""


def main() -> None:
    case, url = sys.argv[1], sys.argv[2]
    if case == WORKER:
        run_on_fast_loop(_serve(url))
        return
    if case != "work":
        print(json.dumps(_told({}, {case: "measured in one process"})))
        return
    rate = run_on_fast_loop(_rate(url, int(sys.argv[3])))
    print(json.dumps(_told({"run": rate}, {})))


def _told(figures: dict[str, float], cannot: dict[str, str]) -> dict[str, object]:
    settings = f"{PROCESSES} worker processes, each as the one"
    told = {"version": RotaPeer.version(), "settings": settings, "recovery": RotaPeer.recovery}
    return {**told, "figures": figures, "cannot": cannot}


async def _serve(url: str) -> None:
    app = measured_app(url, Work(), RotaPeer.no_op_concurrency).app
    async with app:
        await app.run(timeout=1)


async def _rate(url: str, count: int) -> float:
    measured = measured_app(url, Work(), RotaPeer.no_op_concurrency)
    async with measured.app, asyncio.timeout(LIMIT_SECONDS):
        with _workers(url):
            await _until_up(measured)
            due = round(time.time() + 1 + count / SCHEDULED_A_SECOND, 3)
            await measured.schedule_at([due] * count)
            assert time.time() < due, "the tasks were not scheduled before they were due"
            return count / (await measured.succeeded_at(count) - due)


@contextmanager
def _workers(url: str) -> Generator[None]:
    command = [sys.executable, "-m", "bench.rota_pair", WORKER, url]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(PROCESSES)]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(LIMIT_SECONDS)


async def _until_up(measured: MeasuredApp) -> None:
    while len(await measured.app.instances()) < PROCESSES:  # noqa: ASYNC110 - they are processes
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    main()
