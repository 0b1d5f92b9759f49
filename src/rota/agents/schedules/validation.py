"""What is asked for, checked: from words and numbers to a payload, a trigger and a proposal. Pure rules."""

from __future__ import annotations

from typing import Any, cast, get_args

import msgspec

from rota.agents.policy import MAX_SCRIPT, Caller, check_prompt
from rota.agents.schedules.agent_task import (
    AgentPayload,
    ApprovalState,
    ContextMode,
    Origin,
    Proposal,
    content_digest,
    value_of,
)
from rota.agents.settings import AgentSettings
from rota.clock import Instant, isoformat
from rota.core.task import Task
from rota.errors import IllegalTransition, InvalidInput, LimitExceeded
from rota.triggers import AnyTrigger, Cron, Interval, Once, decode_trigger, encode_trigger, parse_trigger

__all__ = [
    "changed_payload",
    "check_not_over",
    "check_reaches",
    "check_still_meant",
    "checked_script",
    "context_mode_of",
    "follows_code",
    "instant_of",
    "made_by_code",
    "new_trigger",
    "proposal_of",
    "rewrites",
    "sooner",
    "standing_of",
]


def context_mode_of(mode: str) -> ContextMode:
    """The mode, if there is such a one."""
    if mode not in get_args(ContextMode):
        raise InvalidInput(
            f"The context_mode {mode[:40]!r} is unknown. Use 'isolated' (its own session) or 'group'.",
            field="context_mode",
        )
    return cast("ContextMode", mode)


def checked_script(script: str | None) -> str | None:
    """A script that fits; an empty one is none."""
    if not script:
        return None
    if len(script) > MAX_SCRIPT:
        raise LimitExceeded(f"The script has {len(script):,} characters; {MAX_SCRIPT:,} is the most.", field="script")
    return script


def instant_of(text: str | None, timezone: str, now: Instant) -> Instant | None:
    """A time as people write it; without an offset it is on the wall of the zone."""
    if text is None:
        return None
    trigger = parse_trigger("once", text, timezone=timezone, now=now)
    assert isinstance(trigger, Once)
    return trigger.at


def sooner(one: Instant | None, other: Instant | None) -> Instant | None:
    """The earlier of two ends; None is never."""
    return min((at for at in (one, other) if at is not None), default=None)


def check_reaches(trigger: AnyTrigger, expires_at: Instant | None) -> None:
    """Refuse a single time that lies behind the end."""
    if isinstance(trigger, Once) and expires_at is not None and trigger.at > expires_at:
        raise LimitExceeded(f"It would run after it has expired, at {isoformat(expires_at)}. Use an earlier time.")


def check_not_over(schedule_id: str, proposal: Proposal, now: Instant) -> None:
    """What waited too long must not fire at once because somebody agrees in the end."""
    trigger = decode_trigger(proposal.trigger)
    ends = [at for at in (proposal.expires_at, trigger.at if isinstance(trigger, Once) else None) if at is not None]
    if ends and min(ends) <= now:
        raise IllegalTransition(
            f"{schedule_id} was meant for {isoformat(min(ends))}, which is over. Reject it, and have it asked for anew."
        )


def changed_payload(
    old: AgentPayload,
    settings: AgentSettings,
    prompt: str | None,
    context_mode: str | None,
    script: str | None,
    timezone: str | None,
) -> AgentPayload:
    """The payload with what is given in place of what it had."""
    return msgspec.structs.replace(
        old,
        prompt=old.prompt if prompt is None else check_prompt(prompt, settings.rules),
        context_mode=old.context_mode if context_mode is None else context_mode_of(context_mode),
        script=old.script if script is None else checked_script(script),
        timezone=timezone or old.timezone,
    )


def new_trigger(
    stored: str,
    schedule_type: str | None,
    schedule_value: str | int | None,
    timezone: str,
    now: Instant,
    *,
    rezone: bool = False,
) -> AnyTrigger:
    """The trigger as it is, or the new one; a value alone is of the type that it had. `rezone` puts one that goes by
    the calendar into another zone."""
    old = decode_trigger(stored)
    if rezone and isinstance(old, Cron) and old.timezone != timezone:
        old = parse_trigger("cron", old.expression, timezone=timezone, now=now)
    if schedule_value is None:
        if schedule_type is not None and schedule_type != old.kind:
            raise InvalidInput(
                "The schedule_type was given without a schedule_value. Give both, e.g. 'cron', '0 9 * * *'."
            )
        return old
    if schedule_type in (None, old.kind) and str(schedule_value) == value_of(old, timezone):
        return old  # an equal interval keeps its grid
    new = parse_trigger(schedule_type or old.kind, schedule_value, timezone=timezone, now=now)
    is_same = isinstance(new, Interval) and isinstance(old, Interval) and new.every_ms == old.every_ms
    return old if is_same else new  # "1h" is 3600000, too


def check_still_meant(schedule_id: str, proposal: Proposal, task: Task | None) -> None:
    """A change was asked for with the schedule as it was: agreeing to it must not undo what was changed since."""
    if task is None or proposal.based_on in (None, task.version):
        return
    if (task.payload, task.trigger, task.expires_at) == (proposal.payload, proposal.trigger, proposal.expires_at):
        return  # it was made already, by an instance that died before it could say so
    raise IllegalTransition(
        f"{schedule_id} was changed after this was asked for, and that would be undone. Reject it, and have it asked"
        " for anew."
    )


def proposal_of(
    kind: Any,
    payload: AgentPayload,
    trigger: AnyTrigger,
    expires_at: Instant | None,
    caller: Caller,
    based_on: int | None = None,
    origin: Origin | None = None,
) -> Proposal:
    """What is asked for, in stored form; `origin` is that of the schedule that it is about."""
    return Proposal(
        kind=kind,
        payload=msgspec.json.encode(payload).decode(),
        trigger=encode_trigger(trigger),
        expires_at=expires_at,
        digest=content_digest(payload, encode_trigger(trigger), expires_at),
        by=caller.name,
        in_run=caller.run_id,
        based_on=based_on,
        standing=None if origin is None else standing_of(origin),
    )


def rewrites(caller: Caller, origin: Origin, old: AgentPayload, new: AgentPayload) -> bool:
    """Whether an agent makes something of its own out of what people have made: another prompt, script or session.
    Then it is the agent's, and ends as agents' schedules do. A new time alone leaves it whose it was."""
    does = [(one.prompt, one.script, one.context_mode) for one in (old, new)]
    return not caller.is_person and origin.depth == 0 and does[0] != does[1]


def standing_of(origin: Origin) -> ApprovalState:
    """What was last decided about a schedule, whatever waits now."""
    if origin.approval != "waiting" or origin.proposal is None:
        return origin.approval
    return origin.proposal.standing or "approved"


def made_by_code(task: Task, payload: AgentPayload) -> Origin:
    """The origin of a schedule that the program's own code has made."""
    digest = content_digest(payload, task.trigger, task.expires_at)
    return Origin(id=task.key, folder=payload.group_folder, made_by="code", digest=digest)


def follows_code(origin: Origin) -> bool:
    """Whether the program's own code has the say about it: nobody has agreed to anything else since."""
    return origin.made_by == "code" and standing_of(origin) == "none"
