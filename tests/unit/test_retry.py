"""Back-off: exponential, capped, with full jitter."""

from __future__ import annotations

import pytest

from rota.clock import HOUR, SECOND
from rota.core.retry import back_off
from rota.core.task_type import RetryPolicy


def test_it_grows_by_the_factor_up_to_the_cap() -> None:
    policy = RetryPolicy(base_ms=10 * SECOND, factor=2.0, max_ms=60 * SECOND)
    waits = [back_off(policy, errors, 0.5) for errors in range(1, 6)]
    assert waits == [5 * SECOND, 10 * SECOND, 20 * SECOND, 30 * SECOND, 30 * SECOND]


def test_full_jitter_is_anything_from_nothing_to_the_cap() -> None:
    policy = RetryPolicy()
    assert back_off(policy, 1, 0.0) == 0
    assert back_off(policy, 1, 0.999_999) == 9_999


def test_a_thousand_errors_do_not_overflow() -> None:
    policy = RetryPolicy(base_ms=HOUR, factor=100.0, max_ms=24 * HOUR)
    assert back_off(policy, 1_000, 0.5) == 12 * HOUR


@pytest.mark.parametrize(("errors", "chance"), [(0, 0.5), (1, 1.0), (1, -0.1)])
def test_what_makes_no_sense_is_a_bug_of_the_caller(errors: int, chance: float) -> None:
    with pytest.raises(AssertionError):
        back_off(RetryPolicy(), errors, chance)
