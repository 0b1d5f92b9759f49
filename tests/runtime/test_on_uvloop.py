"""The same on uvloop: a worker, its threads, its handlers' own processes and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import process_handlers
import uvloop
from stage import Stage
from tests.opening import opened

from rota.clock import SystemClock
from rota.runtime import Run
from rota.runtime.worker import WorkerSettings
from rota.stores.memory import MemoryStore


def on_uvloop(main: Coroutine[object, object, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def test_every_kind_of_handler_runs() -> None:
    async def main() -> None:
        async with opened(MemoryStore(SystemClock())) as store:
            stage = Stage(store, SystemClock())

            async def awaited(user_id: str) -> str:
                async with asyncio.timeout(5):
                    await asyncio.sleep(0)
                return user_id

            def threaded(run: Run) -> str:
                return run.key

            await stage.add(awaited, "awaited")
            await stage.add(threaded, "threaded")
            await stage.add(process_handlers.awaited, "apart", process=True)
            for name in stage.types:
                await stage.schedule("a", "b", name=name)
            assert await stage.worker().run_until_idle() == 6
            for name in stage.types:
                assert await stage.status("a", name) == await stage.status("b", name) == "completed"

    on_uvloop(main())


def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(MemoryStore(SystemClock())) as store:
            stage = Stage(store, SystemClock())

            async def endless() -> None:
                await asyncio.Event().wait()

            await stage.add(endless, "endless", timeout_ms=50)
            await stage.add(process_handlers.hangs, "hangs", process=True, timeout_ms=1_500)
            await stage.schedule("a", name="endless")
            await stage.schedule("a", name="hangs", payload=f'"{tmp_path / "pids"}"')
            await stage.worker(WorkerSettings(max_concurrent=5)).run_until_idle()
            assert (await stage.task("a", "endless")).reason == "timeout"
            assert (await stage.task("a", "hangs")).reason == "timeout"

    on_uvloop(main())
