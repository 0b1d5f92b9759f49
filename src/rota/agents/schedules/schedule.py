"""One scheduled agent as people and agents see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.agents.schedules.agent_task import (
    AgentPayload,
    Origin,
    digest_shown,
    held_of,
    next_run_of,
    payload_of,
    spoken_time,
    status_of,
    value_of,
)
from rota.agents.schedules.proposal_view import ProposalView, proposal_view_of
from rota.clock import Instant, isoformat
from rota.core.task import Task, TaskStatus
from rota.triggers import AnyTrigger, decode_trigger, explain

__all__ = ["AgentSchedule"]


@dataclass(frozen=True, kw_only=True)
class AgentSchedule:
    """One scheduled agent as people and agents see it. Times are ISO 8601 in UTC, and in words in its own zone."""

    id: str
    group_folder: str
    chat_jid: str
    prompt: str
    schedule_type: str
    schedule_value: str
    context_mode: str
    script: str | None
    status: str
    """active, paused, completed, failed, cancelled; waiting_for_approval and rejected before it ever counted."""
    is_running: bool
    timezone: str
    words: str
    next_run: str | None
    next_run_words: str | None
    last_run: str | None
    last_result: str | None
    runs: int
    failures: int
    expires_at: str | None
    made_by: str
    made_in_run: str | None
    approval: str
    digest: str
    has_proposal: bool
    """Whether something of it waits for a person: all of it, or a change."""
    asks_for: str | None
    """What waits: create or update; and who asks for it."""
    asked_by: str | None
    wanted: ProposalView | None
    """And all of it, beside what is in force now."""
    held: str | None

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "wanted": None if self.wanted is None else self.wanted.to_dict()}

    @classmethod
    def of_task(cls, task: Task, origin: Origin | None, timezone: str) -> AgentSchedule:
        """A schedule that counts, as it is now, with what waits beside it."""
        payload = payload_of(task.payload)
        return _made(
            payload,
            decode_trigger(task.trigger) if task.trigger is not None else None,
            origin,
            payload.timezone or timezone,
            id=task.key,
            status=status_of(task),
            is_running=task.status is TaskStatus.RUNNING,
            next_at=next_run_of(task),
            runs=task.runs,
            expires_at=task.expires_at,
            seen_at=task.updated_at,
            digest=origin.digest if origin else "",
            wanted=proposal_view_of(origin, task, timezone),
            held=held_of(task, origin),
        )

    @classmethod
    def of_proposal(cls, origin: Origin, timezone: str, task: Task | None = None) -> AgentSchedule:
        """A schedule as it is proposed, or was rejected; `task` is what there is of it now."""
        assert origin.proposal is not None, f"{origin.id} proposes nothing"
        proposal = origin.proposal
        payload = payload_of(proposal.payload)
        return _made(
            payload,
            decode_trigger(proposal.trigger),
            origin,
            payload.timezone or timezone,
            id=origin.id,
            status="waiting_for_approval" if origin.approval == "waiting" else origin.approval,
            is_running=False,
            next_at=None,
            runs=0,
            expires_at=proposal.expires_at,
            seen_at=origin.created_at,
            digest=digest_shown(origin.id, proposal),
            wanted=proposal_view_of(origin, task, timezone),
            held=origin.held,
        )


def _made(
    payload: AgentPayload,
    trigger: AnyTrigger | None,
    origin: Origin | None,
    timezone: str,
    *,
    id: str,  # noqa: A002 - the word in current_tasks.json
    status: str,
    is_running: bool,
    next_at: Instant | None,
    runs: int,
    expires_at: Instant | None,
    seen_at: Instant,
    digest: str,
    wanted: ProposalView | None,
    held: str | None,
) -> AgentSchedule:
    return AgentSchedule(
        id=id,
        group_folder=payload.group_folder,
        chat_jid=payload.chat_jid,
        prompt=payload.prompt,
        schedule_type=trigger.kind if trigger is not None else "once",
        schedule_value=value_of(trigger, timezone) if trigger is not None else "",
        context_mode=payload.context_mode,
        script=payload.script,
        status=status,
        is_running=is_running,
        timezone=timezone,
        words=explain(trigger, timezone, 0, seen_at).words if trigger is not None else "once",
        next_run=isoformat(next_at),
        next_run_words=None if next_at is None else spoken_time(next_at, timezone),
        last_run=isoformat(origin.last_run_at) if origin else None,
        last_result=origin.last_result if origin else None,
        runs=runs,
        failures=origin.failures if origin else 0,
        expires_at=isoformat(expires_at),
        made_by=origin.made_by if origin else "code",
        made_in_run=origin.made_in_run if origin else None,
        approval=origin.approval if origin else "none",
        digest=digest,
        has_proposal=wanted is not None,
        asks_for=wanted.kind if wanted is not None else None,
        asked_by=wanted.by if wanted is not None else None,
        wanted=wanted,
        held=held,
    )
