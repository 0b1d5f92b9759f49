"""The generator that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rota.batches.generators.base import Bounded, Generator
from rota.batches.generators.concurrency import Concurrency
from rota.batches.section import BatchesConfig
from rota.clock import SECOND, Clock
from rota.errors import InvalidConfig

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["generator_for"]


def generator_for(
    config: BatchesConfig,
    concurrency: Concurrency,
    *,
    clock: Clock,
    tracer: Tracer | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Generator:
    """Only the one that is used is imported. One that asks a provider is bounded by what that bears."""
    match config.generator:
        case "offline":
            from rota.batches.generators.offline import OfflineGenerator

            return OfflineGenerator()
        case "openai":
            return Bounded(_openai(config, clock, tracer, environ), concurrency)
        case _:
            from rota.batches.generators.litellm import LiteLlmGenerator

            if not config.llm_model:
                raise InvalidConfig("batches.generator is 'litellm': say which model, in batches.llm_model.")
            model = LiteLlmGenerator(
                config.llm_model,
                config.llm_key,
                config.llm_url,
                timeout=config.call_timeout_ms / SECOND,
                clock=clock,
            )
            return Bounded(model, concurrency)


def _openai(config: BatchesConfig, clock: Clock, tracer: Tracer | None, environ: Mapping[str, str]) -> Generator:
    from rota.batches.generators.openai import OpenAiGenerator
    from rota.llm import ChatClient

    url = config.llm_url or environ.get("OPENAI_BASE_URL")
    if not config.llm_model or not url:
        raise InvalidConfig(
            "batches.generator is 'openai', but nobody says which model to ask, or where. Set batches.llm_model and"
            " batches.llm_url or OPENAI_BASE_URL (and batches.llm_key or OPENAI_API_KEY, if the server wants one)."
        )
    client = ChatClient(
        url,
        config.llm_model,
        config.llm_key or environ.get("OPENAI_API_KEY"),
        timeout=config.call_timeout_ms / SECOND,
        clock=clock,
        tracer=tracer,
        setting="batches.llm_url",
    )
    return OpenAiGenerator(client)
