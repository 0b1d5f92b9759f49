"""The sandbox that tests of agents ask for."""

from __future__ import annotations

import os

import pytest

from rota.agents.isolation import BubblewrapIsolation, choose_isolation
from rota.errors import RunnerUnavailable

__all__ = ["require_bubblewrap"]


def require_bubblewrap() -> BubblewrapIsolation:
    """Where there is none the test is skipped with the reason, or fails if CI is set."""
    try:
        chosen = choose_isolation(require="bubblewrap").isolation
    except RunnerUnavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have bubblewrap (apt-get install bubblewrap): {error}")
        pytest.skip(str(error))
    assert isinstance(chosen, BubblewrapIsolation)
    return chosen
