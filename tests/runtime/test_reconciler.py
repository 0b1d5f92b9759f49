"""How much of a machine the reconciler takes."""

from __future__ import annotations

import pytest

from rota.runtime.reconciler import LONGEST_REST, SHORTEST_REST, rest_after


@pytest.mark.parametrize("worked", [0.001, 0.002, 0.01])
def test_it_takes_a_tenth_of_a_core(worked: float) -> None:
    assert worked / (worked + rest_after(worked)) == pytest.approx(0.1)


def test_it_always_rests_a_little_and_never_for_long() -> None:
    assert rest_after(0.0) == SHORTEST_REST
    assert rest_after(60.0) == LONGEST_REST
