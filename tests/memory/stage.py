"""What the tests of memory share: capturing, compressing, and looking at what came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rota.clock import SystemClock
from rota.database import Database
from rota.memory import Context, Contexts, HashingEmbedder, Merger, NewContext, Owner, RuleMerger, Scope, State
from rota.memory.compression import Budget, Compressed, Compression
from rota.memory.vectors import to_bytes

__all__ = ["EMBEDDER", "Ticking", "capture", "compress", "everything", "groups_of", "problems_of"]

EMBEDDER = HashingEmbedder()


class Ticking(SystemClock):
    """Ten seconds pass whenever somebody looks."""

    seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 10
        return self.seconds


async def capture(contexts: Contexts, owner: Owner, texts: Sequence[str], *, enable_merge: bool = True) -> list[int]:
    new = [NewContext(text=text, enable_merge=enable_merge) for text in texts]
    vectors = to_bytes(EMBEDDER.embed(list(texts)))
    return await contexts.add(owner, new, embedder=EMBEDDER.name, embeddings=vectors)


async def compress(
    database: Database, user_id: str, *, batch_size: int = 100, merger: Merger | None = None, settling_ms: int = 0
) -> Compressed:
    compression = Compression(
        Contexts(database), EMBEDDER, merger or RuleMerger(), batch_size=batch_size, settling_ms=settling_ms
    )
    return await compression.compress(Scope(user_id), Budget(SystemClock()))


async def groups_of(contexts: Contexts, user_id: str) -> set[frozenset[str]]:
    """What lives together: the texts of the sources of each result, and each context that stands for itself."""
    found: set[frozenset[str]] = set()
    for context in await everything(contexts, user_id):
        if context.has_compression:
            found.add(frozenset(source.text for source in await contexts.sources(user_id, context.id)))
        elif context.state is not State.MERGED:
            found.add(frozenset({context.text}))
    return found


async def everything(contexts: Contexts, user_id: str) -> list[Context]:
    return (await contexts.page(Scope(user_id), limit=500)).contexts


async def problems_of(contexts: Contexts, owner: Owner, captured: Sequence[int]) -> list[str]:
    """Everything that must never be: a context that is lost, merged twice, or in somebody else's hands."""
    rows = {row.id: row for row in await everything(contexts, owner.user_id)}
    results = {row.id: row for row in rows.values() if row.has_compression}
    wrong = [f"{one} is lost" for one in captured if one not in rows]
    wrong += [f"{row.id} belongs to {row.owner}" for row in rows.values() if row.owner != owner]
    for row in rows.values():
        if (row.state is State.MERGED) != (row.merged_into is not None):
            wrong.append(f"{row.id} is {row.state}, and merged into {row.merged_into}")
        if row.merged_into is not None and row.merged_into not in results:
            wrong.append(f"{row.id} is merged into {row.merged_into}, which is no result")
    for result in results.values():
        sources = [row for row in rows.values() if row.merged_into == result.id]
        if result.merge_count != len(sources):
            wrong.append(f"{result.id} counts {result.merge_count} sources, and has {len(sources)}")
        if result.state is not State.KEPT:
            wrong.append(f"the result {result.id} is {result.state}")
        wrong += [f"{result.id} forgot {one.id}" for one in sources if _spoken(one.text) not in _spoken(result.text)]
    return wrong


def _spoken(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
