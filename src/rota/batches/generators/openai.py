"""Items from any server that speaks the OpenAI chat protocol: OpenAI, vLLM, Ollama, a LiteLLM proxy."""

from __future__ import annotations

from rota.batches.generators.prompt import TEMPERATURE, TOKENS_PER_ITEM, PromptedGenerator
from rota.llm import ChatClient

__all__ = ["OpenAiGenerator"]


class OpenAiGenerator(PromptedGenerator):
    """Asks through a client, which it closes with itself."""

    def __init__(
        self, client: ChatClient, *, temperature: float | None = TEMPERATURE, tokens_per_item: int = TOKENS_PER_ITEM
    ) -> None:
        super().__init__(client, temperature=temperature, tokens_per_item=tokens_per_item)
        self.client = client
