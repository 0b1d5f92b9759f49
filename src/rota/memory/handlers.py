"""The handlers of the built-in types, and the factories of the scheduler interface.

Errors are raised, never turned into a success: the scheduler retries them, counts them and shows them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast, overload

from rota.clock import Millis
from rota.memory.memory import Memory
from rota.memory.types import (
    DATA_CLEANUP,
    EMBEDDING_REFRESH,
    HIERARCHY_SUMMARY,
    MEMORY_COMPRESSION,
    STATISTICS_UPDATE,
)
from rota.runtime.handler import is_async
from rota.runtime.run import Run
from rota.runtime.signals import Snooze

__all__ = [
    "create_cleanup_handler",
    "create_compression_handler",
    "handlers_of",
    "periodic_memory_compression_for_user",
]

UNFINISHED: Final = "2s"
"""A run whose time is spent goes on after a moment; others get their turn between."""

AsyncHandler = Callable[[str | None, str | None, str | None], Awaitable[bool]]
IdsHandler = Callable[[str | None, str | None, str | None], Awaitable[bool] | bool]


class _AsyncMerger(Protocol):
    @property
    def periodic_memory_compression_for_user(self) -> Callable[..., Awaitable[object]]: ...


class _Merger(Protocol):
    @property
    def periodic_memory_compression_for_user(self) -> Callable[..., object]: ...


class _AsyncStorage(Protocol):
    @property
    def cleanup_expired_data(self) -> Callable[..., Awaitable[object]]: ...


class _Storage(Protocol):
    @property
    def cleanup_expired_data(self) -> Callable[..., object]: ...


# --- factories of the scheduler interface ----------------------------------------------------------------------------


@overload
def create_compression_handler(merger: _AsyncMerger, interval_seconds: int = 1800) -> AsyncHandler: ...


@overload
def create_compression_handler(merger: _Merger, interval_seconds: int = 1800) -> IdsHandler: ...


def create_compression_handler(merger: _Merger, interval_seconds: int = 1800) -> IdsHandler:
    """A handler for `register_handler("memory_compression", ...)`; `merger` is a `Memory`, or what compresses alike.

    One whose method is not async gets a handler that is not: it runs in a thread.
    """
    compress = merger.periodic_memory_compression_for_user

    def arguments(user_id: str, device_id: str | None, agent_id: str | None) -> dict[str, object]:
        ids = {"user_id": user_id, "device_id": device_id, "agent_id": agent_id}
        return {**ids, "interval_seconds": interval_seconds}

    async def handler(user_id: str | None, device_id: str | None, agent_id: str | None) -> bool:
        if user_id is None:
            return True
        return _success(await cast("Awaitable[object]", compress(**arguments(user_id, device_id, agent_id))))

    def blocking(user_id: str | None, device_id: str | None, agent_id: str | None) -> bool:
        return user_id is None or _success(compress(**arguments(user_id, device_id, agent_id)))

    return handler if is_async(compress) else blocking


@overload
def create_cleanup_handler(storage: _AsyncStorage) -> AsyncHandler: ...


@overload
def create_cleanup_handler(storage: _Storage) -> IdsHandler: ...


def create_cleanup_handler(storage: _Storage) -> IdsHandler:
    """A handler for `register_handler("data_cleanup", ...)`; `storage` is a `Memory`, or what cleans up alike."""
    clean_up = storage.cleanup_expired_data

    async def handler(user_id: str | None, device_id: str | None, agent_id: str | None) -> bool:
        return _success(await cast("Awaitable[object]", clean_up()))

    def blocking(user_id: str | None, device_id: str | None, agent_id: str | None) -> bool:
        return _success(clean_up())

    return handler if is_async(clean_up) else blocking


def _success(answer: object) -> bool:
    """Mergers and storages answer with nothing, or with what they did; only one that says False has failed."""
    return answer is not False


async def periodic_memory_compression_for_user(
    memory: Memory,
    user_id: str,
    device_id: str | None = None,
    agent_id: str | None = None,
    interval_seconds: int = 1800,
) -> dict[str, object]:
    """Compress one user's memory now, outside any task."""
    done = await memory.periodic_memory_compression_for_user(user_id, device_id, agent_id, interval_seconds)
    return done.to_dict()


# --- the built-in ones -----------------------------------------------------------------------------------------------


def handlers_of(memory: Memory, *, overdue_ms: Millis) -> dict[str, Callable[..., Awaitable[object]]]:
    """The handler of each built-in type, by its name. Upkeep that has waited for `overdue_ms` is asked for again."""

    async def memory_compression(user_id: str, device_id: str, agent_id: str, run: Run) -> dict[str, object]:
        budget = memory.budget(run.timeout_ms)
        done = await memory.compress_and_come_again(
            user_id, device_id, agent_id, budget, lambda so_far: run.progress(so_far.to_dict())
        )
        if not done.is_finished:
            raise Snooze(UNFINISHED)
        return done.to_dict()

    async def embedding_refresh(user_id: str, device_id: str, agent_id: str, run: Run) -> dict[str, object]:
        scope = memory.scope_of(user_id, device_id, agent_id)
        done = await memory.refresh(scope, memory.budget(run.timeout_ms), lambda so_far: run.progress(so_far.to_dict()))
        if not done.is_finished:
            raise Snooze(UNFINISHED)
        return done.to_dict()

    async def data_cleanup(run: Run) -> dict[str, object]:
        done = await memory.cleanup_expired_data(
            memory.budget(run.timeout_ms), lambda so_far: run.progress(so_far.to_dict())
        )
        if not done.is_finished:
            raise Snooze(UNFINISHED)
        return done.to_dict()

    async def statistics_update(run: Run) -> dict[str, object]:
        done = await memory.count(memory.budget(run.timeout_ms), lambda so_far: run.progress(so_far.to_dict()))
        return {**done.to_dict(), "reminded": await memory.remind(overdue_ms)}

    async def hierarchy_summary(user_id: str, device_id: str, agent_id: str, run: Run) -> dict[str, object]:
        done = await memory.summarise(memory.scope_of(user_id, device_id, agent_id), memory.budget(run.timeout_ms))
        if not done.is_finished:
            raise Snooze(UNFINISHED)
        return done.to_dict()

    return {
        MEMORY_COMPRESSION.name: memory_compression,
        EMBEDDING_REFRESH.name: embedding_refresh,
        DATA_CLEANUP.name: data_cleanup,
        STATISTICS_UPDATE.name: statistics_update,
        HIERARCHY_SUMMARY.name: hierarchy_summary,
    }
