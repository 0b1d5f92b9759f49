"""Every page in a real browser: it opens without a complaint, fits a phone, and its picture is taken.

The pictures are in build/screenshots: look at them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, ViewportSize
from tests.dashboard.conftest import Watched, settled
from tests.dashboard.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
DESKTOP: ViewportSize = {"width": 1440, "height": 1100}
PHONE: ViewportSize = {"width": 390, "height": 1400}

PAGES = {
    "overview": "/",
    "tasks": "/tasks",
    "tasks-filtered": "/tasks?type=detail_batch&without=completed&search=b-",
    "task": "/tasks/agent/inbox-watch",
    "task-failed": "/tasks/detail_batch/b-0%3A1",
    "schedules": "/schedules",
    "schedule": "/schedules/agent/morning-brief",
    "schedule-new": "/schedules/new?type=agent&id=tea&value=0+17+*+*+1-5&tz=Europe/Berlin",
    "runs": "/runs",
    "dead-letters": "/dead-letters",
    "type": "/types/detail_batch",
    "instances": "/instances",
    "alerts": "/alerts",
    "audit": "/audit",
    "users": "/users?user=ada",
    "users-empty": "/users",
    "tokens": "/tokens",
    "help": "/help",
    "nothing": "/tasks?user=nobody",
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_opens_without_a_complaint(watched: Watched, demo: Stage, name: str) -> None:
    page = await watched.open()
    await page.set_viewport_size(DESKTOP)
    answer = await page.goto(demo.url + PAGES[name])
    assert answer is not None
    assert answer.status == 200
    await settled(page)
    for width in (1200, 1000, 800):
        await page.set_viewport_size({"width": width, "height": 900})
        assert await _is_narrow(page), f"it is wider than a window of {width}"
    await page.set_viewport_size(PHONE)
    assert await _is_narrow(page), "a phone has to scroll sideways"
    await page.screenshot(path=PICTURES / f"{name}-phone.png")
    await page.set_viewport_size(DESKTOP)
    assert await _is_narrow(page), "it is wider than the window"
    for colours in ("light", "dark"):
        await page.emulate_media(color_scheme=colours)
        await page.screenshot(path=PICTURES / f"{name}-{colours}.png")
    await page.close()


async def _is_narrow(page: Page) -> bool:
    return bool(await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


async def test_what_opens_on_a_page(watched: Watched, demo: Stage) -> None:
    """The row's menu, the commands and the question before a bulk action, to be looked at."""
    page = await watched.open()
    await page.set_viewport_size(DESKTOP)
    await page.goto(demo.url + "/tasks?type=agent")
    await settled(page)
    await page.locator("tr[data-row] details summary").nth(1).click()
    await page.screenshot(path=PICTURES / "menu-light.png")
    assert await page.locator("tr[data-row] .sheet").nth(1).is_visible()
    await page.keyboard.press("Escape")
    await page.get_by_label("all that match").check()
    await page.locator("#bulk").get_by_role("button", name="Cancel").click()
    await page.locator("#confirm[open]").wait_for()
    await page.screenshot(path=PICTURES / "confirm-light.png")
    await page.get_by_role("button", name="Keep").click()
    await page.set_viewport_size(PHONE)
    await page.locator("tr[data-row] details summary").nth(1).click()
    await page.screenshot(path=PICTURES / "menu-phone.png")
    assert await _is_narrow(page)
    await page.close()


async def test_the_door(chromium: Browser, demo: Stage) -> None:
    context = await chromium.new_context(viewport=DESKTOP)
    page = await context.new_page()
    await page.goto(demo.url + "/login")
    await page.screenshot(path=PICTURES / "login-light.png")
    assert await page.get_by_label("Token").is_visible()
    await context.close()
