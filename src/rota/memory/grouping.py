"""Which contexts say the same: a pure rule over embeddings.

**The rule.** Contexts have an order (when they were captured). Each one joins the most similar of the *leaders* before
it, if the cosine of the two reaches the threshold; of equally similar ones, the earliest. One that finds no such leader
leads itself. Only the last `reach` leaders before a context are asked, and a leader of another voice (somebody else's
words) is similar to nothing.

What follows from it:

- *Nothing chains.* A member is similar to its leader itself, never only to another member. So a group cannot wander
  off from "the train leaves at nine" to "the rain leaves at night".
- *The order of the input does not matter*, only the order of the contexts; nor does it matter how they are cut into
  chunks, or whether a run was broken off and begun again: what a context joins depends on those before it alone.
- *The cost is linear* in the number of contexts: at most `reach` cosines for each, computed in blocks by numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rota.lazy import lazy_module
from rota.memory.vectors import Vectors, cosines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = lazy_module("numpy")

__all__ = ["REACH", "THRESHOLD", "assign", "groups"]

THRESHOLD: Final = 0.85
"""The cosine from which on two contexts say the same."""
REACH: Final = 2_048
"""How many leaders back a context looks."""
BLOCK: Final = 256
"""How many contexts are compared in one product of matrices."""

_NO_LEADER: Final = -4.0
"""Added to the cosine with a context that does not lead, or in its place; no sum with it reaches a threshold."""


def assign(
    vectors: Vectors,
    leads: NDArray[np.bool_] | None = None,
    *,
    voices: NDArray[np.int64] | None = None,
    threshold: float = THRESHOLD,
    reach: int = REACH,
    block: int = BLOCK,
) -> NDArray[np.int64]:
    """For each row, the row of its leader; its own if it leads.

    `leads` marks those that are known to lead; `voices` numbers who speaks in each row (one and the same, if missing).
    """
    voices = np.zeros(len(vectors), dtype=np.int64) if voices is None else voices
    known = np.zeros(len(vectors), dtype=np.bool_) if leads is None else leads
    joins = np.arange(len(vectors), dtype=np.int64)
    is_leader = known.copy()
    open_rows = np.flatnonzero(~known)
    for start in range(0, len(open_rows), block):
        rows = open_rows[start : start + block]
        first, end = int(rows[0]), int(rows[-1]) + 1
        before = np.flatnonzero(is_leader[:first])[-reach:]
        candidates = np.concatenate([before, np.arange(first, end)])
        similar = cosines(vectors[rows], vectors[candidates])
        similar[voices[rows, np.newaxis] != voices[candidates]] = _NO_LEADER
        _assign_block(rows, candidates, similar, is_leader, joins, threshold, reach)
    return joins


def _assign_block(
    rows: NDArray[np.int64],
    candidates: NDArray[np.int64],
    similar: NDArray[np.float64],
    is_leader: NDArray[np.bool_],
    joins: NDArray[np.int64],
    threshold: float,
    reach: int,
) -> None:
    """One block, row by row: who leads is known only once all before it are assigned."""
    offset = len(candidates) - (int(candidates[-1]) + 1)  # the tail of the candidates is the block itself, row for row
    penalty = np.where(is_leader[candidates], 0.0, _NO_LEADER)
    for position, row in enumerate(rows.tolist()):
        here = offset + row
        first = _first_in_reach(penalty[:here], reach)
        chances = similar[position, first:here] + penalty[first:here]
        best = int(chances.argmax()) if len(chances) else -1
        if best >= 0 and chances[best] >= threshold:
            joins[row] = candidates[first + best]
        else:
            is_leader[row] = True
            penalty[here] = 0.0


def _first_in_reach(penalty: NDArray[np.float64], reach: int) -> int:
    """Where the last `reach` leaders begin."""
    if len(penalty) <= reach:
        return 0
    leaders = np.flatnonzero(penalty == 0.0)
    return int(leaders[-reach]) if len(leaders) > reach else 0


def groups(joins: NDArray[np.int64]) -> Iterator[tuple[int, list[int]]]:
    """Each leader that others joined, with those who joined it, in order."""
    members: dict[int, list[int]] = {}
    for row, leader in enumerate(joins.tolist()):
        if leader != row:
            members.setdefault(leader, []).append(row)
    yield from sorted(members.items())
