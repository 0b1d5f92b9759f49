"""What the runtime's tests are played on: a store, some types with handlers, a worker, and a way to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

from msgspec.structs import replace

from rota.call_timeout import seconds_of
from rota.clock import Clock, Millis
from rota.core.task import Identity, NewTask, RunRecord, Task
from rota.core.task_type import RetryPolicy, TaskType, TriggerMode
from rota.runtime.duty import DutyContext
from rota.runtime.executor import Executor
from rota.runtime.handler import Handler, HandlerFunction, make_handler
from rota.runtime.health import Pulse
from rota.runtime.worker import Worker, WorkerSettings
from rota.stores.base import RunQuery, Store
from rota.testing.waiting import until

AT_ONCE = RetryPolicy(base_ms=0, max_ms=0)


class Stage:
    """Types with handlers over a store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.types: dict[str, TaskType] = {}
        self.handlers: dict[str, Handler] = {}

    async def add(
        self,
        function: HandlerFunction,
        name: str = "work",
        *,
        process: bool = False,
        positional: bool = False,
        timeout_ms: Millis = 60_000,
        max_retries: int = 0,
        concurrency: int | None = None,
        slots: Literal["shared", "own"] = "shared",
        after: tuple[str, ...] = (),
    ) -> None:
        task_type = TaskType(
            name=name,
            timeout_ms=timeout_ms,
            max_retries=max_retries,
            retry=AT_ONCE,
            concurrency=concurrency,
            slots=slots,
        )
        if after:
            task_type = replace(task_type, trigger_mode=TriggerMode.AFTER, after=after)
        self.types[name] = task_type
        self.handlers[name] = make_handler(name, function, process=process, positional=positional)
        await self.store.put_types([task_type])

    async def add_endless(self) -> asyncio.Event:
        """A type whose runs end only when they are told to; the event says that one has begun."""
        started = asyncio.Event()

        async def handle() -> None:
            started.set()
            await asyncio.Event().wait()

        await self.add(handle)
        return started

    async def schedule(self, *keys: str, name: str = "work", payload: str | None = None) -> None:
        new = [NewTask(task_type=name, key=key, user_id=key, payload=payload) for key in keys]
        await self.store.schedule(new)

    def worker(self, settings: WorkerSettings | None = None, instance: str | None = None) -> Worker:
        return Worker(self.store, self.handlers, self.types, settings, clock=self.clock, instance=instance)

    def context(
        self,
        store: Store | None = None,
        *,
        clock: Clock | None = None,
        instance: str = "here",
        call_timeout: float | None = None,
    ) -> DutyContext:
        """What a duty is made from; on another store or clock than the stage's, if one is given."""
        clock = clock or self.clock
        return DutyContext(store or self.store, instance, clock, Pulse(clock), lambda: 0.5, seconds_of(call_timeout))

    def executor(self, grace: float = 5.0) -> Executor:
        return Executor(
            self.store,
            self.handlers,
            self.types,
            clock=self.clock,
            chance=lambda: 0.5,
            pulse=Pulse(self.clock),
            grace=grace,
        )

    @asynccontextmanager
    async def at_work(self, settings: WorkerSettings | None = None) -> AsyncGenerator[Worker]:
        """A worker that runs, and is stopped at the end."""
        worker = self.worker(settings)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await until(lambda: worker.is_running)
            try:
                yield worker
            finally:
                await worker.stop(timeout=0)

    async def task(self, key: str, name: str = "work") -> Task:
        task = (await self.store.get([Identity(name, key)]))[0]
        assert task is not None, f"there is no task {name}/{key}"
        return task

    async def status(self, key: str, name: str = "work") -> str:
        return (await self.task(key, name)).status.value

    async def reached(self, key: str, status: str, name: str = "work") -> Task:
        """The task as it was when it was in this state: it may be in another one a moment later."""
        seen: list[Task] = []

        async def is_there() -> bool:
            found = (await self.store.get([Identity(name, key)]))[0]
            if found is None or found.status.value != status:
                return False
            seen.append(found)
            return True

        await until(is_there, f"{name}/{key} is {status}")
        return seen[-1]

    async def runs(self, name: str = "work") -> list[RunRecord]:
        """The run records, oldest first."""
        page = await self.store.runs(RunQuery(task_type=name, limit=1_000))
        return list(reversed(page.items))
