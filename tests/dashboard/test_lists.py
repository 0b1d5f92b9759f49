"""Lists in a real browser: long texts, orders, time ranges, filters that are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.dashboard.conftest import signed_in
from tests.dashboard.stage import Stage, filled

from rota import Rota
from rota.core.task import NewTask, Settlement, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.stores.base import ClaimRequest

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "ConnectionError: the payment gateway at https://pay.example/v1/charges/9231 refused the connection; " * 4


async def _fill(app: Rota) -> None:
    store = await app.store()
    await store.put_types([TaskType(name="charge", trigger_mode=TriggerMode.ONCE, max_retries=0)])
    await store.schedule([NewTask(task_type="charge", key=f"k{number}") for number in range(3)])
    wanted = ClaimRequest(wants=[("charge", 3)], instance="i", claim_id="c", lease_ms=60_000)
    for task in (await store.claim(wanted)).tasks:
        lost = Settlement(
            task_type="charge", key=task.key, token=task.token, transition=Transition.FAIL, error=LONG, reason="error"
        )
        await store.settle([lost])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    folder: Path = tmp_path_factory.mktemp("lists")
    async with filled(Rota(f"sqlite:///{folder}/rota.db?synchronous=OFF"), _fill) as made:
        yield made


@pytest.mark.parametrize("path", ["/tasks", "/runs", "/dead-letters"])
async def test_a_long_error_takes_two_lines_and_is_whole_where_the_pointer_rests(
    chromium: Browser, stage: Stage, path: str
) -> None:
    async with signed_in(chromium, stage) as visit:
        page = await visit.open()
        await page.goto(stage.url + path)
        said = page.locator("td .brief").first
        assert await said.get_attribute("title") == LONG
        lines = await said.evaluate("(e) => e.clientHeight / parseFloat(getComputedStyle(e).lineHeight)")
        assert 1.5 < lines < 2.5
        assert await said.evaluate("(e) => e.scrollHeight > e.clientHeight"), "there is more of it than is shown"
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
