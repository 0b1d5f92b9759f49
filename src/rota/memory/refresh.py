"""Refreshing embeddings: contexts without a vector, or with that of an embedder that is no longer used, get a new one.

Others are compared with a merge's result by the vector of its own text from then on, if that of its first source was
another embedder's: what it said may be gone.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rota.memory.compression import BATCH_SIZE, Budget, embedded
from rota.memory.context import Scope
from rota.memory.contexts import Contexts
from rota.memory.embedding import Embedder
from rota.memory.vectors import to_bytes

__all__ = ["Refresh", "Refreshed"]


class Refreshed(msgspec.Struct):
    """What a run has done so far."""

    refreshed: int = 0
    is_finished: bool = True

    def to_dict(self) -> dict[str, object]:
        return msgspec.to_builtins(self)


class Refresh:
    """Refreshes the embeddings of one database."""

    def __init__(self, contexts: Contexts, embedder: Embedder, *, batch_size: int = BATCH_SIZE) -> None:
        self._contexts = contexts
        self._embedder = embedder
        self._batch_size = batch_size

    async def refresh(
        self, scope: Scope, budget: Budget, report: Callable[[Refreshed], None] | None = None
    ) -> Refreshed:
        """Only the stale or missing ones in a scope, a batch at a time, until none is left or the budget is spent."""
        done, last = Refreshed(), 0
        while stale := await self._contexts.stale(scope, self._embedder.name, after=last, limit=self._batch_size):
            if budget.is_spent():
                done.is_finished = False
                return done
            vectors = to_bytes(await embedded(self._embedder, [context.text for context in stale]))
            made = [(context.id, vector) for context, vector in zip(stale, vectors, strict=True)]
            await self._contexts.set_embeddings(scope.user_id, self._embedder.name, made)
            done.refreshed += len(made)
            last = stale[-1].id  # all before it is done, and is not looked through again for each batch
            if report is not None:
                report(done)
        return done
