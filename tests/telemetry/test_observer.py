"""Whoever watches never harms what is watched: an observer that raises costs a line in the log, and no run."""

from __future__ import annotations

import asyncio

import pytest

from rota import Rota
from rota.clock import Instant
from rota.core.task import Task
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict


class Broken:
    """Raises whenever it is told of anything."""

    def __init__(self) -> None:
        self.told: set[str] = set()

    def _raise(self, what: str) -> None:
        self.told.add(what)
        raise ValueError(f"broken at {what}")

    def run_started(self, running: Running) -> None:
        self._raise("run_started")

    def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
        self._raise("run_ended")

    def write_refused(self, task: Task) -> None:
        self._raise("write_refused")

    def reaped(self, task: Task, now: Instant) -> None:
        self._raise("reaped")

    def claimed(self, count: int) -> None:
        self._raise("claimed")


async def test_an_observer_that_raises_harms_no_run(caplog: pytest.LogCaptureFixture) -> None:
    app = Rota("memory://")
    ran: list[str] = []

    @app.on_activity(after="0s")
    async def work(user_id: str) -> None:
        ran.append(user_id)

    broken = Broken()
    app.host.observers.append(broken)
    async with app, asyncio.timeout(60):
        for user in ("a", "b", "c"):
            await work.touch(user_id=user)
        assert await app.run_until_idle() == 3
        counts = (await app.counts())["work"]
    assert sorted(ran) == ["a", "b", "c"]
    assert (counts.pending, counts.running, counts.succeeded_total) == (0, 0, 3)
    assert broken.told == {"run_started", "run_ended", "claimed"}
    assert "broken at run_ended" in caplog.text
    assert caplog.text.count("observer failed") == 3, "each kind of failure is told once, not at every run"
