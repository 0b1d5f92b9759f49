"""Memory upkeep as a part: the built-in types with their handlers, and what the faces show of a memory.

memory = install_memory(app)
await memory.push(ChatPush(messages=[Message(content="...")], user_id="u1"))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rota.memory.section import MEMORY_SECTION
from rota.part import HasHost, Part

if TYPE_CHECKING:
    from fastapi import APIRouter

    from rota.config import Config
    from rota.dashboard.part import Pages
    from rota.memory.embedding import Embedder
    from rota.memory.memory import Memory
    from rota.memory.merging import Merger

__all__ = ["MemoryPart", "install_memory", "memory_of"]


class MemoryPart(Part):
    """Without an embedder or a merger those of the configuration count: the app's, or another that knows better."""

    name = "memory"
    section = MEMORY_SECTION
    keeps_data = True

    def __init__(
        self, *, embedder: Embedder | None = None, merger: Merger | None = None, config: Config | None = None
    ) -> None:
        self._config = config
        self._embedder = embedder
        self._merger = merger

    @cached_property
    def memory(self) -> Memory:
        """Everything that can be done with it."""
        from rota.memory.setup import make_memory

        return make_memory(self.host, self._config, embedder=self._embedder, merger=self._merger)

    def install(self) -> None:
        from rota.memory.setup import declare_types

        declare_types(self.host, self.memory)

    def routes(self) -> Sequence[APIRouter]:
        from rota.memory.faces import push_routes, routes

        return [push_routes.router, routes.router, routes.reading]

    def pages(self) -> Pages:
        from rota.memory.faces.pages import PAGES

        return PAGES

    async def erase_user(self, user_id: str) -> Mapping[str, int]:
        from rota.memory.person import erase_user

        return {"contexts": await erase_user(await self.host.database(), user_id)}

    async def export_user(self, user_id: str) -> AsyncIterator[Mapping[str, object]]:
        from rota.memory.person import export_user

        async for kept in export_user(await self.host.database(), user_id):
            yield kept.to_dict()


def install_memory(app: HasHost, *, embedder: Embedder | None = None, merger: Merger | None = None) -> Memory:
    """Have memory upkeep at work in an app, and give the memory that it keeps up."""
    return app.host.add(MemoryPart(embedder=embedder, merger=merger)).memory


def memory_of(app: HasHost) -> Memory:
    """The memory that was installed with an app; else the one of its configuration."""
    return app.host.part(MemoryPart).memory
