"""Items through LiteLLM. It is an extra, and large: a stand-in of a few lines plays the package here, with errors named
and numbered as LiteLLM 1.106 names and numbers them; what it was asked is the same as for any other model."""

from __future__ import annotations

import sys
from collections.abc import Generator
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.batches.generators.base import GenerationRequest, Item
from rota.batches.generators.litellm import LiteLlmGenerator
from rota.errors import InvalidConfig
from rota.llm import PAUSE, BadAnswer, LlmFailed, LlmRefused, LlmTimeout, LlmUnavailable, Throttled, Usage

REQUEST = GenerationRequest(subtask_id="t", batch_id="b", session_id="s", type="item", count=3, style="grim")
STAND_IN = """
import os
prices = os.environ.get("LITELLM_LOCAL_MODEL_COST_MAP")
asked = []
async def acompletion(**options):
    asked.append(options)
    said = answer()
    if isinstance(said, Exception):
        raise said
    return said
"""


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "False")  # so that it is set back afterwards
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "litellm.py").write_text(STAND_IN)
    invalidate_caches()
    yield
    sys.modules.pop("litellm", None)


def said(text: object) -> object:
    choice = SimpleNamespace(message=SimpleNamespace(content=text), finish_reason="stop")
    return SimpleNamespace(choices=[choice], usage=SimpleNamespace(prompt_tokens=9, completion_tokens=4))


def answers(answer: object) -> Any:
    """The package, which answers so from now on."""
    played: Any = import_module("litellm")
    played.answer = lambda: answer
    return played


def error(name: str, status: int | None, **headers: str) -> Exception:
    made = type(name, (Exception,), {})("The key sk-secret is wrong.")
    vars(made).update(status_code=status, response=SimpleNamespace(headers=headers))
    return made


async def test_it_is_asked_as_any_other_model() -> None:
    package = answers(said('{"items": [{"name": "Ada"}]}'))
    generator = LiteLlmGenerator("anthropic/small", "sk-secret")
    made = await generator.generate(REQUEST)
    assert (made.items, made.usage) == ([Item("Ada")], Usage(9, 4))
    (asked,) = package.asked
    assert (asked["model"], asked["api_key"], asked["num_retries"]) == ("anthropic/small", "sk-secret", 0)
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert asked["response_format"]["json_schema"]["name"] == "items"
    await generator.close()


async def test_no_prices_are_fetched_when_it_is_imported() -> None:
    generator = LiteLlmGenerator("small")
    assert "litellm" not in sys.modules
    with pytest.raises(LlmUnavailable):  # the stand-in has no answer yet
        await generator.generate(REQUEST)
    assert sys.modules["litellm"].prices == "True"


@pytest.mark.parametrize(
    ("failure", "kind", "pause"),
    [
        (error("RateLimitError", 429), Throttled, PAUSE),
        (error("RateLimitError", 429, **{"retry-after": "7"}), Throttled, 7),
        (error("ServiceUnavailableError", 503, **{"retry-after": "2"}), Throttled, 2),
        (error("ServiceUnavailableError", 503), LlmUnavailable, PAUSE),
        (error("Timeout", 408), LlmTimeout, PAUSE),
        (error("APIConnectionError", 500), LlmUnavailable, PAUSE),
        (error("AuthenticationError", 401), LlmRefused, PAUSE),
        (error("NotFoundError", 404), LlmRefused, PAUSE),
        (error("BadRequestError", 400), LlmRefused, 0),
        (error("APIError", 413), LlmRefused, 0),
        (error("Odd", None), LlmUnavailable, PAUSE),
    ],
)
async def test_its_errors_are_ours(failure: Exception, kind: type[LlmFailed], pause: float) -> None:
    generator = LiteLlmGenerator("small", "sk-secret", "http://me:hunter2@models/v1")
    answers(failure)
    with pytest.raises(LlmFailed) as failed:
        await generator.generate(REQUEST)
    assert (type(failed.value), failed.value.pause) == (kind, pause)
    assert type(failure).__name__ in str(failed.value)
    assert "secret" not in str(failed.value)
    assert "hunter2" not in str(failed.value)


@pytest.mark.parametrize("odd", [None, SimpleNamespace(choices=[]), said(None), said([1])])
async def test_an_answer_without_a_text_is_none(odd: object) -> None:
    answers(odd)
    with pytest.raises(BadAnswer, match="without a text"):
        await LiteLlmGenerator("small").generate(REQUEST)


def _nowhere(_: str) -> None: ...


def test_without_the_package_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.batches.generators.litellm.find_spec", _nowhere)
    with pytest.raises(InvalidConfig, match=r"pip install 'rota\[litellm\]'.*proxy.*batches\.llm_url"):
        LiteLlmGenerator("small")
