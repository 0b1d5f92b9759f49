"""Handlers in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import process_handlers as handlers
from stage import Stage

from rota.core.task import Task
from rota.runtime import WorkerSettings
from rota.runtime.handler import HandlerFunction
from rota.runtime.verdict import StopCause
from rota.testing.waiting import until


async def run_one(stage: Stage, function: HandlerFunction, payload: object = None, **settings: bool) -> Task:
    await stage.add(function, process=True, max_retries=1, positional=settings.get("positional", False))
    await stage.schedule("u1", payload=json.dumps(payload))
    await stage.worker().run_until_idle()
    return await stage.task("u1")


async def test_arguments_go_in_and_the_result_comes_out(still_stage: Stage) -> None:
    task = await run_one(still_stage, handlers.echo, {"n": [1, "\N{SNOWMAN}"]})
    assert task.status.value == "completed"
    expected = {"user_id": "u1", "payload": {"n": [1, "\N{SNOWMAN}"]}, "is_own_process": True}
    assert json.loads(task.result or "") == expected


async def test_async_and_positional_functions_work_too(still_stage: Stage) -> None:
    assert (await run_one(still_stage, handlers.awaited)).result == "awaited u1"
    assert (await run_one(still_stage, handlers.by_position, positional=True)).result == "u1 None None"


async def test_failures_and_signals_come_back(still_stage: Stage) -> None:
    task = await run_one(still_stage, handlers.asks_for_a_retry)
    assert (task.status.value, task.reason) == ("pending", "rate_limited")
    assert task.scheduled_at == still_stage.clock.now() + 9_000


async def test_an_exception_in_the_child_is_told(still_stage: Stage) -> None:
    task = await run_one(still_stage, handlers.fails)
    assert (task.status.value, task.error) == ("failed", "ValueError: broken in the child")


async def test_a_child_that_dies_is_a_failure(still_stage: Stage) -> None:
    task = await run_one(still_stage, handlers.dies)
    assert task.status.value == "failed"
    assert "exit code 7" in (task.error or "")


async def test_progress_comes_back_while_it_runs(memory_stage: Stage, tmp_path: Path) -> None:
    stage, go = memory_stage, tmp_path / "go"
    await stage.add(handlers.reports, process=True)
    await stage.schedule("u1", payload=json.dumps(str(go)))
    async with stage.at_work():

        async def is_reported() -> bool:
            return (await stage.task("u1")).progress == '{"attempt":1}'

        await until(is_reported)
        go.touch()
        assert (await stage.reached("u1", "completed")).result == "reported"


async def test_a_process_is_killed_on_timeout_and_leaves_nothing(stage: Stage, tmp_path: Path) -> None:
    """Neither the child, which ignores SIGTERM, nor what it started."""
    started = tmp_path / "pids"
    await stage.add(handlers.hangs, process=True, timeout_ms=600_000)
    await stage.schedule("u1", payload=json.dumps(str(started)))
    async with stage.at_work(WorkerSettings(grace_ms=60_000)) as worker:
        await until(started.exists, "the child has started its own")
        # What the timer of the timeout does. It does so here when both are there, however long they took to start.
        executor = worker._executor  # pyright: ignore[reportPrivateUsage]
        (running,) = executor.running
        executor.stopping.stop(running, StopCause.TIMEOUT)
        task = await stage.reached("u1", "failed")
        assert worker.health().abandoned == 0
    assert task.reason == "timeout"
    pids = [int(pid) for pid in started.read_text().split()]
    await until(lambda: not any(map(is_alive, pids)))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A grandchild is adopted by init, which may take its time to bury it.
    return state != "Z"


def test_a_function_of_the_main_program_is_found(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        dedent("""
            import asyncio
            from rota.clock import SystemClock
            from rota.core.task import Identity, NewTask
            from rota.core.task_type import TaskType
            from rota.runtime import Worker, make_handler
            from rota.stores.memory import MemoryStore

            def handle(user_id):
                return f"hello {user_id}"

            async def main():
                store, kind = MemoryStore(), TaskType(name="work")
                await store.open()
                await store.put_types([kind])
                await store.schedule([NewTask(task_type="work", key="u1", user_id="u1")])
                handlers = {"work": make_handler("work", handle, process=True)}
                await Worker(store, handlers, {"work": kind}, clock=SystemClock()).run_until_idle()
                print((await store.get([Identity("work", "u1")]))[0].result)

            if __name__ == "__main__":
                asyncio.run(main())
        """)
    )
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert ran.stdout.strip().endswith("hello u1"), ran.stderr
