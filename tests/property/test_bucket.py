"""The token bucket, as laws."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import SECOND, Millis
from rota.core.bucket import Bucket, owe, refill, take, wait_for

rates = st.sampled_from([0.05, 0.3, 1.0, 2.5, 7.0, 1_000.0])
bursts = st.integers(1, 50)
debts = st.integers(1, 10_000)
pauses: st.SearchStrategy[list[tuple[Millis, int]]] = st.lists(
    st.tuples(st.integers(-500, 20_000), st.integers(1, 20)), max_size=40
)
"""How long after the one before somebody asks, and for how much. A clock may step back."""


def later(bucket: Bucket, span: Millis, rate: float, burst: int) -> Bucket:
    return refill(bucket, rate=rate, burst=burst, now=bucket.at + span)


@given(rate=rates, burst=bursts, asked=pauses)
def test_never_more_than_rate_times_window_and_burst(rate: float, burst: int, asked: list[tuple[Millis, int]]) -> None:
    bucket, now = None, 0
    granted: list[tuple[Millis, int]] = []
    for pause, amount in asked:
        now += pause
        full = refill(bucket, rate=rate, burst=burst, now=now)
        left = take(full, amount, burst)
        bucket = full if left is None else left
        if left is not None:
            granted.append((bucket.at, amount))
    for first, (since, _) in enumerate(granted):
        total = 0
        for at, amount in granted[first:]:
            total += amount
            assert total <= rate * (at - since) / SECOND + burst + 1e-6


@given(rate=rates, burst=bursts, asked=pauses, owed=st.integers(0, 500))
def test_also_after_a_debt(rate: float, burst: int, asked: list[tuple[Millis, int]], owed: int) -> None:
    """Owed or granted: all that was ever taken is within rate x window + burst by the time the next one is granted."""
    bucket, total = owe(Bucket(float(burst), 0), owed, burst), owed
    for pause, amount in asked:
        bucket = later(bucket, max(0, pause), rate, burst)
        left = take(bucket, amount, burst)
        if left is not None:
            bucket, total = left, total + amount
            assert total <= rate * bucket.at / SECOND + burst + 1e-6


@given(rate=rates, burst=bursts, debt=debts, amount=st.integers(0, 50))
def test_a_debt_is_exactly_paid_by_time(rate: float, burst: int, debt: int, amount: int) -> None:
    amount = min(amount, burst)
    bucket = owe(Bucket(0.0, 0), debt, burst)
    wait = wait_for(bucket, amount, rate)
    assert wait == pytest.approx((debt + amount) * SECOND / rate, abs=1)
    # A millisecond more: with so long a wait, rounding may be off by a hair.
    assert take(later(bucket, wait + 1, rate, burst), amount, burst) is not None
    # The last millisecond may be worth less than the tolerance.
    assert take(later(bucket, wait - 2, rate, burst), amount, burst) is None
    assert later(bucket, wait_for(bucket, 0, rate), rate, burst).tokens == pytest.approx(0.0, abs=rate / SECOND + 1e-6)


@given(rate=rates, burst=bursts, debt=debts, spans=st.lists(st.integers(0, 5_000), max_size=20))
def test_asking_in_between_pays_nothing_and_wipes_nothing(
    rate: float, burst: int, debt: int, spans: list[Millis]
) -> None:
    bucket = owe(Bucket(0.0, 0), debt + burst, burst)
    asked = bucket
    for span in spans:
        asked = later(asked, span, rate, burst)
        left = take(asked, 1, burst)
        if left is not None:
            return  # it is paid off, and more
    assert asked.tokens == pytest.approx(later(bucket, sum(spans), rate, burst).tokens, abs=1e-6)


@given(
    burst=bursts,
    tokens=st.floats(-1_000, 50),
    refunds=st.lists(st.integers(1, 100), max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_refunds_commute(burst: int, tokens: float, refunds: list[int], order: random.Random) -> None:
    bucket = Bucket(min(tokens, float(burst)), 0)
    shuffled = list(refunds)
    order.shuffle(shuffled)

    def refunded(amounts: list[int]) -> float:
        left = bucket
        for amount in amounts:
            left = take(left, -amount, burst) or left
        return left.tokens

    assert refunded(refunds) == pytest.approx(refunded(shuffled))
    assert refunded(refunds) == pytest.approx(min(float(burst), bucket.tokens + sum(refunds)))


@given(burst=bursts, debt=debts, refund=st.integers(1, 100))
def test_a_refund_adds_and_wipes_no_debt(burst: int, debt: int, refund: int) -> None:
    left = take(Bucket(-float(debt), 0), -refund, burst)
    assert left is not None
    assert left.tokens == min(burst, refund - debt)
    back = take(owe(Bucket(0.0, 0), refund, burst), -refund, burst)
    assert back == Bucket(0.0, 0), "what was owed and given back never was"
