"""The scheduler interface of the documents that Rota was built from (docs/flaws.md): calls that every app has.

scheduler = init_scheduler("sqlite:///rota.db", config)          # config: the content of `scheduler:`
scheduler.register_handler("memory_compression", compress)       # compress(user_id, device_id, agent_id) -> bool
await scheduler.start()
await scheduler.schedule_user_task("memory_compression", "u1", "phone")
await scheduler.stop()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final

from rota.app.host import Host
from rota.app.task_info import TaskInfo
from rota.core.outcome import TouchOutcome
from rota.core.task import Identity
from rota.core.task_type import TaskConfig, TaskType, TriggerMode
from rota.keys import UserKeyBuilder
from rota.logs import get_logger
from rota.stores.base import Counts

__all__ = ["ITaskScheduler", "SchedulerInterface", "TaskHandler"]

TaskHandler = Callable[[str, str | None, str | None], Awaitable[bool] | bool]
"""(user_id, device_id, agent_id) -> success; three None for periodic types. One that is not async runs in a thread."""

log = get_logger("rota.scheduler")

_MADE_A_TASK: Final = frozenset({TouchOutcome.CREATED, TouchOutcome.DEFERRED, TouchOutcome.SPOOLED})


class ITaskScheduler(ABC):
    """What a scheduler can do, in the words of the scheduler interface."""

    @abstractmethod
    async def register_task_type(self, config: TaskConfig) -> bool:
        """Register a task type."""

    @abstractmethod
    def register_handler(self, task_type: str, handler: TaskHandler) -> bool:
        """Register the handler of a type, in this process."""

    @abstractmethod
    async def schedule_user_task(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """A user was active; True if that made a task."""

    @abstractmethod
    async def get_pending_task(self, task_type: str) -> TaskInfo | None:
        """Claim a due task by hand."""

    @abstractmethod
    async def complete_task(self, task_type: str, user_key: str, lock_token: str, success: bool = True) -> None:
        """Say how a task that was claimed by hand ended."""

    @abstractmethod
    async def get_task_config(self, task_type: str) -> TaskConfig | None:
        """The settings of a type."""

    @abstractmethod
    async def start(self) -> None:
        """Work in the background."""

    @abstractmethod
    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the interface's signature
        """Stop working: running work may finish for `timeout` seconds."""

    @abstractmethod
    def is_running(self) -> bool:
        """Whether it works in the background."""


class SchedulerInterface(ITaskScheduler):
    """The interface over a host."""

    host: Host

    @property
    def user_key_builder(self) -> UserKeyBuilder:
        """Builds the keys of users' tasks."""
        return self.host.keys

    async def register_task_type(self, config: TaskConfig | TaskType) -> bool:
        """Register a type, here and in the store. Always True: what is impossible raises `InvalidConfig`."""
        await self.host.register_type(config if isinstance(config, TaskType) else config.to_task_type())
        return True

    def register_handler(
        self, task_type: str, handler: TaskHandler, *, trigger_mode: TriggerMode | None = None
    ) -> bool:
        """Register the handler of a type; it gets (user_id, device_id, agent_id), or three None without a user.

        A worker that runs serves it from now on. `trigger_mode` says what the handler was written for; a configuration
        that contradicts it is refused.
        """
        self.host.register_handler(task_type, handler, trigger_mode)
        return True

    async def get_task_config(self, task_type: str) -> TaskConfig | None:
        """The settings of a type that this process or, failing that, the store knows; None if neither does."""
        known = await self.host.types.find(task_type)
        return None if known is None else TaskConfig.from_task_type(known)

    async def get_queue_depths(self) -> dict[str, int]:
        """How many tasks of each registered type are pending."""
        store = await self.host.ready()
        counts = await store.counts()
        names = [record.task_type.name for record in await store.list_types()]
        return {name: counts.get(name, Counts()).pending for name in names}

    async def schedule_user_task(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """A user was active. True if that made a task; a type that is unknown or not user_activity gives False."""
        known = await self.host.types.find(task_type)
        if known is None or known.trigger_mode is not TriggerMode.USER_ACTIVITY:
            reason = "unknown type" if known is None else f"the type is {known.trigger_mode}, not user_activity"
            log.warning("skip", task_type=task_type, reason=reason)
            return False
        touched = await self.host.touch(task_type, user_id, device_id, agent_id)
        return touched.outcome in _MADE_A_TASK

    async def get_pending_task(self, task_type: str) -> TaskInfo | None:
        """Claim a due task, to be settled by `complete_task` within the type's timeout; None if nothing is due."""
        if await self.host.types.find(task_type) is None:
            log.warning("skip", task_type=task_type, reason="unknown type")
            return None
        task = await self.host.manual_claims.claim(await self.host.ready(), task_type)
        return None if task is None else TaskInfo.of(task)

    async def complete_task(self, task_type: str, user_key: str, lock_token: str, success: bool = True) -> None:
        """Say how a claimed task ended; failed ones are retried. A stale token changes nothing: `LeaseLost`."""
        identity = Identity(task_type, user_key)
        await self.host.manual_claims.settle(await self.host.ready(), identity, lock_token, success=success)

    async def start(self) -> None:
        """Work in the background of this event loop, until `stop`. Starting again is harmless.

        A shared store that is away is waited for, in the background too: an outage ends no application, not even one
        that starts during it.
        """
        await self.host.start()

    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the interface's signature
        """Stop working: running work may finish for `timeout` seconds, then it is released to run elsewhere."""
        await self.host.stop(timeout)

    def is_running(self) -> bool:
        """Whether it works in the background."""
        return self.host.background.is_running
