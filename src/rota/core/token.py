"""The token of a claim: a number that grows with time, so that no loss of data can bring one back.

Whoever runs a task holds the token of its claim, and every write-back names it: a stale one is refused. That is worth
as much as the promise that no token is ever handed out twice. A plain counter cannot keep it: a server that was
emptied, restarted without its file, or replaced by a replica that had not seen the last writes counts again from where
it stood, and two runs of one task hold the same number. Both may then renew and settle, each in the other's name.

So a token carries the store's time. Each millisecond has room for 4,096 tokens, and a token is never lower than the
room of the millisecond in which it is handed out:

- After a loss the next token is higher than every one from before, because time has passed; the counter is not needed
  for that, only its clock.
- Two servers that both take themselves for the master in one millisecond (a fail-over under way) begin at different
  places of its room: the claim's own id says where. The store draws no lots.
- Within a server that has lost nothing the counter goes on by one, whatever its clock does. More than 4,096 tokens a
  millisecond, or a clock that steps back, borrow from the milliseconds to come.
- For one task the order never breaks: its next token is higher than its last one, also if the counter was lost and the
  clock is behind.

Tokens stay below 2^53, so that Lua, JSON and JavaScript read them exactly: with 41 bits of milliseconds until 2094.
Whoever counts on from the last one, as scripts of an older version do, stays above everything handed out so far.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from rota.clock import Instant, Millis

__all__ = ["EPOCH", "LONGEST", "ROOM", "floor_at", "last_before", "spread_of"]

EPOCH: Final[Instant] = 1_735_689_600_000
"""2025-01-01T00:00:00Z, in milliseconds: tokens begin there."""
ROOM: Final = 4_096
"""How many tokens one millisecond has room for."""
LONGEST: Final[Millis] = 2**41 - 2**31
"""The time that is counted, until 2094; then the counter goes on alone, with room for some weeks of tokens."""


def floor_at(now: Instant) -> int:
    """What every token that is handed out at an instant is higher than."""
    return min(max(0, now - EPOCH), LONGEST) * ROOM


def spread_of(claim_id: str) -> int:
    """Where in the room of its millisecond a claim begins: the caller's chance, the same in Python and in Lua."""
    return int(sha1(claim_id.encode(), usedforsecurity=False).hexdigest()[:3], 16)


def last_before(last: int, floor: int, spread: int) -> int:
    """The number after which a claim's tokens begin, where `last` is the last one that is known to be handed out."""
    return last if last >= floor else floor + spread
