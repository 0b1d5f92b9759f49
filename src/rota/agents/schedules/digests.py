"""Fingerprints of what a schedule does and when: what was agreed to is frozen by one, and checked before every run."""

from __future__ import annotations

import hashlib

import msgspec

from rota.agents.schedules.agent_task import AgentPayload, payload_of
from rota.agents.schedules.origins import Proposal
from rota.clock import Instant

__all__ = [
    "content_digest",
    "digest_in_force",
    "digest_of",
    "digest_shown",
    "first_digest_of",
    "was_agreed_before_times",
]


def content_digest(payload: AgentPayload, trigger: str | None, expires_at: Instant | None) -> str:
    """The fingerprint of what a schedule does and when."""
    return digest_of(
        payload.group_folder,
        payload.prompt,
        payload.script,
        payload.context_mode,
        chat_jid=payload.chat_jid,
        timezone=payload.timezone,
        trigger=trigger,
        expires_at=expires_at,
    )


def digest_in_force(proposal: Proposal) -> str:
    """The fingerprint of what a proposal would put in force, also of one from before it had the times in it."""
    return content_digest(payload_of(proposal.payload), proposal.trigger, proposal.expires_at)


def digest_shown(schedule_id: str, proposal: Proposal) -> str:
    """What a person gives back to say: I agree to what I have seen, and to nothing else."""
    content = digest_in_force(proposal)
    return shown_digest_of(schedule_id, proposal.kind, proposal.by, proposal.based_on, content)


def was_agreed_before_times(agreed: str, payload: AgentPayload) -> bool:
    """Whether this was agreed to when the fingerprint had no times in it yet."""
    return agreed == first_digest_of(payload.group_folder, payload.prompt, payload.script, payload.context_mode)


def digest_of(
    group: str,
    prompt: str,
    script: str | None,
    context_mode: str,
    *,
    chat_jid: str = "",
    timezone: str | None = None,
    trigger: str | None = None,
    expires_at: Instant | None = None,
) -> str:
    """A fingerprint of all that shapes what a schedule does and when, written down as agreed to and checked before
    every run. `trigger` is in stored form, with its zone."""
    return _hashed(["2", group, prompt, script, context_mode, chat_jid, timezone, trigger, expires_at])


def first_digest_of(group: str, prompt: str, script: str | None, context_mode: str) -> str:
    """The fingerprint as it was at first, without the times: what was agreed to then still counts, and is written
    down anew with all of it when it next runs."""
    return _hashed([group, prompt, script, context_mode])


def shown_digest_of(schedule_id: str, kind: str, by: str, based_on: int | None, content: str) -> str:
    """A fingerprint of what a person is shown before they agree: who asks for what, of which schedule as it stood,
    and what would be in force (`content`, its digest)."""
    return _hashed(["wish", schedule_id, kind, by, based_on, content])


def _hashed(parts: list[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
