"""The stage that most tests act on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from tests.api.stage import Stage, staged

from rota.runtime.spool import Spool
from rota.testing.waiting import PATIENCE


@pytest.fixture
async def stage(sqlite_url: str) -> AsyncGenerator[Stage]:
    async with staged(sqlite_url) as made:
        yield made


@pytest.fixture
def patient_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A touch waits for its store however busy the machine is: after a quarter of a second it would be spooled."""
    defaults = Spool.__init__.__kwdefaults__
    assert defaults is not None
    assert "patience" in defaults
    monkeypatch.setitem(defaults, "patience", PATIENCE)
