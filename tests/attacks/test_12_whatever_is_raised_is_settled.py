"""Whatever a handler raises, its run is settled at once and counted, and the worker goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import structlog
from structlog.typing import EventDict, WrappedLogger

from rota import Rota
from rota.app.results import Receipt, TaskDetails
from rota.core.task import Task
from rota.runtime import Retry
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict
from rota.testing.waiting import until


class Stop(BaseException):
    """As the cancellations and timeouts of other libraries are: no Exception."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Worse(Exception):
    def __str__(self) -> str:
        raise Stop("no")

    __repr__ = __str__


class Unfinished(Retry):
    def __init__(self) -> None:  # which leaves out what a Retry is made of
        Exception.__init__(self)


RAISED: dict[str, Callable[[], BaseException]] = {
    "base": lambda: Stop("x"),
    "interrupt": KeyboardInterrupt,
    "generator_exit": GeneratorExit,
    "exit": lambda: SystemExit(3),
    "group": lambda: BaseExceptionGroup("several", [Stop("y"), ValueError("z")]),
    "stop_iteration": lambda: StopIteration(3),
    "cancelled": lambda: asyncio.CancelledError("its own"),
    "unprintable": Unprintable,
    "worse": Worse,
    "unfinished": Unfinished,
}


def in_a_thread(payload: str) -> None:
    error = RAISED[payload]()
    raise error


async def awaited(payload: str) -> None:
    error = RAISED[payload]()
    raise error


def app_with(function: Callable[[str], object], *, process: bool = False) -> Rota:
    app = Rota("memory://")
    app.task(name="work", timeout="10m", max_retries=0, process=process)(function)
    return app


async def found(app: Rota, receipt: Receipt) -> TaskDetails:
    task = await app.tasks.get(receipt.task_type, receipt.key)
    assert task is not None
    return task


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("function", [awaited, in_a_thread])
async def test_it_is_settled_at_once(function: Callable[[str], object], raised: str) -> None:
    app = app_with(function)
    async with app:
        await app.start()
        receipt = await app.schedule("work", raised)

        async def is_settled() -> bool:
            return (await found(app, receipt)).status == "failed"

        await until(is_settled, f"a handler that raised {raised} is settled")
        task = await found(app, receipt)
        assert (task.reason, task.errors) == ("error", 1)
        assert app.is_running(), "the worker goes on"

        async def is_free() -> bool:
            return app.health().running == 0

        # The store knows of the end a moment before the executor has heard its answer.
        await until(is_free, "its slot is free")
        await app.stop()


@pytest.mark.parametrize("raised", ["base", "interrupt", "generator_exit", "worse", "unfinished"])
async def test_it_is_settled_also_from_a_process_of_its_own(raised: str) -> None:
    app = app_with(in_a_thread, process=True)
    async with app:
        receipt = await app.schedule("work", raised)
        assert await app.run_until_idle() == 1
        task = await found(app, receipt)
        assert (task.status, task.reason) == ("failed", "error")
        assert "process" not in (task.error or ""), "the child itself has answered"


class Curious:
    """An observer that reads what was raised."""

    def run_started(self, running: Running) -> None: ...

    def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
        str(running.error)

    def write_refused(self, task: Task) -> None: ...

    def reaped(self, task: Task, now: int) -> None: ...

    def claimed(self, count: int) -> None: ...


def _read(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    str(event.get("exc_info", ""))
    raise structlog.DropEvent


async def test_who_looks_at_it_stumbles_alone() -> None:
    """An observer or a log that cannot show what was raised costs the run nothing."""
    structlog.configure(processors=[_read])
    app = app_with(awaited)
    app.host.observers.append(Curious())
    async with app:
        receipts = [await app.schedule("work", "worse") for _ in range(3)]
        assert await app.run_until_idle() == 3
        tasks = [await found(app, receipt) for receipt in receipts]
        assert [task.status for task in tasks] == ["failed"] * 3


async def test_a_loop_that_ends_takes_its_runs_with_it() -> None:
    """A coroutine that is thrown away is no handler that raised GeneratorExit: nothing more is done with it."""
    app = app_with(awaited)
    started = asyncio.Event()

    @app.task(name="endless")
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app:
        receipt = await app.schedule("endless")
        working = asyncio.create_task(app.run_until_idle())
        await started.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert (await found(app, receipt)).status == "pending", "released, as at any shutdown"
