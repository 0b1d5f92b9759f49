"""Deciding on what agents ask for. An unapproved wish is in no queue: it is a record that waits for a person."""

from __future__ import annotations

from rota.agents.guard import Caller
from rota.agents.ledger import Proposal, Provenance
from rota.agents.listing import proposed
from rota.agents.record import AGENT, AgentSchedule
from rota.agents.records import Records, decided_already
from rota.agents.wish import check_not_over, check_still_meant, digest_in_force, digest_shown
from rota.core.task import Event, Identity
from rota.errors import IllegalTransition, NotAllowed

__all__ = ["Approvals"]


class Approvals:
    """What waits, and what people say to it."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def waiting(self, caller: Caller) -> list[AgentSchedule]:
        """What waits for a person's decision, oldest first."""
        ledger, zones = await self._records.ledger(), await self._records.zones()
        whose = None if caller.sees_all else caller.group
        found = [one for one in await ledger.waiting(whose) if one.proposal is not None]
        tasks = await (await self._records.store()).get([Identity(AGENT, one.id) for one in found])
        return [proposed(one, zones.of(one.folder), task) for one, task in zip(found, tasks, strict=True)]

    async def approve(self, caller: Caller, schedule_id: str, *, digest: str | None = None) -> None:
        """Agree: the schedule counts from now on. With `digest`, only if it still is what the person has seen."""
        origin, proposal = await self._undecided(caller, schedule_id)
        if digest is not None and digest != digest_shown(schedule_id, proposal):
            raise IllegalTransition(
                f"What is asked for with {schedule_id} was changed since you looked at it, and nothing was approved."
                " Look again (`rota agent waiting`), then decide."
            )
        store = await self._records.store()
        check_not_over(schedule_id, proposal, await store.now())
        # The task first: an instance that dies in between leaves something to decide, not an approval of nothing.
        if proposal.kind == "create":
            await self._records.put(origin, proposal, caller)
        else:
            (task,) = await store.get([Identity(AGENT, schedule_id)])
            check_still_meant(schedule_id, proposal, task)
            await self._records.change(schedule_id, proposal)
        ledger = await self._records.ledger()
        if await ledger.decide(origin, "approved", caller.name, digest_in_force(proposal)) is None:
            await self._overtaken(origin, proposal)
        await self._tell(origin, f"{caller.name} has approved it.")

    async def reject(self, caller: Caller, schedule_id: str) -> None:
        """Refuse: a new schedule never counts, a changed one stays as it was."""
        origin, proposal = await self._undecided(caller, schedule_id)
        state = "rejected" if proposal.kind == "create" else "approved"
        if await (await self._records.ledger()).decide(origin, state, caller.name, origin.digest) is None:
            raise decided_already(schedule_id)
        await self._tell(origin, f"{caller.name} has rejected it.")

    async def _undecided(self, caller: Caller, schedule_id: str) -> tuple[Provenance, Proposal]:
        if not caller.is_person:
            raise NotAllowed("Only a person may approve or reject schedules. Ask the owner.")
        _, origin = await self._records.find(caller, schedule_id)
        if origin is None or origin.approval != "waiting" or origin.proposal is None:
            raise IllegalTransition(f"{schedule_id} does not wait for approval. Nothing changed.")
        return origin, origin.proposal

    async def _overtaken(self, seen: Provenance, proposal: Proposal) -> None:
        """Somebody else has decided at the same time. A new schedule that they rejected is taken back; a change has
        been made already, so what is written down about the schedule follows it."""
        ledger = await self._records.ledger()
        if proposal.kind == "update":
            await ledger.set(seen.id, digest=digest_in_force(proposal))
            raise IllegalTransition(
                f"Somebody else has decided on {seen.id} at the same time. The change that you agreed to was made."
                " Look at it again."
            )
        current = (await ledger.get([seen.id])).get(seen.id)
        if current is None or current.approval == "rejected":
            await (await self._records.store()).ask(Event.CANCEL, [Identity(AGENT, seen.id)])
        raise decided_already(seen.id)

    async def _tell(self, origin: Provenance, text: str) -> None:
        group = await (await self._records.groups()).find(origin.folder)
        await self._records.tell("decided", group, origin.id, text)
        await self._records.refresh(origin.folder)
