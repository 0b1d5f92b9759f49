"""A claim that is old when its turn comes is given back: its handler is never begun, and nothing is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

from rota import Rota, Run
from rota.clock import Instant
from rota.core.task import Identity, NewTask
from rota.core.task_type import TaskType
from rota.stores.base import Claimed, ClaimRequest
from rota.stores.memory import MemoryStore
from rota.stores.sql.store import SqlStore
from rota.testing import FaultyStore
from rota.testing.waiting import until


class Stalling(FaultyStore):
    """A store whose first claim comes back to a loop that was blocked meanwhile, as by somebody's handler."""

    def __init__(self, seconds: float) -> None:
        super().__init__(MemoryStore())
        self._seconds = seconds
        self.stalled: list[int] = []

    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        claimed = await super().claim(request, now=now)
        if claimed.tasks and not self.stalled:
            self.stalled = [task.token for task in claimed.tasks]
            time.sleep(self._seconds)  # noqa: ASYNC251 - blocking the loop is what this is about
        return claimed


def an_app(store: Stalling) -> tuple[Rota, list[int]]:
    """With a task that writes down the tokens under which it began."""
    app, begun = Rota({"lease": "3s"}, store=store), list[int]()

    @app.task(max_retries=0)
    async def work(run: Run) -> None:
        begun.append(run.token)

    return app, begun


async def test_what_was_claimed_before_the_loop_was_blocked_is_released() -> None:
    store = Stalling(2.4)
    app, begun = an_app(store)
    async with app:
        receipts = [await app.schedule("work") for _ in range(3)]
        await app.run_until_idle()
        tasks = [await app.tasks.get("work", receipt.key) for receipt in receipts]
        rows = (await app.runs(task_type="work")).items
    assert len(store.stalled) == 3
    assert not set(begun) & set(store.stalled), "none began under the old claim"
    assert [(task.status, task.crashes, task.errors, task.attempt) for task in tasks if task] == [
        ("completed", 0, 0, 1)
    ] * 3
    assert sorted((row.status, row.reason) for row in rows) == [("skipped", "lost")] * 3 + [("success", None)] * 3


async def test_a_moment_of_blocking_costs_nothing() -> None:
    store = Stalling(0.2)
    app, begun = an_app(store)
    async with app:
        await app.schedule("work")
        assert await app.run_until_idle() == 1
    assert begun == store.stalled


_FROZEN = """
    import asyncio, os, pathlib, signal, sys
    from rota import Rota, Run
    from rota.stores.sql.store import SqlStore

    claimed, begun = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])

    class Freezing(SqlStore):
        async def claim(self, request, *, now=None):
            answer = await super().claim(request, now=now)
            if answer.tasks and not claimed.exists():
                claimed.write_text(str(answer.tasks[0].token))
                os.kill(os.getpid(), signal.SIGSTOP)
            return answer

    app = Rota({"lease": "3s"}, store=Freezing(sys.argv[1]))

    @app.task
    async def work(run: Run) -> None:
        with begun.open("a") as file:
            print(run.token, file=file)

    asyncio.run(app.run(timeout=1))
"""


async def test_a_worker_that_was_frozen_past_its_lease_begins_nothing(sqlite_url: str, tmp_path: Path) -> None:
    program, claimed, begun = tmp_path / "program.py", tmp_path / "claimed", tmp_path / "begun"
    program.write_text(dedent(_FROZEN))
    store = SqlStore(sqlite_url)
    await store.open()
    await store.put_types([TaskType(name="work")])
    await store.schedule([NewTask(task_type="work", key="k")])
    worker = subprocess.Popen([sys.executable, program, sqlite_url, claimed, begun])  # noqa: ASYNC220 - it starts at once
    try:
        await until(claimed.exists, "the worker has claimed, and is frozen")
        (task,) = await store.get([Identity("work", "k")])
        assert task is not None
        lapses_at = task.lease_until or 0

        async def has_lapsed() -> bool:
            return await store.now() > lapses_at

        await until(has_lapsed, "its lease is over")
        os.kill(worker.pid, signal.SIGCONT)

        async def is_done() -> bool:
            (found,) = await store.get([Identity("work", "k")])
            return found is not None and found.status.value == "completed"

        await until(is_done, "it was claimed anew")
    finally:
        worker.kill()
        worker.wait()
        await store.close()
    assert claimed.read_text() not in begun.read_text().split(), "the frozen claim was not begun"
