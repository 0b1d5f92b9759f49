"""A whole batch by a real model: asked for, split, claimed, made, sifted, topped up and told, as any other is."""

from __future__ import annotations

import asyncio

import pytest

from rota import Rota
from rota.batches import BatchesPart, BatchStatus
from rota.batches.names import DETAIL_BATCH

WANTED = 10


@pytest.mark.timeout(1_800)
async def test_it_writes_a_batch_of_ten(url: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    config = {
        "store": sqlite_url,
        "batches": {
            "generator": "openai",
            "llm_url": url,
            "llm_model": "smollm2",
            "concurrency": 1,
            "call_timeout": "5m",
            # It is lost for words now and then, and likes to say the same again.
            "top_up_rounds": 10,
        },
        "scheduler": {"tasks": {DETAIL_BATCH: {"max_retries": 20, "retry": {"base": "10ms", "max": "20ms"}}}},
    }
    app = Rota(config, parts=[BatchesPart()])
    async with app:
        job = asyncio.create_task(app.run(timeout=1))
        try:
            handle = await app.batches.start("character_name", WANTED, style="norse", seed=1)
            told = [event.event async for event in handle.events()]
            result = await handle.result()
        finally:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)
    assert result.batch.status is BatchStatus.COMPLETED
    assert len(result.items) == len({item.name for item in result.items}) == WANTED
    assert all(item.fields["description"] for item in result.items)
    assert result.batch.tokens_out > WANTED
    assert (told[0], told.count("item"), told[-1]) == ("accepted", WANTED, "completed")
