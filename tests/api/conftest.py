"""The stage that most tests act on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from tests.api.stage import Stage, staged


@pytest.fixture
async def stage(sqlite_url: str) -> AsyncGenerator[Stage]:
    async with staged(sqlite_url) as made:
        yield made
