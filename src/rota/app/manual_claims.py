"""Work that is claimed and settled by hand, as the scheduler interface does it, instead of by a worker.

Where nobody has a worker, nobody sweeps: so whoever claims by hand does, and what another one has claimed and never
settled is handed out again once its lease is over.
"""

from __future__ import annotations

import math
import random
import uuid

from rota.clock import Clock, Millis
from rota.core.outcome import Answer
from rota.core.task import Identity, Settlement, Task, Transition
from rota.errors import LeaseLost
from rota.logs import get_logger
from rota.stores.base import Beat, ClaimRequest, Store

__all__ = ["ManualClaims"]

SWEEP_SECONDS = 1.0
"""As often as a worker sweeps, by default."""

log = get_logger("rota.app")


class ManualClaims:
    """Whoever claims by hand in this process. There is no heartbeat: a claim lasts for the type's timeout."""

    def __init__(self, clock: Clock, lease_ms: Millis) -> None:
        self._name = f"by-hand-{uuid.uuid4().hex}"
        self._clock = clock
        self._lease_ms = lease_ms
        self._swept_at = -math.inf
        self._lost_claims: list[str] = []

    async def claim(self, store: Store, task_type: str) -> Task | None:
        """A due task of the type; None if nothing is due."""
        await self._give_back(store)
        await self._sweep(store)
        claim_id = uuid.uuid4().hex
        request = ClaimRequest(wants=[(task_type, 1)], instance=self._name, claim_id=claim_id, lease_ms=None)
        try:
            claimed = await store.claim(request)
        except BaseException:  # also a caller that was cancelled, or an error that nobody has foreseen
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
            transition=Transition.COMPLETE if success else Transition.RETRY,
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
            claim_id = self._lost_claims[-1]
            await store.abandon(self._name, claim_id)
            if claim_id in self._lost_claims:  # unless somebody else was faster
                self._lost_claims.remove(claim_id)

    async def _sweep(self, store: Store) -> None:
        """Take back what has outlived its lease, once a second at most."""
        now = self._clock.monotonic()
        if now - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = now
        tick = await store.tick(Beat(instance=self._name, lease_ms=self._lease_ms))
        # A sweep is a sign of life, and this is no worker that anybody should count on.
        await store.leave(self._name)
        for task in tick.reaped:
            log.warning("reap", task_type=task.task_type, key=task.key, token=task.last_token, reason=task.reason)


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
