"""A browser and a service for the tests of the dashboard, once for all of them: starting either takes a second."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect
from tests.dashboard.demo import demo_app, fill
from tests.dashboard.stage import Stage, filled

from rota.access import Role
from rota.testing.waiting import PATIENCE

PATIENCE_MS = 1_000 * PATIENCE
"""How long a browser may take for one step, on a busy machine."""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]

expect.set_options(timeout=PATIENCE_MS)


def chromium_path() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    sentence = "No Chromium is installed (chromium, chromium-browser or google-chrome), so no page can be opened."
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncGenerator[Browser]:
    """A real browser, headless."""
    path = chromium_path()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=PATIENCE_MS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """What most pages are looked at with."""
    folder: Path = tmp_path_factory.mktemp("demo")
    async with filled(demo_app(f"sqlite:///{folder}/rota.db?synchronous=OFF"), fill) as stage:
        yield stage


async def a_context(chromium: Browser, **options: Any) -> BrowserContext:
    """A visitor whom the service does not know yet. Every step of theirs may take its time."""
    context = await chromium.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return context


class Watched:
    """A browser context that remembers everything that a page complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.complaints: list[str] = []
        self.forgives: set[str] = set()
        """Answers that a test asks for, by their status: a browser complains of each."""

    async def open(self) -> Page:
        page = await self.context.new_page()
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        await page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (event) => console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI));"
        )
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(f"status of {status}" in text for status in self.forgives):
            self.complaints.append(f"{kind}: {text}")


async def settled(page: Page) -> None:
    """The page is whole and its script has run; one that follows what happens does so."""
    await page.wait_for_load_state()
    if await page.locator("#live").count():
        await page.locator("#live[data-state=live]").wait_for()


async def hide(page: Page, *, hidden: bool) -> None:
    """Bring the tab into the background, where it asks for nothing, or back."""
    await page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


@asynccontextmanager
async def another_page(page: Page) -> AsyncGenerator[None]:
    """What is done here leads to another page, or to this one again: it is there afterwards, and its script has run.

    Without it a test could read what is left of the old page, or a part of the new one, or press a button that the
    script has not taken on yet.
    """
    async with page.expect_navigation():
        yield
    await settled(page)


@asynccontextmanager
async def signed_in(
    chromium: Browser, stage: Stage, role: Role = Role.ADMIN, *, scripts: bool = True
) -> AsyncGenerator[Watched]:
    """A context that is signed in; whatever its pages complain of fails the test."""
    context = await a_context(chromium, timezone_id="Europe/Berlin", locale="en-GB", java_script_enabled=scripts)
    seen = Watched(context)
    async with stage.client() as client:
        answer = await client.get(stage.login(role))
    cookie = answer.cookies["rota_session"]
    await context.add_cookies([{"name": "rota_session", "value": cookie, "url": stage.url}])
    try:
        yield seen
    finally:
        await context.close()
    assert seen.complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def watched(chromium: Browser, demo: Stage) -> AsyncGenerator[Watched]:
    """An admin at the demo."""
    async with signed_in(chromium, demo) as seen:
        yield seen
