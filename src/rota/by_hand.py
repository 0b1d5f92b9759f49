"""Work that is claimed and settled by hand, as the seeds do it, instead of by a worker."""

from __future__ import annotations

import random
import uuid

from rota.core.outcome import Answer
from rota.core.task import Event, Identity, Settlement, Task
from rota.errors import LeaseLost, StoreUnavailable
from rota.stores.base import ClaimRequest, Store

__all__ = ["Hands"]


class Hands:
    """Whoever claims by hand in this process. There is no heartbeat: a claim lasts for the type's timeout."""

    def __init__(self) -> None:
        self._name = f"by-hand-{uuid.uuid4().hex}"
        self._lost_claims: list[str] = []

    async def claim(self, store: Store, task_type: str) -> Task | None:
        """A due task of the type; None if nothing is due."""
        await self._give_back(store)
        claim_id = uuid.uuid4().hex
        request = ClaimRequest(wants=[(task_type, 1)], instance=self._name, claim_id=claim_id, lease_ms=None)
        try:
            claimed = await store.claim(request)
        except StoreUnavailable:
            # Perhaps the claim took effect and only its answer was lost: nobody knows its token.
            self._lost_claims.append(claim_id)
            raise
        return claimed.tasks[0] if claimed.tasks else None

    async def settle(self, store: Store, identity: Identity, lock_token: str, *, success: bool) -> None:
        """Say how a claimed task ended. A stale token changes nothing: `LeaseLost`."""
        (task,) = await store.get([identity])
        started_at = None if task is None else task.claimed_at
        settlement = Settlement(
            task_type=identity.task_type,
            key=identity.key,
            token=_token(identity, lock_token),
            event=Event.COMPLETE if success else Event.RETRY,
            duration_ms=0 if started_at is None else max(0, await store.now() - started_at),
            reason=None if success else "error",
            error=None if success else "The task was reported as failed.",
            chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
        )
        (reply,) = await store.settle([settlement])
        if reply.answer not in (Answer.OK, Answer.ALREADY):
            raise _lease_lost(identity, lock_token)

    async def _give_back(self, store: Store) -> None:
        while self._lost_claims:
            await store.abandon(self._name, self._lost_claims[-1])
            self._lost_claims.pop()


def _token(identity: Identity, lock_token: str) -> int:
    # Whatever is no number was never a token, so it cannot be the current one.
    try:
        return int(lock_token)
    except (TypeError, ValueError):
        raise _lease_lost(identity, lock_token) from None


def _lease_lost(identity: Identity, lock_token: object) -> LeaseLost:
    return LeaseLost(
        f"The token {lock_token!r} is not the current one of {identity}: its lease ran out, or it was settled already."
        " Nothing was written; claim it again."
    )
