"""axe finds nothing: on every page of the menu, one of each detail, every form; in both themes, wide and narrow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, ViewportSize
from tests.dashboard.stage import Stage

from docs.pictures.__main__ import browsed, lived
from docs.pictures.shots import settled, shots_of
from rota.events import Event

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
FORMS = (
    "/schedules/new?type=send_invoice&id=tea&value=0+17+*+*+1-5&tz=Europe/Berlin",
    "/schedules/new?type=send_invoice&value=nonsense",
    "/users?user=ada",
    "/users?user=nobody",
    "/memory/ada?text=mountains",
    "/memory/nobody",
    "/agents?group=family",
    "/types/agent",
    "/tasks?user=nobody",
    "/tasks?type=agent&without=completed",
    "/failures?muted=shown",
    "/docs?search=nothing",
    "/docs/tasks",
    "/docs/models",
    "/no-such-page",
)
"""What no link of the menu leads to, and what is no picture."""
MENU = "() => [...document.querySelectorAll('aside nav a')].map((link) => link.getAttribute('href'))"
AXE: Final = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN = """async () => (await axe.run(document, {resultTypes: ["violations"], iframes: false})).violations.flatMap(
  (violation) => violation.nodes.map((node) => `${violation.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))"""
OPENED = "() => document.querySelectorAll('main details').forEach((each) => { each.open = true; })"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """The service of the pictures: it has some of everything."""
    folder: Path = tmp_path_factory.mktemp("axe")
    async with lived(folder) as (stage, _):
        outbox = (await stage.app.events()).outbox
        await outbox.publish(Event("Shop.Order.Created", aggregate_id="o1", payload={"total": 12}))
        yield stage


async def every_page(context: BrowserContext, stage: Stage) -> list[str]:
    page = await context.new_page()
    await page.goto(stage.url)
    menu: list[str] = await page.evaluate(MENU)
    await page.close()
    assert len(menu) > 12
    details = [shot.path for shot in await shots_of(stage.app)]
    return list(dict.fromkeys([*menu, *details, *FORMS]))


@pytest.mark.timeout(1_800)  # a hundred looks at a page each, which on a busy machine take seconds
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing(stage: Stage, theme: Literal["light", "dark"]) -> None:
    found: list[str] = []
    async with browsed(stage) as context:
        page = await context.new_page()
        await page.emulate_media(color_scheme=theme)
        for path in await every_page(context, stage):
            await page.set_viewport_size(WIDE)
            await page.goto(stage.url + path)
            await settled(page)
            found += await findings(page, f"{path} at 1440")
            await page.set_viewport_size(NARROW)
            found += await findings(page, f"{path} at 390")
            await page.evaluate(OPENED)
            found += await findings(page, f"{path} at 390 with its menus open")
    assert not found, "\n".join(found)


async def test_it_would_find_something(stage: Stage) -> None:
    """What is wrong is found, also under the policy that lets no script of others in."""
    async with browsed(stage) as context:
        page = await context.new_page()
        await page.goto(stage.url + "/help")
        await page.evaluate(
            "() => { document.querySelector('main').innerHTML = '<img src=\"/rota.svg\"><button></button>'; }"
        )
        found = await findings(page, "/help")
    assert any("image-alt" in each for each in found)
    assert any("button-name" in each for each in found)


async def test_so_does_the_door(stage: Stage) -> None:
    async with browsed(stage) as context:
        await context.clear_cookies()
        page = await context.new_page()
        await page.goto(stage.url + "/login")
        assert await findings(page, "/login") == []


async def findings(page: Page, where: str) -> list[str]:
    """What axe says, each with the element that it means."""
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(AXE)
    said: list[str] = await page.evaluate(RUN)
    return [f"{where}: {each}" for each in said]
