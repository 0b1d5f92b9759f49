"""How fast batches may go: what a configuration says a minute, as buckets that never let more through in any minute."""

from __future__ import annotations

from typing import Final, NamedTuple

from rota.batches.generators.base import estimate
from rota.batches.names import DETAIL_BATCH
from rota.batches.section import BatchesConfig
from rota.batches.split import MAX_SIZE
from rota.core.task_type import RateLimit

__all__ = ["CALLS_BUCKET", "TOKENS_BUCKET", "Limits", "limits_of", "per_minute"]

TOKENS_BUCKET: Final = f"type:{DETAIL_BATCH}"
CALLS_BUCKET: Final = f"type:{DETAIL_BATCH}:starts"
_NO_LIMIT: Final = 60_000
"""Calls a minute where nobody has said how many. There is a bucket all the same: a provider that says "not so fast"
closes it for every instance."""
_SECONDS: Final = 60


class Limits(NamedTuple):
    """The two quotas of a provider."""

    calls: RateLimit | None
    tokens: RateLimit | None


def limits_of(config: BatchesConfig) -> Limits:
    """None where nothing is to be limited: the offline generator asks nobody."""
    calls = config.requests_per_minute
    if calls is None and config.generator != "offline":
        calls = _NO_LIMIT
    return Limits(
        None if calls is None else per_minute(calls, max(1, calls // _SECONDS)),
        None if config.tokens_per_minute is None else _tokens(config.tokens_per_minute),
    )


def _tokens(per_minute_: int) -> RateLimit:
    # Room for one large call, but never for more than half a minute's worth at once.
    largest = estimate("", MAX_SIZE, "")
    return per_minute(per_minute_, max(1, min(max(per_minute_ // 6, largest), per_minute_ // 2)))


def per_minute(most: int, burst: int) -> RateLimit:
    """A bucket that grants at most so many in any minute: what comes in at once is taken off the rate."""
    return RateLimit(rate=max(most - burst + 1, 1) / _SECONDS, burst=burst)
