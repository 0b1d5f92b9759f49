"""Who is asked for work, and how many slots of an instance each type may have: none is kept waiting by another's runs.

Who gets a free slot is decided where the tasks are, by rank (`ClaimRequest`). Here is said what rank cannot take away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Lane", "Offer", "fair_share", "own_share"]


class Lane(NamedTuple):
    """A type as the sharing sees it: how many it runs, and how many more it may."""

    name: str
    running: int
    room: int
    is_quiet: bool = False
    """It had nothing to do a moment ago."""
    is_held: bool = False
    """Nothing of it starts now, by an operator's word."""
    was_asked: bool = False
    """It has given all that it has."""


class Offer(NamedTuple):
    """What types are asked for: each at most so many, all together `limit`, and one more each of those in `own`."""

    wants: list[tuple[str, int]]
    limit: int
    own: frozenset[str]


def own_share(lane: Lane) -> Offer:
    """What a type is asked for that has slots of its own: all that it has room for, and nobody competes with it."""
    wants = [] if lane.was_asked or lane.room <= 0 else [(lane.name, lane.room)]
    return Offer(wants, max(0, lane.room), frozenset())


def fair_share(slots: int, free: int, lanes: Sequence[Lane]) -> Offer:
    """What to ask the types for that share the slots, with so many of these free.

    Where there are as many slots as types, each type keeps one: those that run nothing have theirs free at any time,
    and the types share the others. Where there are fewer, they share all. The order of the lanes is that of the wants.

    Looking at a quiet type is work for nothing, most likely: it is asked where there is more room than the busy types
    could fill with one each, or where nobody else is to be asked.
    """
    serving = [lane for lane in lanes if not lane.is_held]
    own = frozenset(lane.name for lane in serving if lane.running == 0 and len(serving) <= slots)
    if free < len(own):
        # A type came back when its slot was taken already: whoever has none is first.
        lanes = [lane._replace(room=1) for lane in lanes if lane.name in own]
        own = frozenset[str]()
    limit = max(0, free - len(own))
    most = {lane.name: min(lane.room, limit + (lane.name in own)) for lane in lanes}
    asked = [lane for lane in lanes if not lane.was_asked and most[lane.name] > 0]
    busy = [lane for lane in asked if not lane.is_quiet]
    if busy and limit <= len(busy):
        asked = busy
    return Offer([(lane.name, most[lane.name]) for lane in asked], limit, own)
