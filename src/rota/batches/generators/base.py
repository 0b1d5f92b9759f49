"""What a generator is asked and what it answers. How it makes names is its own business.

Whatever goes wrong is an error of `rota.llm`, also where no model is asked over HTTP.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from rota.batches.generators.concurrency import Concurrency
from rota.codec import to_json
from rota.llm import Usage

__all__ = [
    "MAX_FIELDS",
    "MAX_FIELD_LENGTH",
    "Bounded",
    "Generated",
    "GenerationRequest",
    "Generator",
    "Item",
    "estimate",
    "item_of",
    "seed_of",
    "style_text",
]

MAX_FIELDS: Final = 10
MAX_FIELD_LENGTH: Final = 2_000
"""Characters of a description, or of any other field; what is longer is cut."""
MAX_FIELD_NAME: Final = 60

_TOKENS_OF_TASK: Final = 300
_TOKENS_OF_ITEM: Final = 45
_LETTERS_OF_TOKEN: Final = 3


class Item(msgspec.Struct, frozen=True):
    """One thing that was made. `item_of` makes one within the limits."""

    name: str
    fields: dict[str, str] = {}


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The items of one subtask."""

    subtask_id: str
    batch_id: str
    session_id: str
    type: str
    count: int
    style: str | dict[str, Any] = ""
    seed: int = 0
    """The batch's: all its subtasks have the same."""
    index: int = 0
    """Which subtask of the batch it is."""
    round: int = 0
    """0 at first; then what was missing is asked for again."""
    attempt: int = 1
    """Above 1, somebody has tried before."""
    avoid: tuple[str, ...] = ()
    """Names that are there already, the latest last."""


class Generated(msgspec.Struct, frozen=True):
    """What a generator made: at most as many as were asked for, and maybe fewer."""

    items: list[Item]
    usage: Usage = Usage()
    invalid: int = 0
    """What came without a name, or was no item at all."""


class Generator(Protocol):
    """Makes items."""

    async def generate(self, request: GenerationRequest) -> Generated:
        """Up to `count` items. Raises a `LlmFailed` that says what became of it."""
        ...

    def estimate(self, type: str, count: int, style: str | dict[str, Any]) -> int:  # noqa: A002 - the word of requests
        """How many tokens that will take, about."""
        ...

    async def close(self) -> None: ...


class Bounded:
    """Another generator, no more often at once than bears it."""

    def __init__(self, generator: Generator, concurrency: Concurrency) -> None:
        self.concurrency = concurrency
        self._generator = generator

    async def generate(self, request: GenerationRequest) -> Generated:
        async with self.concurrency.slot():
            return await self._generator.generate(request)

    def estimate(self, type: str, count: int, style: str | dict[str, Any]) -> int:  # noqa: A002 - the word of requests
        return self._generator.estimate(type, count, style)

    async def close(self) -> None:
        await self._generator.close()


def estimate(type: str, count: int, style: str | dict[str, Any]) -> int:  # noqa: A002 - the word of requests
    """Tokens that a model takes for so many items, both ways: 300 for the task, one for three letters of the type and
    the style, 45 for each item (its name, and a sentence about it)."""
    letters = len(type) + len(style_text(style))
    return _TOKENS_OF_TASK + letters // _LETTERS_OF_TOKEN + count * _TOKENS_OF_ITEM


def item_of(name: str, fields: Mapping[str, str]) -> Item:
    """An item within the limits: one line for a name, and nothing that no database keeps."""
    kept = list(fields.items())[:MAX_FIELDS]
    return Item(_on_one_line(name), {key[:MAX_FIELD_NAME]: _clean(text)[:MAX_FIELD_LENGTH] for key, text in kept})


def seed_of(request: GenerationRequest) -> int:
    """A number for this subtask and round: the same on every machine, another for each."""
    told = f"{request.seed}/{request.index}/{request.round}/{request.type}"
    return int.from_bytes(hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()[:8])


def style_text(style: str | dict[str, Any]) -> str:
    return style if isinstance(style, str) else to_json(style).decode()


def _on_one_line(text: str) -> str:
    return " ".join(_clean(text).split())


def _clean(text: str) -> str:
    """Without control characters; lines and tabs are no harm."""
    if text.isprintable():
        return text.strip()
    return "".join(sign for sign in text if sign >= " " or sign in "\n\t").replace("\x7f", "").strip()
