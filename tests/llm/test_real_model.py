"""A real model, of 135 million parameters: small and simple-minded, but a stranger to everything that is expected here.

`make test-llm` makes its environment; without it these tests are skipped. What the model says is not judged, only that
it comes through: items that can be kept, whatever it takes to get so many out of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from rota.batches.dedupe import sift, threshold_of
from rota.batches.generators.base import GenerationRequest, Item
from rota.batches.generators.openai import OpenAiGenerator
from rota.llm import BadAnswer, ChatClient, LlmTimeout, Message, Usage

WANTED = 10
TRIES = 20
TIMEOUT = 120.0


@pytest.fixture
async def client(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ChatClient]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = ChatClient(url, "smollm2", timeout=TIMEOUT)
    yield made
    await made.close()


async def test_it_answers_and_counts(client: ChatClient) -> None:
    answer = await client.ask([Message("user", "Say hello.")], max_tokens=20, temperature=0.0, seed=1)
    assert answer.content.strip()
    assert answer.usage.tokens_in > 0
    assert 0 < answer.usage.tokens_out <= 20
    assert answer.finish_reason in ("stop", "length")


async def test_it_makes_ten_items_that_can_be_kept(client: ChatClient) -> None:
    # It babbles now and then, up to the limit; and it copies the names that it is told to avoid, so it is told none.
    generator = OpenAiGenerator(client, tokens_per_item=60)
    kept: list[Item] = []
    usage = Usage()
    for attempt in range(TRIES):
        request = GenerationRequest(
            subtask_id="t",
            batch_id="b",
            session_id="s",
            type="character_name",
            count=WANTED - len(kept),
            style="norse",
            seed=1,
            index=attempt,
        )
        try:
            made = await generator.generate(request)
        except BadAnswer as failure:  # a model of this size is lost for words now and then
            usage += failure.usage
            continue
        assert len(made.items) <= request.count
        usage += made.usage
        kept += sift(made.items, [item.name for item in kept], threshold_of("character_name")).kept
        if len(kept) == WANTED:
            break
    assert len(kept) == WANTED
    assert sift(kept, [], threshold_of("character_name")).kept == kept
    assert all("description" in item.fields for item in kept)
    assert usage.tokens_out > WANTED


async def test_whoever_has_no_time_for_it_hears_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    hurried = ChatClient(url, "smollm2", timeout=0.05)
    with pytest.raises(LlmTimeout):
        await hurried.ask([Message("user", "Tell me a long story.")], max_tokens=2_000)
    await hurried.close()
