"""Batches made by a model over HTTP, as models are: throttling, failing, slow, and talkative."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.batches.chat_server import ChatServer, after, fails, items, never, no_json, prose, throttled
from tests.batches.scene import Maker, Scene, World

from rota import Rota
from rota.batches import BatchesPart, BatchStatus
from rota.batches.names import DETAIL_BATCH


@asynccontextmanager
async def _asking(world: World, server: ChatServer, **settings: Any) -> AsyncGenerator[Scene]:
    part = BatchesPart()
    told = {"generator": "openai", "llm_url": server.url, "llm_model": "small", "llm_key": "k", **settings}
    tasks = {DETAIL_BATCH: {"retry": {"base": "10ms", "max": "20ms"}}}
    app = Rota({**world.settings, "batches": told, "scheduler": {"tasks": tasks}}, parts=[part])
    async with app:
        scene = Scene(app, Maker(), part)
        try:
            yield scene
        finally:
            await scene.rest()


async def test_twenty_batches_end_with_nearly_the_fewest_calls(world: World) -> None:
    """429 with Retry-After, 500, no answer, bad JSON, prose, slow answers: all end, and hardly a call is wasted."""
    with ChatServer() as server:
        server.usual = items()
        server.then(throttled(1), fails(500), never(), no_json(), prose(), after(0.3, items()))
        async with _asking(world, server, call_timeout="6s") as scene:
            handles = [await scene.start(20, session_id=f"s{number}") for number in range(20)]
            scene.run()
            batches = await scene.until_over(*handles)
            assert {batch.status for batch in batches} == {BatchStatus.COMPLETED}
            assert {batch.items for batch in batches} == {20}
            assert sum(batch.failed for batch in batches) == 0
            assert all(batch.tokens_in for batch in batches)
        # Two subtasks each, and one call more for each that was answered badly.
        fewest = 20 * 2 + 5
        assert len(server.calls) <= fewest * 1.1


async def test_a_wrong_key_ends_a_batch_and_says_why(file_world: World) -> None:
    with ChatServer() as server:
        server.usual = fails(401)
        async with _asking(file_world, server) as scene:
            handle = await scene.start(5)
            scene.run()
            (batch,) = await scene.until_over(handle)
            assert batch.status is BatchStatus.FAILED
            (subtask,) = await scene.subtasks(handle)
            assert subtask.error_class == "refused"
            assert "401" in (subtask.error or "")
            assert (subtask.error or "") != "k"
            assert len(server.calls) == 1
