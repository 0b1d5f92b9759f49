"""The pages about memories in a real browser: before and after, what comes next and why, and who may read it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.access import Role
from rota.memory import ChatPush, DocumentPush, Message, install_memory

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
SAID = (
    "I love hiking in the mountains.",
    "I really love hiking in the mountains!",
    "<img src=x onerror=alert(1)> lives in Oslo.",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def remembering(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A service with two users: one with a past, whose id is hostile, and one who has just begun to talk."""
    app = Rota(f"sqlite:///{tmp_path_factory.mktemp('memory')}/rota.db?synchronous=OFF")
    memory = install_memory(app)
    async with staged(app, works=False) as stage:
        await memory.push(ChatPush(user_id="ada/<b>", messages=[Message(content=text) for text in SAID]))
        await memory.push(DocumentPush(user_id="ada/<b>", text="A long text. " * 500, title="Of Norway"))
        memory.settings = type(memory.settings)(settling_ms=-60_000)
        await memory.compress(memory.scope_of("ada/<b>"))
        await memory.push(ChatPush(user_id="grace", messages=[Message(content="Hello.")]))
        await memory.drain()
        await memory.count()
        yield stage


async def is_narrow(page: Page) -> bool:
    return bool(await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


async def test_from_all_memories_to_one(chromium: Browser, remembering: Stage) -> None:
    async with signed_in(chromium, remembering) as seen:
        page = await seen.open()
        await page.goto(remembering.url + "/memory")
        await settled(page)
        await page.screenshot(path=PICTURES / "memory-light.png")
        assert await page.locator("tr[data-row]").count() == 2
        await page.get_by_label("User ID").fill("ada/<b>")
        async with another_page(page):
            await page.get_by_role("button", name="Look up").click()
        async with another_page(page):
            await page.get_by_role("link", name="Memory of ada/<b>").click()
        assert await page.get_by_role("heading", level=1).inner_text() == "ada/<b>"
        merge = page.locator("[data-live=merges] tr[data-row]")
        assert "I really love hiking" in await merge.locator("td").nth(0).inner_text()
        assert await merge.locator("li").count() == 2
        upkeep = await page.locator("[data-live=upkeep]").inner_text()
        assert "memory_compression/" in upkeep
        assert "due" in upkeep
        assert await page.get_by_text("onerror=alert").count() == 1
        for width, name in ((1440, "light"), (390, "phone")):
            await page.set_viewport_size({"width": width, "height": 1100})
            assert await is_narrow(page), f"it is wider than {width}"
            await page.screenshot(path=PICTURES / f"memory-user-{name}.png", full_page=True)
        await page.close()


async def test_searching_and_hiding(chromium: Browser, remembering: Stage) -> None:
    async with signed_in(chromium, remembering, Role.OPERATOR) as seen:
        page = await seen.open()
        await page.goto(remembering.url + "/memory/ada%2F%3Cb%3E?state=kept")
        await page.get_by_label("Search this memory").fill("hiking mountains")
        async with another_page(page):
            await page.get_by_role("button", name="Search").click()
        found = page.locator("tr[data-key^=f]")
        assert "hiking" in await found.first.inner_text()
        async with another_page(page):
            await page.get_by_label("Payloads").select_option("hide")
        await page.locator("tr[data-key^=f]", has_text="hidden").first.wait_for()
        assert "mountains" not in " ".join(await page.locator("main .panel").all_inner_texts())
        assert await page.get_by_text("I live").count() == 0
        await page.close()


async def test_words_are_not_for_whoever_may_only_look(remembering: Stage) -> None:
    async with remembering.client(follow_redirects=True, headers={"Accept": "text/html"}) as client:
        await client.get(remembering.login(Role.VIEWER))
        overview = await client.get(remembering.url + "/memory")
        assert (overview.status_code, 'href="/memory/ada' in overview.text) == (200, False)
        assert (await client.get(remembering.url + "/memory/grace")).status_code == 403
        await client.get(remembering.login(Role.OPERATOR))
        assert (await client.get(remembering.url + "/memory/grace?cursor=x")).status_code == 422
        assert "Nothing is kept" in (await client.get(remembering.url + "/memory/nobody")).text
