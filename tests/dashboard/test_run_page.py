"""The page of a task and of its runs, in a real browser, while a worker of another process is at it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.access import AuditLog, Role
from rota.access.audit import AuditQuery
from rota.testing.waiting import PATIENCE, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "sk-live-0123456789abcdef"
HERE = Path(__file__).parent


@asynccontextmanager
async def another_process(store: str, database: str, folder: Path) -> AsyncGenerator[None]:
    """A worker of the program beside this file, until the block ends."""
    environment = {**os.environ, "ROTA_STORE": store, "ROTA_DATABASE": database, "SHOP_FOLDER": str(folder)}
    with (folder / "worker.log").open("wb") as log:
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rota.cli", "worker", "--app", "shop_program:app"),
            cwd=HERE,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        worker.terminate()
        async with asyncio.timeout(PATIENCE):
            await worker.wait()


@asynccontextmanager
async def shop(engine: str, request: pytest.FixtureRequest, folder: Path) -> AsyncGenerator[Stage]:
    """A service without handlers, and the worker of another process."""
    url = str(request.getfixturevalue(f"{engine}_url"))
    # Redis has no tables: the database is a file then.
    database = f"sqlite:///{folder}/database.db?synchronous=OFF" if engine == "redis" else url
    app = Rota({"store": url, "database": database, "spool": "off"})
    async with staged(app, works=False) as stage, another_process(url, database, folder):

        async def is_known() -> bool:
            return any(record.task_type.name == "charge_card" for record in await app.types())

        await until(is_known, "the worker has told of its type")
        yield stage


async def opened(page: Page, url: str) -> Page:
    """A page that would not be the same after a reload."""
    await page.goto(url)
    await settled(page)
    await page.evaluate("document.documentElement.dataset.loadedOnce = 'yes'")
    return page


async def was_not_reloaded(page: Page) -> bool:
    return bool(await page.evaluate("document.documentElement.dataset.loadedOnce === 'yes'"))


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
async def test_a_failing_handler_of_another_process_is_followed_and_run_again(
    engine: str, request: pytest.FixtureRequest, chromium: Browser, tmp_path: Path
) -> None:
    async with shop(engine, request, tmp_path) as stage, signed_in(chromium, stage, Role.OPERATOR) as seen:
        app = stage.app
        await app.schedule("charge_card", {"card": "declined", "api_key": SECRET}, key="c1", user_id="u1")
        page = await opened(await seen.open(), f"{stage.url}/tasks/charge_card/c1")

        # What it says and where it is, while it runs.
        attempt = page.locator("details.attempt").first
        await expect(attempt.locator("[aria-label=Lines]")).to_contain_text("attempt 1 has begun")
        await expect(attempt.locator("[aria-label=Lines] .warning")).to_contain_text(
            "charging declined with api_key=***"
        )
        await expect(attempt.locator("[aria-label=Progress]")).to_contain_text("looked_up")
        rows = page.locator("table.fall tbody tr")
        await expect(rows.filter(has_text="Attempt 1")).to_contain_text("running")
        await expect(rows.filter(has_text="look up")).to_contain_text("running")
        (tmp_path / "looked-up-1").touch()
        await expect(attempt.locator("[aria-label=Lines]")).to_contain_text("the bank was asked")
        await expect(rows.filter(has_text="look up")).to_contain_text("success")

        # It fails, is tried again, and fails for good.
        (tmp_path / "asked-1").touch()
        first = page.locator("details.attempt").filter(has_text="Attempt 1")
        await expect(first.locator("[aria-label=Traceback]")).to_contain_text("raise PaymentError(")
        await expect(rows.filter(has_text="Attempt 2")).to_contain_text("running")
        (tmp_path / "looked-up-2").touch()
        (tmp_path / "asked-2").touch()
        await expect(rows.last).to_contain_text("failed")
        second = page.locator("details.attempt").filter(has_text="Attempt 2")
        await expect(second.locator("[aria-label=Traceback]")).to_contain_text("PaymentError: card was declined")
        await expect(second).to_contain_text("process ")
        await expect(page.get_by_role("button", name="Run again", exact=True)).to_be_visible()
        assert await was_not_reloaded(page)
        assert SECRET not in await page.content()

        # The page of the first attempt's run: the same round, and the next failed one.
        await opened(page, f"{stage.url}/tasks/charge_card/c1")
        async with another_page(page):
            await rows.get_by_role("link", name="Attempt 1").click()
        await expect(page.locator("[aria-label=Traceback]")).to_contain_text("raise PaymentError(")
        await expect(rows.filter(has_text="Attempt 2")).to_contain_text("error")
        assert SECRET not in await page.content()
        async with another_page(page):
            await page.get_by_role("link", name="Next failed run").click()
        await expect(page.get_by_role("link", name="Next failed run")).to_have_count(0)
        await expect(page.get_by_role("link", name="Previous failed run")).to_have_count(1)

        # With its payload changed, from there.
        for attempt_number in (1, 2):
            assert (tmp_path / f"asked-{attempt_number}").exists()  # nothing holds it up any more
        await page.get_by_text("Change the payload").click()
        field = page.get_by_label("Payload (JSON)")
        await expect(field).to_have_value('{\n  "card": "declined",\n  "api_key": "***"\n}')
        # A slip of the pen loses nothing.
        await field.fill('{"card": fine}')
        async with another_page(page):
            await page.get_by_role("button", name="Run again with this payload").click()
        await expect(page.locator("#again .wrong .said")).to_contain_text("This is no JSON")
        await expect(field).to_have_value('{"card": fine}')
        seen.complaints.clear()  # the browser notes every answer of 422
        await field.fill('{"card": "fine", "api_key": "***"}')
        async with another_page(page):
            await page.get_by_role("button", name="Run again with this payload").click()
        assert page.url == f"{stage.url}/tasks/charge_card/c1"
        await expect(page.locator(".flash")).to_have_text("charge_card/c1 is due now.")
        await expect(page.locator(".lifecycle [aria-current]")).to_have_text("completed")
        task = await app.tasks.get("charge_card", key="c1")
        assert task is not None
        assert (task.payload, task.result) == ({"card": "fine", "api_key": SECRET}, "paid")
        entries, _ = await AuditLog(await app.database()).page(AuditQuery(action="task.run_again"))
        assert [entry.target for entry in entries] == ["charge_card/c1"]
