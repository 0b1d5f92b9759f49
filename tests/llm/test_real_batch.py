"""Whole batches by a real model: asked for, split, claimed, made, sifted, topped up and told, as any others are."""

from __future__ import annotations

import asyncio

import pytest

from rota import Rota
from rota.batches import BatchesPart, BatchStatus, Item
from rota.batches.generators.openai import OpenAiGenerator
from rota.batches.names import DETAIL_BATCH
from rota.llm import ChatClient

WANTED = 10
BATCHES = 5


@pytest.mark.timeout(1_800)
async def test_it_writes_ten_items(url: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of this size runs out of ideas: what is missing at the end of a batch is asked for by another one."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # It is lost for words now and then, too.
    tasks = {DETAIL_BATCH: {"max_retries": 20, "retry": {"base": "10ms", "max": "20ms"}}}
    settings = {"concurrency": 1, "call_timeout": "5m", "top_up_rounds": 4}
    generator = OpenAiGenerator(ChatClient(url, "smollm2", timeout=300.0), tokens_per_item=60)
    app = Rota(
        {"store": sqlite_url, "batches": settings, "scheduler": {"tasks": tasks}},
        parts=[BatchesPart(generator=generator)],
    )
    kept: list[Item] = []
    async with app:
        job = asyncio.create_task(app.run(timeout=1))
        try:
            for seed in range(BATCHES):
                kept += await _made(app, WANTED - len(kept), seed)
                if len(kept) == WANTED:
                    break
        finally:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)
    assert len(kept) == len({item.name for item in kept}) == WANTED
    assert all(item.fields["description"] for item in kept)


async def _made(app: Rota, count: int, seed: int) -> list[Item]:
    handle = await app.batches.start(
        "character_name", count, style="norse", seed=seed, session_id="saga", distinct="session"
    )
    told = [event.event async for event in handle.events()]
    result = await handle.result()
    assert result.batch.status is BatchStatus.COMPLETED
    assert (told[0], told.count("item"), told[-1]) == ("accepted", len(result.items), "completed")
    assert result.batch.tokens_out > len(result.items)
    return result.items
