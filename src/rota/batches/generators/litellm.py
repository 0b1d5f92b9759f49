"""Items through the package LiteLLM, which knows the protocols of many providers. An extra: it is large.

Its proxy does the same over the OpenAI protocol, in a process of its own; `OpenAiGenerator` with the proxy's address is
the better choice wherever one can run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, cast

from rota.batches.generators.prompt import TEMPERATURE, TOKENS_PER_ITEM, PromptedGenerator
from rota.clock import Clock, SystemClock
from rota.config.urls import masked
from rota.errors import InvalidConfig
from rota.llm import (
    PAUSE,
    TIMEOUT,
    Answer,
    BadAnswer,
    LlmFailed,
    LlmRefused,
    LlmTimeout,
    LlmUnavailable,
    Message,
    Schema,
    Throttled,
    Usage,
    retry_after,
)

__all__ = ["LiteLlmGenerator"]

_REFUSALS: Final = frozenset({400, 401, 403, 404, 413, 422})
_ABOUT_THIS_QUESTION: Final = frozenset({400, 413, 422})


class LiteLlmGenerator(PromptedGenerator):
    """Asks a model by LiteLLM's name for it, like "anthropic/claude-sonnet-4-5"."""

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = TIMEOUT,
        temperature: float | None = TEMPERATURE,
        tokens_per_item: int = TOKENS_PER_ITEM,
        clock: Clock | None = None,
    ) -> None:
        if find_spec("litellm") is None:
            raise InvalidConfig(
                "batches.generator is 'litellm', which is not installed. Run pip install 'rota[litellm]'; or, better,"
                " start LiteLLM's proxy, set batches.llm_url to its address and batches.generator to 'openai'."
            )
        super().__init__(
            _LiteLlm(model, api_key, base_url, timeout, clock or SystemClock()),
            temperature=temperature,
            tokens_per_item=tokens_per_item,
        )


class _LiteLlm:
    def __init__(self, model: str, api_key: str | None, base_url: str | None, timeout: float, clock: Clock) -> None:
        self._model = model
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._clock = clock
        self._package: Any = None

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> Answer:
        package = await self._loaded()
        options = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        if schema is not None:
            wanted = {"name": schema.name, "strict": True, "schema": schema.definition}
            options["response_format"] = cast("Any", {"type": "json_schema", "json_schema": wanted})
        try:
            async with asyncio.timeout(self._timeout):
                said: Any = await package.acompletion(
                    model=self._model,
                    messages=[{"role": message.role, "content": message.content} for message in messages],
                    api_key=self._api_key,
                    base_url=self._base_url,
                    timeout=self._timeout,
                    num_retries=0,  # Rota asks again itself
                    drop_params=True,  # not every provider knows a seed
                    **{name: value for name, value in options.items() if value is not None},
                )
        except TimeoutError:
            raise LlmTimeout(self._problem(f"did not answer within {self._timeout:g} s"), pause=PAUSE) from None
        except Exception as error:
            # Its errors have no common base, and their messages may hold a key: they are known by name and status.
            raise self._failure(error) from None
        return self._read(said)

    async def close(self) -> None:
        """Its connections are its own."""

    async def _loaded(self) -> Any:
        if self._package is None:
            self._package = await asyncio.to_thread(_imported)  # it takes seconds
        return self._package

    def _read(self, said: Any) -> Answer:
        try:
            choice = said.choices[0]
            content = choice.message.content
        except (AttributeError, IndexError, TypeError):
            content = choice = None
        if not isinstance(content, str):
            raise BadAnswer(self._problem("answered without a text"))
        counted = getattr(said, "usage", None)
        usage = Usage(*(_count(getattr(counted, name, 0)) for name in ("prompt_tokens", "completion_tokens")))
        return Answer(content, usage, str(getattr(choice, "finish_reason", None) or ""))

    def _failure(self, error: Exception) -> LlmFailed:
        name, status = type(error).__name__, getattr(error, "status_code", None)
        what = self._problem(f"failed with {name} (status {status})")
        wait = retry_after(_headers(error).get("retry-after"), now=self._clock.now())
        if "Timeout" in name or status == 408:
            return LlmTimeout(what, pause=PAUSE)
        if status == 429 or (status == 503 and wait is not None):
            return Throttled(what, retry_after=wait)
        if status in _REFUSALS:
            return LlmRefused(what, pause=0.0 if status in _ABOUT_THIS_QUESTION else PAUSE, answered=status)
        return LlmUnavailable(what, pause=PAUSE)

    def _problem(self, what: str) -> str:
        at = f" at {masked(self._base_url)}" if self._base_url else ""
        return (
            f"The model {self._model!r}{at}, asked through LiteLLM, {what}. Check its name, its key and that it runs."
        )


def _imported() -> Any:
    # Else the import fetches a list of prices from the internet.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm  # pyright: ignore[reportMissingImports] -- an extra

    package = cast("Any", litellm)
    package.suppress_debug_info = True  # it would print advice to the terminal at each failure
    return package


def _headers(error: Exception) -> Mapping[str, str]:
    """Those of the server's answer, wherever this error keeps them."""
    kept = getattr(error, "litellm_response_headers", None) or getattr(
        getattr(error, "response", None), "headers", None
    )
    return cast("Mapping[str, str]", kept or {})


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
