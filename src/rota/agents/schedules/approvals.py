"""Deciding on what agents ask for. An unapproved proposal is in no queue: it is a record that waits for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.agents.policy import Caller
from rota.agents.schedules.agent_task import (
    AGENT,
    ApprovalState,
    Origin,
    Proposal,
    digest_in_force,
    digest_shown,
    taken_over,
)
from rota.agents.schedules.schedule import AgentSchedule
from rota.agents.schedules.schedule_store import ScheduleStore, answered, decided_already
from rota.agents.schedules.validation import check_not_over, check_still_meant, standing_of
from rota.core.task import Identity, Transition
from rota.errors import IllegalTransition, NotAllowed

__all__ = ["EVENTS", "Approvals"]


EVENTS: Final[Mapping[str, Transition]] = {
    "pause": Transition.PAUSE,
    "resume": Transition.RESUME,
    "cancel": Transition.CANCEL,
    "run": Transition.RUN_NOW,
}
"""What a scheduled run may not do to everybody's schedules by itself, and what becomes of it when a person agrees."""


class Approvals:
    """What waits, and what people say to it."""

    def __init__(self, schedules: ScheduleStore) -> None:
        self._schedules = schedules

    async def waiting(self, caller: Caller) -> list[AgentSchedule]:
        """What waits for a person's decision, oldest first."""
        origins, zones = await self._schedules.origins(), await self._schedules.zones()
        whose = None if caller.sees_all else caller.group
        found = [one for one in await origins.waiting(whose) if one.proposal is not None]
        tasks = await (await self._schedules.store()).get([Identity(AGENT, one.id) for one in found])
        return [
            AgentSchedule.of_proposal(one, zones.of(one.folder), task) for one, task in zip(found, tasks, strict=True)
        ]

    async def approve(self, caller: Caller, schedule_id: str, *, digest: str | None = None) -> None:
        """Agree: the schedule counts from now on. With `digest`, only if it still is what the person has seen."""
        origin, proposal = await self._undecided(caller, schedule_id)
        if digest is not None and digest != digest_shown(schedule_id, proposal):
            raise IllegalTransition(
                f"What is asked for with {schedule_id} was changed since you looked at it, and nothing was approved."
                " Look again (`rota agent waiting`), then decide."
            )
        store = await self._schedules.store()
        (task,) = await store.get([Identity(AGENT, schedule_id)])
        if proposal.kind != "create":
            check_still_meant(schedule_id, proposal, task)
        # The task first: an instance that dies in between leaves something to decide, not an approval of nothing.
        if proposal.kind in EVENTS:
            await self._carry_out(origin, proposal)
        else:
            check_not_over(schedule_id, proposal, await store.now())
            make = proposal.kind == "create"
            await (
                self._schedules.put(origin, proposal, caller) if make else self._schedules.change(schedule_id, proposal)
            )
        origins = await self._schedules.origins()
        state, agreed = _decision(origin, proposal)
        if await origins.decide(origin, state, caller.name, agreed) is None:
            await self._overtaken(origin, proposal)
        await self._tell(origin, f"{caller.name} has approved it.")

    async def _carry_out(self, origin: Origin, proposal: Proposal) -> None:
        """Do what a run has asked for; what it had resumed is held no more."""
        transition = EVENTS[proposal.kind]
        (reply,) = await (await self._schedules.store()).apply(transition, [Identity(AGENT, origin.id)])
        answered(transition, reply, origin.id)
        if transition is Transition.RESUME and origin.held is not None:
            await (await self._schedules.origins()).set(origin.id, held=None, failures=0)

    async def reject(self, caller: Caller, schedule_id: str) -> None:
        """Refuse: a new schedule never counts, a changed one stays as it was."""
        origin, proposal = await self._undecided(caller, schedule_id)
        state = "rejected" if proposal.kind == "create" else standing_of(origin)
        if await (await self._schedules.origins()).decide(origin, state, caller.name, origin.digest) is None:
            raise decided_already(schedule_id)
        await self._tell(origin, f"{caller.name} has rejected it.")

    async def _undecided(self, caller: Caller, schedule_id: str) -> tuple[Origin, Proposal]:
        if not caller.is_person:
            raise NotAllowed("Only a person may approve or reject schedules. Ask the owner.")
        _, origin = await self._schedules.find(caller, schedule_id)
        if origin is None or origin.approval != "waiting" or origin.proposal is None:
            raise IllegalTransition(f"{schedule_id} does not wait for approval. Nothing changed.")
        return origin, origin.proposal

    async def _overtaken(self, seen: Origin, proposal: Proposal) -> None:
        """Somebody else has decided at the same time. A new schedule that they rejected is taken back; a change has
        been made already, so what is written down about the schedule follows it."""
        origins = await self._schedules.origins()
        if proposal.kind != "create":
            now = await (await self._schedules.store()).now()
            await origins.set(seen.id, digest=_decision(seen, proposal)[1], **taken_over(proposal, now))
            raise IllegalTransition(
                f"Somebody else has decided on {seen.id} at the same time. What you agreed to was done."
                " Look at it again."
            )
        current = (await origins.get([seen.id])).get(seen.id)
        if current is None or current.approval == "rejected":
            await (await self._schedules.store()).apply(Transition.CANCEL, [Identity(AGENT, seen.id)])
        raise decided_already(seen.id)

    async def _tell(self, origin: Origin, text: str) -> None:
        group = await (await self._schedules.groups()).find(origin.folder)
        await self._schedules.tell("decided", group, origin.id, text)
        await self._schedules.refresh(origin.folder)


def _decision(origin: Origin, proposal: Proposal) -> tuple[ApprovalState, str]:
    """What is written down when a person agrees: what is in force, unless that is what it was before."""
    if proposal.kind in EVENTS:
        return standing_of(origin), origin.digest
    return "approved", digest_in_force(proposal)
