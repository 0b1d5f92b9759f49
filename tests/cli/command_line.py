"""What tests of the command line share: what a call said, and a store behind its back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tests.opening import opened

from rota.core.task import NewTask, Settlement, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.stores import open_store
from rota.stores.base import ClaimRequest, Store

__all__ = ["CallRota", "Said", "at", "claim", "dead_letter", "serving", "with_store"]

T = TypeVar("T")


@dataclass(frozen=True)
class Said:
    """What one call of `rota` printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What is on stdout. Any: each test says what it expects to find."""
        assert self.out, f"nothing was said, and the exit code is {self.code}: {self.err}"
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error on stderr, as `--json` prints it."""
        return json.loads(self.err)["error"]


class CallRota(Protocol):
    """Calls `rota` in this process."""

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Said: ...


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with the store behind the back of the command line."""
    return at(os.environ["ROTA_STORE"], work)


def at(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with a store."""

    async def run() -> T:
        async with opened(open_store(url)) as store:
            return await work(store)

    return asyncio.run(run())


def claim(name: str, key: str = "k") -> Callable[[Store], Awaitable[int]]:
    """Make a task of a type and claim it; the token."""

    async def work(store: Store) -> int:
        await store.put_types([TaskType(name=name, trigger_mode=TriggerMode.ONCE)])
        await store.schedule([NewTask(task_type=name, key=key)])
        request = ClaimRequest(wants=[(name, 1)], instance="i", claim_id=f"c-{key}", lease_ms=60_000)
        return (await store.claim(request)).tasks[0].token

    return work


def dead_letter(name: str = "export", *keys: str) -> None:
    """Tasks that failed for good."""

    async def work(store: Store) -> None:
        for key in keys or ("k",):
            token = await claim(name, key)(store)
            lost = Settlement(task_type=name, key=key, token=token, transition=Transition.FAIL, error="it answers 500")
            await store.settle([lost])

    with_store(work)


@contextmanager
def serving(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """A command that serves, as a process, for the length of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rota.cli", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
