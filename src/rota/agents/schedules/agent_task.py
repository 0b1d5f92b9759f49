"""A scheduled agent as it is kept: a task of type `agent` with this payload, the record of where it comes from, and the
fingerprint of what it does and when. What was agreed to is frozen by one, and checked before every run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from rota.agents.names import AGENT
from rota.clock import Instant, to_datetime
from rota.codec import warmed
from rota.core.task import Task, TaskStatus, Want
from rota.database.tables.agents import provenance
from rota.errors import InvalidInput
from rota.triggers import AnyTrigger, Cron, Interval
from rota.triggers.zone import zone

__all__ = [
    "AGENT",
    "AgentPayload",
    "ApprovalState",
    "ContextMode",
    "Origin",
    "Proposal",
    "ProposalKind",
    "content_digest",
    "digest_in_force",
    "digest_shown",
    "first_digest_of",
    "held_of",
    "next_run_of",
    "origin_of",
    "payload_of",
    "row_of",
    "spoken_time",
    "status_of",
    "taken_over",
    "value_of",
    "was_agreed_before_times",
]

ContextMode = Literal["isolated", "group"]
ApprovalState = Literal["none", "waiting", "approved", "rejected"]
ProposalKind = Literal["create", "update", "pause", "resume", "cancel", "run"]


class AgentPayload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run does, whenever it is due."""

    group_folder: str
    chat_jid: str
    prompt: str
    context_mode: ContextMode = "isolated"
    script: str | None = None
    timezone: str | None = None
    """The zone that its times are spoken of in; None: the group's."""


_decode_payload = warmed(msgspec.json.Decoder(AgentPayload), '{"group_folder":"g","chat_jid":"c","prompt":"p"}').decode


def payload_of(text: str | None) -> AgentPayload:
    """The payload of a task's record; what cannot be read is refused with the reason."""
    try:
        return _decode_payload(text or "null")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"The payload of this schedule is no scheduled agent: {error}. Make it again.") from None


# --- how it stands ---

_GOES_ON: Final = (TaskStatus.PENDING, TaskStatus.RUNNING)


def held_of(task: Task | None, origin: Origin | None) -> str | None:
    """Why Rota has paused it, if that still counts: people also resume a schedule where nobody knows of agents."""
    if origin is None or task is None:
        return None if origin is None else origin.held
    goes_on = task.status in _GOES_ON and task.want is not Want.PAUSE
    return None if goes_on else origin.held


def status_of(task: Task) -> str:
    """Its status as agents know it: one for pending and running. A run that is asked for leaves it paused."""
    if task.status is TaskStatus.PENDING and task.want is Want.PAUSE:
        return TaskStatus.PAUSED.value
    return "active" if task.status in _GOES_ON else task.status.value


def next_run_of(task: Task) -> Instant | None:
    """When it runs next, if it does."""
    if not task.is_recurring:
        return task.scheduled_at if task.status is TaskStatus.PENDING else None
    is_over = task.next_fire is not None and task.expires_at is not None and task.next_fire >= task.expires_at
    return task.next_fire if task.status in _GOES_ON and not is_over else None


def value_of(trigger: AnyTrigger, timezone: str) -> str:
    """What agents know as `schedule_value`: the expression, the milliseconds, or the time on the wall of its zone."""
    if isinstance(trigger, Cron):
        return trigger.expression
    if isinstance(trigger, Interval):
        return str(trigger.every_ms)
    return to_datetime(trigger.at).astimezone(zone(timezone)).isoformat()


def spoken_time(at: Instant, timezone: str) -> str:
    """A time as one says it: "Monday 5 January 2026, 09:00 (Europe/Berlin)"."""
    local = to_datetime(at).astimezone(zone(timezone))
    return f"{local:%A} {local.day} {local:%B %Y, %H:%M} ({timezone})"


# --- where it comes from ---


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for and is not yet approved: a new schedule, a change of one, or something that a run may not do
    by itself. All in stored form: for the last, as the schedule stood."""

    kind: ProposalKind
    payload: str
    trigger: str
    expires_at: Instant | None = None
    digest: str = ""
    """Of what would be in force. Once it left the times out: what counts is worked out anew, see `digest_in_force`."""
    by: str = ""
    """Who asks for it."""
    in_run: str | None = None
    """And in which scheduled run; None: in a conversation."""
    based_on: int | None = None
    """The version of the schedule that a change was asked for."""
    maker: str | None = None
    """Whose the schedule is from then on: that of an agent that rewrites what a person has made. None: as before."""
    depth: int = 0
    standing: ApprovalState | None = None
    """What had been decided about the schedule before: that counts again if this is rejected."""


_decode_proposal = warmed(msgspec.json.Decoder(Proposal), '{"kind":"create","payload":"","trigger":""}').decode


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schedule comes from, and how it has fared."""

    id: str
    folder: str
    made_by: str
    made_in_run: str | None = None
    depth: int = 0
    approval: ApprovalState = "none"
    proposal: Proposal | None = None
    decided_by: str | None = None
    decided_at: Instant | None = None
    digest: str = ""
    created_at: Instant = 0
    failures: int = 0
    last_run_at: Instant | None = None
    last_result: str | None = None
    held: str | None = None


def taken_over(proposal: Proposal, now: Instant) -> dict[str, Any]:
    """What is written down anew when an agent has rewritten a schedule: it is the agent's now, with an agent's limits.
    Nothing if it stays whose it was."""
    if proposal.maker is None:
        return {}
    return {"made_by": proposal.maker, "made_in_run": proposal.in_run, "depth": proposal.depth, "created_at": now}


_COLUMNS: Final = tuple(provenance.c.keys())


def row_of(record: Origin) -> dict[str, Any]:
    """The record as its row holds it."""
    proposal = None if record.proposal is None else msgspec.json.encode(record.proposal).decode()
    return {**msgspec.structs.asdict(record), "proposal": proposal}


def origin_of(row: Sequence[Any]) -> Origin:
    """The record out of its row, which has all columns of its table."""
    values = dict(zip(_COLUMNS, row, strict=True))
    if values["proposal"] is not None:
        values["proposal"] = _decode_proposal(values["proposal"])
    return Origin(**values)


# --- what was agreed to ---


def content_digest(payload: AgentPayload, trigger: str | None, expires_at: Instant | None) -> str:
    """A fingerprint of all that shapes what a schedule does and when, written down as agreed to and checked before
    every run. `trigger` is in stored form, with its zone."""
    agreed = [payload.group_folder, payload.prompt, payload.script, payload.context_mode, payload.chat_jid]
    return _hashed(["2", *agreed, payload.timezone, trigger, expires_at])


def digest_in_force(proposal: Proposal) -> str:
    """The fingerprint of what a proposal would put in force, also of one from before it had the times in it."""
    return content_digest(payload_of(proposal.payload), proposal.trigger, proposal.expires_at)


def digest_shown(schedule_id: str, proposal: Proposal) -> str:
    """What a person gives back to say: I agree to what I have seen, and to nothing else. It covers who asks for what,
    of which schedule as it stood, and what would be in force."""
    asked = [schedule_id, proposal.kind, proposal.by, proposal.based_on]
    return _hashed(["wish", *asked, digest_in_force(proposal)])


def was_agreed_before_times(agreed: str, payload: AgentPayload) -> bool:
    """Whether this was agreed to when the fingerprint had no times in it yet."""
    return agreed == first_digest_of(payload.group_folder, payload.prompt, payload.script, payload.context_mode)


def first_digest_of(group: str, prompt: str, script: str | None, context_mode: str) -> str:
    """The fingerprint as it was at first, without the times: what was agreed to then still counts, and is written
    down anew with all of it when it next runs."""
    return _hashed([group, prompt, script, context_mode])


def _hashed(parts: list[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
