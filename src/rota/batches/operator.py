"""What people do with batches, with their name on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rota.access import Principal, Role
from rota.access.acting import Actor
from rota.batches.batch import Batch
from rota.batches.part import batches_of
from rota.batches.request import BatchRequest
from rota.batches.service import BatchHandle, Switches
from rota.part import HasHost

__all__ = ["BatchOperator"]


class BatchOperator(Actor):
    """Acts on the batches of a connected app in somebody's name."""

    def __init__(self, app: HasHost, principal: Principal) -> None:
        super().__init__(principal, app.host.database)
        self._batches = batches_of(app)

    async def start(self, request: BatchRequest, *, owner: str | None = None) -> BatchHandle:
        """Ask for a batch; whoever asks is its owner, unless they ask for a group that they belong to."""
        self.need(Role.OPERATOR, "ask for a batch")
        return await self._batches.ask(request, owner=owner or self.principal.id, by=self.principal)

    async def pause(self, batch_id: str) -> Batch:
        return await self._change("pause", batch_id, self._batches.pause)

    async def resume(self, batch_id: str) -> Batch:
        return await self._change("resume", batch_id, self._batches.resume)

    async def cancel(self, batch_id: str) -> Batch:
        return await self._change("cancel", batch_id, self._batches.cancel)

    async def _change(self, verb: str, batch_id: str, change: Callable[[str], Awaitable[Batch]]) -> Batch:
        self.need(Role.OPERATOR, f"{verb} a batch")
        async with self.recording(f"batch.{verb}", batch_id) as note:
            note.before = {"status": (await self._batches.get(batch_id)).status}
            batch = await change(batch_id)
            note.after = {"status": batch.status, "items": batch.items}
        return batch

    async def freeze(self) -> Switches:
        return await self._switch("freeze", lambda: self._batches.freeze(self.principal.id))

    async def degrade(self) -> Switches:
        return await self._switch("degrade", lambda: self._batches.degrade(self.principal.id))

    async def restore(self) -> Switches:
        return await self._switch("restore", self._batches.restore)

    async def _switch(self, verb: str, change: Callable[[], Awaitable[Switches]]) -> Switches:
        self.need(Role.ADMIN, f"{verb} batches")
        async with self.recording(f"batch.{verb}", "batches") as note:
            note.before = (await self._batches.switches()).to_dict()
            switches = await change()
            note.after = switches.to_dict()
        return switches
