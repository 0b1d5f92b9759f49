"""Finding contexts by what they say."""

from __future__ import annotations

from typing import Final, NamedTuple

from rota.memory.compression import embedded
from rota.memory.context import Context, Scope, check_text
from rota.memory.contexts import Contexts
from rota.memory.embedding import Embedder
from rota.memory.vectors import cosines, from_bytes

__all__ = ["MAX_FOUND", "Found", "search"]

MAX_FOUND: Final = 100
PAGE: Final = 5_000
"""Vectors that are compared at once."""


class Found(NamedTuple):
    """A context, and how similar it is to what was looked for."""

    context: Context
    similarity: float

    def to_dict(self) -> dict[str, object]:
        return {**self.context.to_dict(), "similarity": round(self.similarity, 4)}


async def search(contexts: Contexts, embedder: Embedder, scope: Scope, text: str, *, limit: int = 10) -> list[Found]:
    """The live contexts in a scope that are most similar to a text, the most similar first. All are compared.

    What has nothing in common with the text is not found, however few there are.
    """
    check_text(text, "text")
    limit = min(max(limit, 1), MAX_FOUND)
    wanted = await embedded(embedder, [text])
    best: list[tuple[float, int]] = []
    after = 0
    while page := await contexts.vectors(scope, embedder.name, after=after, limit=PAGE):
        after = page[-1][0]
        similar = cosines(wanted, from_bytes([vector for _, vector in page]))[0].tolist()
        pairs = zip(similar, page, strict=True)
        best += [(-similarity, context_id) for similarity, (context_id, _) in pairs if similarity > 0]
        best = sorted(best)[:limit]
    found = {one.id: one for one in await contexts.get_many(scope.user_id, [context_id for _, context_id in best])}
    return [Found(found[context_id], -similarity) for similarity, context_id in best if context_id in found]
