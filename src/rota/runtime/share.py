"""Who may claim how many: free slots are shared out among the types, so that none is starved."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Lane", "share"]


class Lane(NamedTuple):
    """A type as the sharing sees it: how many it runs, how many more it may, and if it had nothing to do lately."""

    name: str
    running: int
    room: int
    is_quiet: bool = False


def share(free: int, lanes: Sequence[Lane]) -> list[tuple[str, int]]:
    """So many for each type, in the order in which they are to be served.

    First one for each type, the busy types before the quiet ones and the least served first; the lanes' own order
    (the caller rotates it) breaks ties. What is left goes to the busy types, always to the one that runs the fewest.
    A quiet type is only asked whether it has work again: slots set aside for it would be wasted.
    """
    ranked = sorted((lane for lane in lanes if lane.room > 0), key=lambda lane: (lane.is_quiet, lane.running))
    served = ranked[: max(free, 0)]
    granted = {lane.name: 1 for lane in served}
    _fill(free - len(served), [lane for lane in served if not lane.is_quiet], granted)
    return list(granted.items())


def _fill(left: int, busy: Sequence[Lane], granted: dict[str, int]) -> None:
    if len(busy) == 1:
        granted[busy[0].name] += max(0, min(left, busy[0].room - 1))
        return
    heap = [(lane.running + 1, index) for index, lane in enumerate(busy) if lane.room > 1]
    heapq.heapify(heap)
    while left > 0 and heap:
        running, index = heap[0]
        lane = busy[index]
        granted[lane.name] += 1
        left -= 1
        if granted[lane.name] < lane.room:
            heapq.heapreplace(heap, (running + 1, index))
        else:
            heapq.heappop(heap)
