"""`/readyz`: whether this process can do its work, which is to claim."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.api.stage import Stage, staged

from rota.runtime.pruner import Pruner
from rota.stores.memory import MemoryStore
from rota.testing.faulty import FaultyStore
from rota.testing.waiting import until


@asynccontextmanager
async def at_work(store: FaultyStore) -> AsyncGenerator[Stage]:
    async with staged("memory://", store=store) as stage:
        await stage.app.start()
        try:
            yield stage
        finally:
            await stage.app.stop(0)


async def ready(stage: Stage, status: int, reason: str = "") -> dict[str, Any]:
    """What it says as soon as it answers so, and for this reason: a busy machine may first give another one."""
    body: dict[str, Any] = {}

    async def says_so() -> bool:
        nonlocal body
        answer = await stage.anonymous.get("/readyz")
        body = answer.json()
        return answer.status_code == status and any(reason in each for each in body["reasons"] or [""])

    await until(says_so, f"/readyz answers {status} {reason}")
    return body


async def test_without_a_worker_there_is_nothing_to_claim(stage: Stage) -> None:
    body = await ready(stage, 200)
    assert (body["status"], body["store"], body["can_claim"], body["reasons"]) == ("ok", "ok", None, [])


async def test_a_worker_says_when_each_of_its_loops_was_last_well() -> None:
    async with at_work(FaultyStore(MemoryStore())) as stage:
        body = await ready(stage, 200)
        assert (body["status"], body["can_claim"]) == ("ok", True)
        assert set(body["seconds_since_good"]) >= {"dispatcher", "sweeper", "heartbeat", "listener", "pruner"}


@pytest.mark.parametrize(("verb", "loop"), [("claim", "dispatcher"), ("tick", "sweeper")])
async def test_a_store_that_answers_but_cannot_be_worked_with_is_not_ready(verb: str, loop: str) -> None:
    store = FaultyStore(MemoryStore())
    async with at_work(store) as stage:
        await ready(stage, 200)
        with store.down(verb):
            await stage.app.schedule("job", key="now")
            body = await ready(stage, 503, f"The {loop} fails")
            assert (body["status"], body["store"], body["can_claim"]) == ("not_ready", "ok", False)
        await ready(stage, 200)


async def test_a_store_that_is_away_is_not_ready() -> None:
    store = FaultyStore(MemoryStore())
    async with at_work(store) as stage:
        with store.down():
            body = await ready(stage, 503)
            assert (body["store"], body["reasons"][-1]) == ("away", "The store cannot be reached.")
        await ready(stage, 200)


async def test_a_worker_that_ended_by_an_error_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started and nobody stopped it: whoever asks must not take this for a process that only serves."""

    async def broken(self: Pruner) -> None:
        raise RuntimeError("the password is sesame")

    monkeypatch.setattr(Pruner, "run", broken)
    async with at_work(FaultyStore(MemoryStore())) as stage:
        body = await ready(stage, 503, "not running")
        assert (body["can_claim"], body["reasons"]) == (False, ["The worker is not running."])
        assert "sesame" not in str(body)
        await stage.app.stop(0)
        assert (await ready(stage, 200))["can_claim"] is None
