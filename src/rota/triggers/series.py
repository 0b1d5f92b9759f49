"""The series of a recurring task: what becomes of every fire.

**The law.** Over the life of a series every fire is accounted for exactly once: it *ran*, or it lies in a span that was
*coalesced* (a later fire ran for it), *skipped* (too late, or paused) or *overlapped* (it passed during a run).

Who accounts for what, and where the line runs:

    at_claim    fires up to the claim, from the one that was due.  Answers which of them runs.
    at_settle   fires during the run, from the claim to the end.   Answers which comes next.
    at_resume   fires that passed while the schedule was paused.

The line between claim and run is `claimed_at`, the `now` of the `at_claim` that chose the fire. A retry of the same
fire is not a new claim of the series: it keeps `fire_at` and `claimed_at`, and the fires that pass until it settles are
overlaps.

There is one exception, and it moves the line instead of crossing it: after a claim under misfire="all", fires at or
before `claimed_at` may still be owed when its run settles, whatever the policy is by then. Then nothing is an overlap
yet: the next claim starts at the first one owed and sees all up to its own `now`, the fires of the run among them.

The next fire follows from the last one accounted for, never from the end of the run, so a slow run cannot shift its
series. Between the verbs one instant says it all, the record's `next_fire`: every fire before it is accounted for.
"""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import msgspec

from rota.clock import Instant, Millis
from rota.errors import InvalidTrigger
from rota.triggers.base import Trigger

__all__ = [
    "CATCH_UP_LIMIT",
    "COUNT_LIMIT",
    "Claim",
    "Misfire",
    "Overlap",
    "Policy",
    "Settle",
    "Span",
    "at_claim",
    "at_resume",
    "at_settle",
    "count_fires",
    "jittered",
]

Misfire = Literal["latest", "all", "skip"]
Overlap = Literal["skip", "queue"]

CATCH_UP_LIMIT = 24
"""How many missed fires misfire="all" runs, one after another; older ones are coalesced."""

COUNT_LIMIT = 1_000
"""How many fires are counted one by one where arithmetic does not help."""


class Policy(msgspec.Struct, frozen=True):
    """What to do with fires that come too late, too often or all at once.

    misfire     of several due fires: run the latest; run all, oldest first, at most 24; run the latest and call the
                others skipped instead of coalesced
    grace_ms    a fire later than this (beyond its jitter) is skipped, not run; None: however late
    overlap     fires during a run: skip them, or queue one
    jitter_ms   spread the runs of many keys over this long after the fire
    """

    misfire: Misfire = "latest"
    grace_ms: Millis | None = None
    overlap: Overlap = "skip"
    jitter_ms: Millis = 0

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("misfire", self.misfire, get_args(Misfire)),
            ("overlap", self.overlap, get_args(Overlap)),
        ):
            if value not in choices:
                raise InvalidTrigger(f"The {name} policy {value!r} is unknown. Use one of {', '.join(choices)}.")
        if self.jitter_ms < 0 or (self.grace_ms is not None and self.grace_ms < 0):
            raise InvalidTrigger("The jitter or the grace is negative. Use a duration such as '30s', or leave it out.")


class Span(msgspec.Struct, frozen=True):
    """A range of fires, both ends included. If not `exact`, there are at least `count`."""

    first_at: Instant
    last_at: Instant
    count: int
    exact: bool = True


class Claim(msgspec.Struct, frozen=True):
    """What a claim does with the fires that are due: `fire_at` runs (None: nothing), the spans are accounted for."""

    fire_at: Instant | None
    coalesced: Span | None
    skipped: Span | None
    next_fire: Instant | None


class Settle(msgspec.Struct, frozen=True):
    """What follows a run: the next fire (None: the series is over), and the fires that passed meanwhile."""

    next_fire: Instant | None
    overlapped: Span | None


def count_fires(trigger: Trigger, after: Instant, until: Instant) -> Span | None:
    """The fires with after < fire <= until as one span; None if there are none."""
    first_at, last_at = trigger.next_after(after), trigger.latest_until(until)
    if first_at is None or last_at is None or first_at > until:
        return None
    if first_at == last_at:
        return Span(first_at, last_at, 1)
    count = trigger.count(after, until)
    if count is not None:
        return Span(first_at, last_at, count)
    return _counted_one_by_one(trigger, first_at, last_at)


def _counted_one_by_one(trigger: Trigger, first_at: Instant, last_at: Instant) -> Span:
    count, fire_at = 1, trigger.next_after(first_at)
    while fire_at is not None and fire_at <= last_at and count < COUNT_LIMIT:
        count, fire_at = count + 1, trigger.next_after(fire_at)
    return Span(first_at, last_at, count, exact=fire_at is None or fire_at > last_at)


def at_claim(trigger: Trigger, policy: Policy, fire_at: Instant, now: Instant) -> Claim:
    """Which of the due fires runs: of `fire_at` and those in (fire_at, now].

    First the grace: what is later than it is skipped. Of the rest, latest and skip run the last one, all runs the 24th
    from the end or the oldest. With nothing left to run, the series goes on with the first fire after `now`.
    """
    due = _Due(trigger, fire_at, max(now, fire_at))
    grace_ms = policy.grace_ms
    stale_until = fire_at - 1 if grace_ms is None else now - grace_ms - policy.jitter_ms - 1
    last_at = due.latest()
    if last_at <= stale_until:
        return Claim(None, None, due.span(last_at), trigger.next_after(due.now))
    run_at = due.back_from(last_at, CATCH_UP_LIMIT, stale_until) if policy.misfire == "all" else last_at
    following = trigger.next_after(run_at)
    if policy.misfire == "skip":
        return Claim(run_at, None, due.span(run_at - 1), following)
    skipped = due.span(min(stale_until, run_at - 1))
    coalesced = due.span(run_at - 1, after=stale_until)
    return Claim(run_at, coalesced, skipped, following)


class _Due:
    """The fires from `fire_at` to `now`. `fire_at` belongs to them even if the trigger was changed since."""

    def __init__(self, trigger: Trigger, fire_at: Instant, now: Instant) -> None:
        self.trigger, self.fire_at, self.now = trigger, fire_at, now

    def latest(self, until: Instant | None = None) -> Instant:
        found = self.trigger.latest_until(self.now if until is None else until)
        return self.fire_at if found is None else max(found, self.fire_at)

    def back_from(self, last_at: Instant, steps: int, stale_until: Instant) -> Instant:
        """The fire from which up to `steps` are left until `last_at`, none of them stale."""
        run_at = last_at
        for _ in range(steps - 1):
            if run_at <= self.fire_at:
                break
            before = self.latest(run_at - 1)
            if before <= stale_until:
                break
            run_at = before
        return run_at

    def span(self, until: Instant, after: Instant | None = None) -> Span | None:
        """The due fires with after < fire <= until."""
        if until < self.fire_at:
            return None
        if after is not None and after >= self.fire_at:
            return count_fires(self.trigger, after, until)
        rest = count_fires(self.trigger, self.fire_at, until)
        if rest is None:
            return Span(self.fire_at, self.fire_at, 1)
        return Span(self.fire_at, rest.last_at, rest.count + 1, rest.exact)


def at_settle(trigger: Trigger, policy: Policy, accounted_until: Instant, claimed_at: Instant, now: Instant) -> Settle:
    """What follows a run that was claimed at `claimed_at` and ended `now`.

    Every fire up to `accounted_until`, most often the one that ran, is accounted for. Fires after it and at or before
    `claimed_at` are owed: they come first, and what is later is left to the next claim, under the policy of its day.
    Otherwise the fires in (claimed_at, now] passed during the run: with overlap="skip" all of them are overlapped, with
    "queue" the last one is kept and due at once.
    """
    following = trigger.next_after(accounted_until)
    if following is not None and following <= claimed_at:
        return Settle(following, None)
    # A claim never looks behind its own fire, even one that came early.
    start = max(accounted_until, claimed_at)
    passed = count_fires(trigger, start, now)
    if passed is None:
        return Settle(trigger.next_after(max(start, now)), None)
    if policy.overlap == "queue":
        return Settle(passed.last_at, count_fires(trigger, start, passed.last_at - 1))
    return Settle(trigger.next_after(now), passed)


def at_resume(trigger: Trigger, policy: Policy, fire_at: Instant, now: Instant) -> Claim:
    """What a resumed schedule does: nothing runs because of the past, whatever the misfire policy.

    Fires that passed while it was paused are skipped, and the series goes on with the first one after `now`. A fire
    that is still to come stays as it is.
    """
    if fire_at > now:
        return Claim(None, None, None, fire_at)
    return Claim(None, None, _Due(trigger, fire_at, now).span(now), trigger.next_after(now))


def jittered(fire_at: Instant, policy: Policy, key: str, next_fire: Instant | None) -> Instant:
    """When the fire is due: up to `jitter_ms` later, always the same for one key, always before the next fire."""
    width = policy.jitter_ms if next_fire is None else min(policy.jitter_ms, next_fire - fire_at)
    if width <= 0:
        return fire_at
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return fire_at + (int.from_bytes(digest) * width >> 64)
