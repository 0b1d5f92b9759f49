"""How long to wait before an attempt is made again."""

from __future__ import annotations

from rota.clock import Millis
from rota.core.task_type import RetryPolicy

__all__ = ["back_off"]


def back_off(policy: RetryPolicy, errors: int, chance: float) -> Millis:
    """The delay before retry number `errors`: exponential, capped, with full jitter.

    Full jitter (anything between nothing and the cap) spreads a thousand tasks that failed in the same outage far
    better than a fixed delay with a little noise. `chance` in [0, 1) is drawn by the caller.
    """
    assert errors >= 1, "a task that never failed has nothing to back off from"
    assert 0 <= chance < 1
    # The exponent is bounded before it is raised: factor ** 1000 overflows a float.
    growth = policy.factor ** min(errors - 1, 64)
    return int(min(policy.base_ms * growth, policy.max_ms) * chance)
