"""What an agent may schedule: pure rules. Text that an agent has read may be hostile, and so may what it asks for.

A schedule that a person makes is bounded by the store's limits alone. One that an agent makes lives at most a month,
fires at most every five minutes, counts against its group's quota, waits for a person's approval unless the policy
says otherwise, and its runs may not make further ones. What was approved is frozen by a digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from rota.clock import DAY, MINUTE, Instant, Millis, format_duration, isoformat
from rota.errors import InvalidInput, LimitExceeded, NotAllowed
from rota.triggers import AnyTrigger, Interval

__all__ = [
    "MAX_SCRIPT",
    "Approval",
    "Caller",
    "Rules",
    "check_interval",
    "check_may_create",
    "check_not_too_near",
    "check_prompt",
    "depth_of",
    "expiry_of",
    "needs_approval",
    "needs_consent",
]

Approval = Literal["all", "untrusted", "none"]

MAX_SCRIPT: Final = 32_000
"""Characters of a gate's script."""
_FIRES_LOOKED_AT: Final = 300
"""More than a day of fires at the shortest interval: what repeats does so within a day."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The limits of schedules that agents make."""

    approval: Approval = "all"
    """Whose schedules wait for a person: every agent's, those of groups other than main, or nobody's."""
    max_schedules: int = 20
    """Live schedules of a group, beyond which its agents may add none."""
    max_waiting: int = 10
    """Schedules of a group that may wait for approval at the same time."""
    min_interval_ms: Millis = 5 * MINUTE
    max_life_ms: Millis = 30 * DAY
    max_depth: int = 1
    """1: only people and conversations make schedules; a scheduled run may not."""
    max_prompt: int = 32_000


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks, as the channel that the request came through has verified it. Nothing in a request can change it.

    A person has no group. An agent has one, and inside a scheduled run also the run and the depth of its schedule.
    """

    name: str
    group: str | None = None
    is_main: bool = False
    run_id: str | None = None
    run_depth: int = 0

    @classmethod
    def person(cls, name: str) -> Caller:
        """Somebody at the command line, in the dashboard or with an operator's token."""
        return cls(name=name)

    @classmethod
    def agent(cls, group: str, *, is_main: bool = False, run_id: str | None = None, run_depth: int = 0) -> Caller:
        """An agent of a group; with `run_id` inside a scheduled run."""
        return cls(name=f"agent:{group}", group=group, is_main=is_main, run_id=run_id, run_depth=run_depth)

    @property
    def is_person(self) -> bool:
        return self.group is None

    @property
    def sees_all(self) -> bool:
        return self.is_person or self.is_main

    def is_run_of(self, schedule_id: str) -> bool:
        """Whether it is a run of this very schedule that asks."""
        return self.run_id is not None and self.run_id.rpartition("-")[0] == schedule_id

    def may_touch(self, group: str) -> bool:
        """Whether schedules of this group are the caller's to see and change."""
        return self.sees_all or self.group == group


def depth_of(caller: Caller) -> int:
    """How far a schedule that the caller makes is from a person: 0 a person's own, 1 an agent's, then one more each."""
    if caller.is_person:
        return 0
    return 1 if caller.run_id is None else 1 + max(1, caller.run_depth)


def check_may_create(caller: Caller, rules: Rules) -> None:
    """Refuse what would let a schedule make schedules without end."""
    if depth_of(caller) > max(rules.max_depth, 0):
        raise NotAllowed(
            "A scheduled run may not make, change or start schedules: that is for the conversation with the owner."
            " Put what should happen into your result, and the owner can ask for it."
        )


def needs_approval(caller: Caller, rules: Rules) -> bool:
    """Whether a person has to agree before it counts."""
    if caller.is_person or rules.approval == "none":
        return False
    return rules.approval == "all" or not caller.is_main


def needs_consent(caller: Caller, rules: Rules, group: str, *, is_of_people: bool) -> bool:
    """Whether a scheduled run would undo what is not its own to undo: what people have made or decided, or anything
    of another group. Nobody sits by a run or knows what it has read: a person has to agree, also if it is main's."""
    if caller.run_id is None or rules.approval == "none":
        return False
    return is_of_people or caller.group != group


def check_interval(trigger: AnyTrigger, caller: Caller, rules: Rules, now: Instant) -> None:
    """Refuse a series of an agent that fires more often than allowed, at any place in its pattern."""
    shortest = None if caller.is_person else _shortest_gap(trigger, rules.min_interval_ms, now)
    if shortest is not None and shortest < rules.min_interval_ms:
        least = format_duration(rules.min_interval_ms)
        raise LimitExceeded(
            f"This fires again after {format_duration(shortest)}; {least} is the shortest interval for an agent."
            f" Use something like schedule_type='interval', schedule_value='{rules.min_interval_ms}', or"
            " schedule_type='cron', schedule_value='0 9 * * 1-5'."
        )


def check_not_too_near(trigger: AnyTrigger, others: Iterable[Instant], least: Millis, now: Instant) -> None:
    """Refuse what would begin soon and less than the shortest interval from `others`, the beginnings of what was made
    just now. What lies further ahead may be as near to another as people like: a reminder at three, one at two past."""
    first = trigger.next_after(now)
    if first is None or first - now >= least:
        return
    near = [other for other in others if abs(other - first) < least]
    if near:
        raise LimitExceeded(
            f"Another schedule of this group that was just made begins at {isoformat(max(near))};"
            f" {format_duration(least)} is the shortest interval for an agent. Use a time after"
            f" {isoformat(max(near) + least)}, or put both into one prompt."
        )


def _shortest_gap(trigger: AnyTrigger, enough: Millis, now: Instant) -> Millis | None:
    if isinstance(trigger, Interval):
        return trigger.every_ms
    shortest: Millis | None = None
    before = trigger.next_after(now)
    for _ in range(_FIRES_LOOKED_AT):
        after = None if before is None else trigger.next_after(before)
        if before is None or after is None:
            return shortest
        shortest = after - before if shortest is None else min(shortest, after - before)
        if shortest < enough:
            return shortest
        before = after
    return shortest


def expiry_of(wanted: Instant | None, caller: Caller, rules: Rules, made_at: Instant) -> Instant | None:
    """When the schedule ends: as wanted, and for an agent's at most a month after it was made."""
    if caller.is_person:
        return wanted
    latest = made_at + rules.max_life_ms
    if wanted is not None and wanted > latest:
        raise LimitExceeded(
            f"It would end after {isoformat(latest)}, the latest for a schedule that an agent makes"
            f" ({format_duration(rules.max_life_ms)}). Use an earlier 'expires', or leave it out."
        )
    return latest if wanted is None else wanted


def check_prompt(prompt: str, rules: Rules) -> str:
    """A prompt that says something and fits."""
    if not prompt.strip():
        raise InvalidInput(
            "The prompt is empty. Say what the agent should do, e.g. 'Tell me what changed today.'.", field="prompt"
        )
    if len(prompt) > rules.max_prompt:
        raise LimitExceeded(
            f"The prompt has {len(prompt):,} characters; {rules.max_prompt:,} is the most. Shorten it.", field="prompt"
        )
    return prompt
