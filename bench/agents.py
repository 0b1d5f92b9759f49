"""Scheduled agents that are all due in the same second: 1,000 of them over 50 groups, each of which runs one at a time.

Each must run once and only once. How late they start is what the engine makes of it: a group's twentieth agent cannot
start before its nineteenth has ended, so the agents' own time is printed beside the lateness.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from rota import Rota
from rota.agents import AGENT, AgentPayload, Agents, AgentSettings, install_agents
from rota.agents.isolation.base import OnProgress, RunnerResult, RunRequest
from rota.core.task import NewTask, RunRecord, RunStatus
from rota.stores.base import RunQuery
from rota.triggers import Once, encode_trigger

__all__ = ["agents"]

GROUPS: Final = 50
DUE_IN_MS: Final = 3_000
PATIENCE: Final = 600.0


class Quick:
    """An agent that answers at once: what is left is Rota's own work."""

    async def run(self, request: RunRequest, on_progress: OnProgress | None = None) -> RunnerResult:
        return RunnerResult(status="success", result=request.input.prompt)


def agents() -> None:
    """Print both: agents that take no time, and the built-in echo agent as real processes."""
    print(f"\nScheduled agents due in the same second, {GROUPS} groups, one run at a time in each")
    print(f"{'agent':<34}{'schedules':>10}{'each once':>11}{'all done':>10}{'late p50':>10}{'late p99':>10}")
    _print("answers at once (engine alone)", 1_000, quick=True)
    _print("echo, a supervised process each", 200, quick=False)


def _print(name: str, count: int, *, quick: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        Path(folder).chmod(0o711)
        runs, seconds = asyncio.run(_measure(Path(folder), count, quick=quick))
    fires = Counter(run.key for run in runs if run.status is RunStatus.SUCCESS)
    is_once = len(fires) == count and set(fires.values()) == {1} and len(runs) == count
    late = sorted(run.started_at - run.fire_at for run in runs if run.started_at and run.fire_at)
    p50, p99 = late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)]
    once = "yes" if is_once else "NO"
    print(f"{name:<34}{count:>10,}{once:>11}{seconds:>9.1f}s{p50 / 1000:>9.2f}s{p99 / 1000:>9.2f}s")


async def _measure(folder: Path, count: int, *, quick: bool) -> tuple[list[RunRecord], float]:
    app = Rota(f"sqlite:///{folder}/rota.db", max_concurrent=GROUPS)
    settings = AgentSettings(
        groups_dir=folder / "groups",
        isolation="process",
        concurrency=GROUPS if quick else 2 * (os.cpu_count() or 1),
        uid_base=None,
    )
    made = install_agents(app, settings)
    if quick:
        _answer_at_once(made)
    async with app:
        groups = await made.groups()
        for number in range(GROUPS):
            await groups.add(f"group-{number}")
        store = await app.store()
        due_at = await store.now() + DUE_IN_MS
        await store.schedule([_schedule(number, due_at) for number in range(count)])
        await app.start()
        began = time.perf_counter() + DUE_IN_MS / 1000
        async with asyncio.timeout(PATIENCE):
            while (await app.counts())[AGENT].completed < count:  # noqa: ASYNC110 -- the store's own figure is what counts
                await asyncio.sleep(0.1)
        seconds = time.perf_counter() - began
        await app.stop()
        return await _runs(app), seconds


def _answer_at_once(made: Agents) -> None:
    async def quick() -> Quick:
        return Quick()

    made.handler.runner = quick  # pyright: ignore[reportAttributeAccessIssue] -- a runner like any other


def _schedule(number: int, due_at: int) -> NewTask:
    group = f"group-{number % GROUPS}"
    payload = AgentPayload(group_folder=group, chat_jid=group, prompt=f"number {number}")
    return NewTask(
        task_type=AGENT,
        key=f"bench-{number}",
        trigger=encode_trigger(Once(at=due_at)),
        payload=msgspec.json.encode(payload).decode(),
        owner=group,
        serial=group,
    )


async def _runs(app: Rota) -> list[RunRecord]:
    store = await app.store()
    found: list[RunRecord] = []
    cursor: str | None = None
    while True:
        page = await store.runs(RunQuery(task_type=AGENT, limit=1_000, cursor=cursor))
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found


if __name__ == "__main__":
    agents()
