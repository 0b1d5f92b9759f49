"""What waits for a person, as they are shown it: who asks, and what would be in force beside what is in force now.

Nobody can agree to what they have not seen: whatever shapes what will run is here, changed or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.agents.schedules.agent_task import AgentPayload, Origin, digest_shown, payload_of, status_of, value_of
from rota.clock import Instant, isoformat
from rota.core.task import Task
from rota.errors import InvalidInput
from rota.triggers import AnyTrigger, Cron, decode_trigger, explain

__all__ = ["Difference", "ProposalView", "proposal_view_of"]

Facts = dict[str, str | None]


@dataclass(frozen=True)
class Difference:
    """One thing about a schedule as it is now, and as it would be. None: there is none."""

    name: str
    old: str | None
    new: str | None

    @property
    def is_change(self) -> bool:
        return self.old != self.new

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "old": self.old, "new": self.new}


@dataclass(frozen=True, kw_only=True)
class ProposalView:
    """What waits for a person: who asks for it, and all that would be in force, beside what is."""

    kind: str
    by: str
    in_run: str | None
    """The scheduled run that asks; None: a conversation does."""
    digest: str
    """Of all of this: given with an approval, that is for what was shown and for nothing else."""
    shown: tuple[Difference, ...]

    @property
    def changes(self) -> list[str]:
        """The names of what would be different."""
        return [one.name for one in self.shown if one.is_change]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "by": self.by,
            "in_run": self.in_run,
            "digest": self.digest,
            "changes": self.changes,
            "shown": [one.to_dict() for one in self.shown],
        }


def proposal_view_of(origin: Origin | None, task: Task | None, timezone: str) -> ProposalView | None:
    """What of a schedule waits for a person's decision; None if nothing does. `task` is the schedule as it stands."""
    proposal = None if origin is None or origin.approval != "waiting" else origin.proposal
    if origin is None or proposal is None:
        return None
    old = {} if task is None else _facts_of_task(task, timezone, origin)
    maker = proposal.maker or origin.made_by
    payload = payload_of(proposal.payload)
    new = _facts(payload, proposal.trigger, proposal.expires_at, timezone, origin.created_at, maker)
    return ProposalView(
        kind=proposal.kind,
        by=proposal.by,
        in_run=proposal.in_run,
        digest=digest_shown(origin.id, proposal),
        shown=(*_deed(proposal.kind, task), *(Difference(name, old.get(name), value) for name, value in new.items())),
    )


def _deed(kind: str, task: Task | None) -> tuple[Difference, ...]:
    """What would become of the schedule itself, if a run asks for that."""
    become = {"pause": "paused", "resume": "active", "cancel": "cancelled", "run": "runs once, now"}
    if kind not in become:
        return ()
    return (Difference("status", None if task is None else status_of(task), become[kind]),)


def _facts_of_task(task: Task, timezone: str, origin: Origin) -> Facts:
    try:
        payload = payload_of(task.payload)
    except InvalidInput:
        return {}  # nobody can read what it does now; what it would do can be shown all the same
    return _facts(payload, task.trigger, task.expires_at, timezone, origin.created_at, origin.made_by)


def _facts(
    payload: AgentPayload,
    trigger: str | None,
    expires_at: Instant | None,
    timezone: str,
    seen_at: Instant,
    made_by: str,
) -> Facts:
    zone = payload.timezone or timezone
    return {
        "group": payload.group_folder,
        "chat": payload.chat_jid,
        "prompt": payload.prompt,
        "script": payload.script,
        "when": None if trigger is None else _when(decode_trigger(trigger), zone, seen_at),
        "expires_at": isoformat(expires_at),
        "context_mode": payload.context_mode,
        "timezone": zone,
        "made_by": made_by,
    }


def _when(trigger: AnyTrigger, timezone: str, seen_at: Instant) -> str:
    """In words, and as it was written: words round."""
    zone = trigger.timezone if isinstance(trigger, Cron) else timezone
    return f"{explain(trigger, zone, 0, seen_at).words} ({trigger.kind} {value_of(trigger, zone)}, {zone})"
