"""Every page in a real browser: it opens without a complaint, fits a phone, and its picture is taken.

The pictures are in build/screenshots: look at them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize
from tests.dashboard.conftest import Watched, a_context, settled, signed_in
from tests.dashboard.minds import fill_minds, minds_app
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.agents import Caller, agents_of

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
    "schedule-new": "/schedules/new?type=agent&id=tea&value=0+17+*+*+1-5&timezone=Europe/Berlin",
    "runs": "/runs",
    "run": "/runs/1",
    "dead-letters": "/dead-letters",
    "type": "/types/detail_batch",
    "instances": "/instances",
    "alerts": "/alerts",
    "events-empty": "/events",
    "batches-empty": "/batches",
    "audit": "/audit",
    "users": "/users?user=ada",
    "users-empty": "/users",
    "tokens": "/tokens",
    "help": "/help",
    "nothing": "/tasks?user=nobody",
}
MINDED_PAGES = {
    "memory": "/memory",
    "memory-user": "/memory/ada?text=mountains",
    "memory-nobody": "/memory/nobody",
    "agents": "/agents",
    "agents-group": "/agents?group=group-1",
    "agent": "/schedules/agent/{agent}",
}
EMPTY_PAGES = (
    "/",
    "/tasks",
    "/schedules",
    "/runs",
    "/dead-letters",
    "/instances",
    "/alerts",
    "/events",
    "/batches",
    "/audit",
    "/users",
)
EMPTY_MINDS = ("/memory", "/agents")
SAID = (
    "ada",
    "Write the morning brief: mail, calendar and the weather in the mountains.",
    "Tell me when the price of the tent falls below 200 €.",
    "a-very-long-id-" + "0123456789abcdef" * 8,
)


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_opens_without_a_complaint(watched: Watched, demo: Stage, name: str) -> None:
    await fits(await watched.open(), demo.url + PAGES[name], name)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def minds(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """Memories and agents to look at. The tests only look, so it is filled once."""
    folder: Path = tmp_path_factory.mktemp("minds")
    app = minds_app(f"sqlite:///{folder}/rota.db?synchronous=OFF", folder / "groups")
    async with staged(app, works=False) as stage:
        await fill_minds(app, SAID)
        for group in ("group-0", "group-2"):
            await agents_of(app).switch_on(Caller.person("tests"), group)
        yield stage


@pytest.mark.parametrize("name", MINDED_PAGES)
async def test_memories_and_agents_open_without_a_complaint(chromium: Browser, minds: Stage, name: str) -> None:
    schedules = await agents_of(minds.app).list_tasks(Caller.person("tests"))
    path = MINDED_PAGES[name].replace("{agent}", next(one.id for one in schedules if one.status == "paused"))
    async with signed_in(chromium, minds) as seen:
        await fits(await seen.open(), minds.url + path, name)


async def test_an_empty_page_teaches(chromium: Browser, tmp_path: Path) -> None:
    """A newcomer is told what to type, on every page, and can copy it."""
    minds = minds_app(f"sqlite:///{tmp_path}/minds.db?synchronous=OFF", tmp_path / "groups")
    await _teach(chromium, Rota(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF"), EMPTY_PAGES)
    await _teach(chromium, minds, EMPTY_MINDS)


async def _teach(chromium: Browser, app: Rota, paths: Sequence[str]) -> None:
    async with staged(app, works=False) as stage, signed_in(chromium, stage) as seen:
        page = await seen.open()
        for path in paths:
            await page.goto(stage.url + path)
            await settled(page)
            assert "rota " in str(await page.locator(".empty code").first.text_content()), path
            assert await page.locator(".empty [data-copy]").count() > 0, path
        await page.close()


async def fits(page: Page, url: str, name: str) -> None:
    """It opens, is never wider than its window, and its pictures are taken."""
    await page.set_viewport_size(DESKTOP)
    answer = await page.goto(url)
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
    await page.get_by_label("all matching").check()
    await page.locator("#bulk").get_by_role("button", name="Cancel").click()
    await page.locator("#confirm[open]").wait_for()
    await page.screenshot(path=PICTURES / "confirm-light.png")
    await page.get_by_role("button", name="Back").click()
    await page.set_viewport_size(PHONE)
    await page.locator("tr[data-row] details summary").nth(1).click()
    await page.screenshot(path=PICTURES / "menu-phone.png")
    assert await _is_narrow(page)
    await page.close()


async def test_the_door(chromium: Browser, demo: Stage) -> None:
    context = await a_context(chromium, viewport=DESKTOP)
    page = await context.new_page()
    await page.goto(demo.url + "/login")
    await page.screenshot(path=PICTURES / "login-light.png")
    assert await page.get_by_label("Token").is_visible()
    await context.close()


NAMELESS = """() => [...document.querySelectorAll("main form[action*='/act/'] button:not([type=button])")]
  .filter((button) => {
    const near = button.closest(".same, .buttons, form.bulk, .tools, section") ?? document.body;
    const copies = [...near.querySelectorAll("[data-copy]")].map((each) => each.dataset.copy);
    const has = (word) => copies.some((text) => text.startsWith(word));
    return !(button.title.startsWith("rota ") && has("rota ") && has("curl "));
  }).map((button) => button.outerHTML)"""
"""Buttons that act and do not say how to do the same elsewhere."""


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/tasks",
        "/schedules",
        "/schedules/new",
        "/tasks/detail_batch/b-0%3A1",
        "/runs/1",
        "/dead-letters",
        "/types/agent",
        "/batches",
        "/tokens",
        "/users?user=ada",
    ],
)
async def test_every_button_says_how_to_do_the_same_elsewhere(watched: Watched, demo: Stage, path: str) -> None:
    page = await watched.open()
    await page.goto(demo.url + path)
    assert await page.locator("main form[action*='/act/']").count() > 0
    assert await page.evaluate(NAMELESS) == []
    await page.close()


@pytest.mark.parametrize("name", ["memory-user", "agents", "agent"])
async def test_so_does_every_button_about_memories_and_agents(chromium: Browser, minds: Stage, name: str) -> None:
    schedules = await agents_of(minds.app).list_tasks(Caller.person("tests"))
    path = MINDED_PAGES[name].replace("{agent}", next(one.id for one in schedules if one.status == "paused"))
    async with signed_in(chromium, minds) as seen:
        page = await seen.open()
        await page.goto(minds.url + path)
        assert await page.locator("main form[action*='/act/']").count() > 0
        assert await page.evaluate(NAMELESS) == []
        await page.close()
