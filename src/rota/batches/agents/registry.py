"""What can be asked for: each type of items with the agent that makes them. An unknown one is an error, never a guess.

@app.generator("recipe", agent="cook", size=10)
async def recipe(request: GenerationRequest) -> list[str]: ...
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from rota.batches.dedupe import DEFAULT_THRESHOLD, THRESHOLDS
from rota.batches.generators.base import GenerationRequest
from rota.batches.split import BASE_SIZES, DEFAULT_SIZE, MAX_SIZE
from rota.core.task_type import did_you_mean
from rota.errors import InvalidInput
from rota.events.consumer import canonical

__all__ = ["CHARACTER_EXPERT", "WORLD_BUILDER", "GeneratorFunction", "ItemType", "ItemTypes"]

CHARACTER_EXPERT: Final = "characterexpert"
WORLD_BUILDER: Final = "worldbuilder"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_AGENT: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")

GeneratorFunction = Callable[[GenerationRequest], Awaitable[Any]]
"""Makes items: texts, mappings with a name, `Item`s, or a whole `Generated`."""


@dataclass(frozen=True, kw_only=True)
class ItemType:
    """One type of items."""

    name: str
    agent: str
    size: int
    """Items that one subtask asks for, as a rule."""
    similarity: float
    """Items that are more alike than this are one."""
    function: GeneratorFunction | None = None
    """Whoever makes them, if it is not the configured generator."""


def _built_in() -> Iterator[ItemType]:
    for name, size in BASE_SIZES.items():
        agent = CHARACTER_EXPERT if name == "character_name" else WORLD_BUILDER
        yield ItemType(name=name, agent=agent, size=size, similarity=THRESHOLDS.get(name, DEFAULT_THRESHOLD))


class ItemTypes:
    """The types that this process knows: those of Rota, and those of the app."""

    def __init__(self) -> None:
        self._by_name = {one.name: one for one in _built_in()}

    def copy(self) -> ItemTypes:
        """The same ones; what is added to one of the two from now on is not known to the other one."""
        twin = ItemTypes()
        twin._by_name.update(self._by_name)
        return twin

    def add(
        self,
        name: str,
        function: GeneratorFunction,
        *,
        agent: str | None = None,
        size: int = DEFAULT_SIZE,
        similarity: float = DEFAULT_THRESHOLD,
    ) -> ItemType:
        """Have items of a type made by a function. One of Rota's own types is made by it from then on."""
        agent = canonical(agent or name.replace("_", "-"))
        where = f"The generator {name!r}"
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"No type of items can be called {name!r}. Use small letters, digits and '_'.")
        if not _AGENT.fullmatch(agent):
            raise InvalidInput(f"{where} has agent={agent!r}. Use small letters, digits, '_' and '-'.")
        if not 1 <= size <= MAX_SIZE:
            raise InvalidInput(f"{where} has size={size}. Use 1 to {MAX_SIZE} items a call.")
        if not 0.5 <= similarity <= 1.0:
            raise InvalidInput(f"{where} has similarity={similarity}. Use 0.5 to 1; 0.95 is usual.")
        known = self._by_name.get(name)
        if known is not None and known.function not in (None, function):
            raise InvalidInput(f"There are two generators of {name!r}. Name one of them otherwise.")
        self._by_name[name] = ItemType(name=name, agent=agent, size=size, similarity=similarity, function=function)
        return self._by_name[name]

    def find(self, name: str) -> ItemType:
        """The type of a name. One that is not there is an error: nothing stands in for it."""
        found = self._by_name.get(name)
        if found is None:
            raise InvalidInput(f"Nobody makes items of the type {name[:64]!r}. {did_you_mean(name, self._by_name)}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[ItemType]:
        return iter(self._by_name.values())

    @property
    def agents(self) -> list[str]:
        """Those that make something here."""
        return sorted({one.agent for one in self})
