"""The events page in a real browser: what waits and what was given up, and the buttons that see to it."""

from __future__ import annotations

import ast
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.stage import Stage, staged
from tests.dashboard.test_pages import NAMELESS, fits
from tests.events.event_scene import TOPIC, acted, dead_letter, published, read_up_to, refused, seen

from rota import Rota
from rota.access import Role
from rota.events.reading import EventReading

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "<script>alert(1)</script>"


@pytest_asyncio.fixture(loop_scope="session")
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    """Events in every state, and no worker, so that they stay as they are."""
    app = Rota(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    async with staged(app, works=False) as made:
        await fill(app)
        yield made


async def fill(app: Rota) -> None:
    database = await app.database()
    await refused(app, "too-large")
    now = await database.now()
    ids = await published(
        app, *(f"order-{number}" for number in range(6)), EVIL, user_id="ada", correlation_id="batch-1"
    )
    await read_up_to(database, "billing", 0)
    await read_up_to(database, "a-consumer-with-a-name-of-some-length", 0)
    for number, event_id in enumerate(ids[:3]):
        await dead_letter(database, event_id, key=f"order-{number}", at=now - 60_000 * number, user_id="ada")
    error = "TimeoutError: the printer did not answer within 5 s " + "x" * 200
    for event_id in ids[3:]:
        await seen(
            database,
            event_id,
            "mail",
            status="retrying",
            key=EVIL,
            attempts=3,
            next_at=now + 60_000,
            error=error,
            at=now,
        )


async def opened(page: Page, stage: Stage) -> Page:
    await page.goto(f"{stage.url}/events")
    await settled(page)
    return page


async def test_it_opens_without_a_complaint(chromium: Browser, stage: Stage) -> None:
    async with signed_in(chromium, stage) as seen_by:
        await fits(await seen_by.open(), f"{stage.url}/events", "events")
        page = await opened(await seen_by.open(), stage)
        await expect(page.get_by_text("a-consumer-with-a-name-of-some-length")).to_be_visible()
        await expect(page.locator("[data-live=consumers]")).to_contain_text(TOPIC)
        await expect(page.locator("[data-live=retries]")).to_contain_text(EVIL)
        await expect(page.locator("[data-live=events]")).to_contain_text("ada")
        assert await page.evaluate(NAMELESS) == []
        assert await page.locator("main form[action*='/act/']").count() == 2 + 2 * 3 + 2


async def test_letters_are_redriven_and_purged(chromium: Browser, stage: Stage) -> None:
    reading = EventReading(await stage.app.database())
    async with signed_in(chromium, stage, Role.OPERATOR) as seen_by:
        page = await opened(await seen_by.open(), stage)
        rows = page.locator("[data-live=dead] tr[data-row]")
        await rows.first.locator("summary").click()
        async with another_page(page):
            await rows.first.get_by_role("button", name="Redrive", exact=True).click()
        await expect(page.get_by_role("status").first).to_contain_text("1 dead letter redriven.")
        assert await reading.count_dead() == 2

        await page.get_by_role("button", name="Purge all").click()
        async with another_page(page):
            await page.locator("#confirm button[value=yes]").click()
        await expect(page.get_by_role("status").first).to_contain_text("2 dead letters purged.")
        await expect(page.get_by_text("No dead letters.")).to_be_visible()

        await rows.first.locator("summary").click()
        async with another_page(page):
            await rows.first.get_by_role("button", name="Retry", exact=True).click()
        await expect(page.get_by_role("status").first).to_contain_text("1 event offered to the bus again.")
    assert [one[0] for one in await acted(reading.database)] == ["event.redrive", "event.purge", "outbox.retry"]


async def test_what_changed_meanwhile_is_not_done(chromium: Browser, stage: Stage) -> None:
    """Somebody is asked about three; by the time of the answer there are four, and the page behind the question shows
    them."""
    async with signed_in(chromium, stage, Role.OPERATOR) as seen_by:
        page = await opened(await seen_by.open(), stage)
        await page.get_by_role("button", name="Redrive all").click()
        await dead_letter(await stage.app.database(), "one more")
        await expect(page.locator("[data-live=dead]")).to_contain_text("one more", timeout=60_000)
        async with another_page(page):
            await page.locator("#confirm button[value=yes]").click()
        await expect(page.get_by_text("3 dead letters were confirmed, but 4 match now.")).to_be_visible()
        seen_by.complaints.clear()  # the browser notes every answer of 409
    assert await EventReading(await stage.app.database()).count_dead() == 4


async def test_a_viewer_sees_it_and_has_no_buttons(chromium: Browser, stage: Stage) -> None:
    async with signed_in(chromium, stage, Role.VIEWER) as seen_by:
        page = await opened(await seen_by.open(), stage)
        await expect(page.locator("[data-live=dead]")).to_contain_text("it broke <b>")
        assert await page.locator("main form[action*='/act/']").count() == 0


async def test_the_empty_page_teaches_how_to_begin(chromium: Browser, tmp_path: Path) -> None:
    app = Rota(f"sqlite:///{tmp_path}/empty.db?synchronous=OFF")
    async with staged(app, works=False) as stage, signed_in(chromium, stage) as seen_by:
        page = await opened(await seen_by.open(), stage)
        example = str(await page.locator("main pre").text_content())
        assert "@app.consumer" in example
        assert "outbox.publish" in example
        compile(example, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
