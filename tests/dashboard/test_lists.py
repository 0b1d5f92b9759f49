"""Lists in a real browser: long texts, orders, time ranges, filters that are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.dashboard.conftest import another_page, signed_in
from tests.dashboard.stage import Stage, filled

from rota import Rota
from rota.access import Role
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
    for number, task in enumerate((await store.claim(wanted)).tasks):
        lost = Settlement(
            task_type="charge",
            key=task.key,
            token=task.token,
            transition=Transition.FAIL,
            error=LONG,
            reason="error",
            duration_ms=1_000 * (1 + number),
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


async def test_a_head_sorts_and_says_so(chromium: Browser, stage: Stage) -> None:
    async with signed_in(chromium, stage) as visit:
        page = await visit.open()
        await page.goto(f"{stage.url}/runs?type=charge")
        head = page.locator("thead th", has_text="Duration")
        assert await head.get_attribute("aria-sort") is None
        assert await page.locator("thead th[aria-sort]").text_content() == "Started ↓"
        for way, sort in (("descending", "-duration"), ("ascending", "duration")):
            async with another_page(page):
                await head.get_by_role("link").click()
            assert await head.get_attribute("aria-sort") == way
            assert f"sort={sort}" in page.url
            assert "type=charge" in page.url
            took = [
                float(text.removesuffix(" s"))
                for text in await page.locator("td[data-label=Duration]").all_text_contents()
            ]
            assert took == sorted(took, reverse=way == "descending")


async def test_a_time_range_is_a_link_and_stays_with_the_order(chromium: Browser, stage: Stage) -> None:
    async with signed_in(chromium, stage) as visit:
        page = await visit.open()
        await page.goto(f"{stage.url}/tasks?sort=due")
        assert await page.locator("tr[data-row]").count() == 3
        async with another_page(page):
            await page.get_by_role("link", name="15 min").click()
        assert "since=15m" in page.url
        assert "sort=due" in page.url
        assert await page.locator("tr[data-row]").count() == 3
        await page.get_by_label("Until", exact=True).fill("1h")
        await page.get_by_label("Since", exact=True).fill("2h")
        async with another_page(page):
            await page.get_by_role("button", name="Filter").click()
        assert "sort=due" in page.url
        assert await page.locator("tr[data-row]").count() == 0
        assert await page.get_by_label("Since", exact=True).input_value() == "2h"


async def test_all_that_match_are_those_of_the_time_range(chromium: Browser, stage: Stage) -> None:
    """What a button over the list acts on is what the list shows."""
    async with signed_in(chromium, stage) as visit:
        page = await visit.open()
        await page.goto(f"{stage.url}/dead-letters?until=1h&since=2h")
        sent = await page.locator("#bulk input[type=hidden]").evaluate_all("(all) => all.map((each) => each.name)")
        assert {"since", "until"} <= set(sent)
        query = {"status": "failed", "since": "2h", "until": "1h"}
        async with stage.client(Role.OPERATOR) as client:
            asked = {"event": "redrive", "query": query, "dry_run": True}
            assert (await client.post(f"{stage.url}/api/tasks/bulk", json=asked)).json()["matched"] == 0
            asked = {"event": "redrive", "query": {"status": "failed", "since": "1h"}, "dry_run": True}
            assert (await client.post(f"{stage.url}/api/tasks/bulk", json=asked)).json()["matched"] == 3


async def test_the_api_sorts_and_refuses_what_is_no_order(stage: Stage) -> None:
    async with stage.client(Role.VIEWER) as client:
        runs = (await client.get(f"{stage.url}/api/runs?sort=-duration&since=1h")).json()
        assert [run["duration_ms"] for run in runs["items"]] == [3000, 2000, 1000]
        assert runs["looked_at"] is None
        tasks = (await client.get(f"{stage.url}/api/tasks?sort=-changed&limit=2")).json()
        assert len(tasks["items"]) == 2
        rest = (
            await client.get(f"{stage.url}/api/tasks", params={"sort": "-changed", "cursor": tasks["cursor"]})
        ).json()
        assert len({task["key"] for task in tasks["items"] + rest["items"]}) == 3
        assert (await client.get(f"{stage.url}/api/tasks?sort=colour")).status_code == 422
        assert (await client.get(f"{stage.url}/api/runs?since=soon")).status_code == 422
        assert (await client.get(f"{stage.url}/api/runs?since=1h&until=2h")).status_code == 422
