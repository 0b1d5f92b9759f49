"""`python -m docs.pictures`: live through two hours, serve them, and take the pictures. It ends by itself."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import BrowserContext, async_playwright
from tests.dashboard.stage import Stage, staged

from docs.pictures.assistant import Pace, Payments, assistant
from docs.pictures.film import shoot
from docs.pictures.past import live_through
from docs.pictures.shots import shots_of, take
from rota import Rota
from rota.access import Role, Tokens
from rota.agents import Caller, agents_of
from rota.testing.waiting import PATIENCE, until

__all__ = ["FILM", "browsed", "lived", "main"]

IMAGES: Final = Path(__file__).parents[1] / "images"
FILM: Final = "failure.gif"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@asynccontextmanager
async def lived(folder: Path) -> AsyncGenerator[tuple[Stage, Payments]]:
    """A service with a past of two hours, and two workers that go on with it."""
    url = f"sqlite:///{folder}/rota.db?synchronous=OFF"
    await live_through(url, folder)
    payments = Payments()
    app, other = (assistant(url, folder, Pace(), payments, quick=True) for _ in range(2))
    async with other, staged(app) as stage:
        await other.start()
        try:
            await _goes_on(app)
            yield stage, payments
        finally:
            await other.stop(timeout=1)


async def _goes_on(app: Rota) -> None:
    """What is made now: a batch that is done, one that is on its way, and an agent that has run."""
    await (await app.batches.start("location_name", 50, style="norse, by the sea")).result()
    (agent, *_) = await agents_of(app).list_tasks(Caller.person("ada"))
    await agents_of(app).run_task(Caller.person("ada"), agent.id)

    async def has_run() -> bool:
        return bool((await app.runs("agent", key=agent.id)).items)

    await until(has_run, "the agent has run")


@asynccontextmanager
async def browsed(stage: Stage) -> AsyncGenerator[BrowserContext]:
    """A browser that is signed in."""
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        sys.exit(f"No Chromium is installed ({', '.join(BROWSERS)}), so no picture can be taken.")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=1_000 * PATIENCE)
        context = await browser.new_context(timezone_id="Europe/Berlin", locale="en-GB", color_scheme="light")
        context.set_default_timeout(1_000 * PATIENCE)
        page = await context.new_page()
        made = await Tokens(await stage.app.database()).add("on call", Role.ADMIN, created_by="pictures")
        await page.goto(f"{stage.url}/login?token={made.secret}")
        await page.close()
        yield context
        await browser.close()


async def main() -> None:
    """Everything anew."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with lived(Path(folder)) as (stage, payments), browsed(stage) as context:
            await take(context, stage.url, await shots_of(stage.app), IMAGES)
            await shoot(context, stage.url, stage.app, payments, IMAGES / FILM)
    pictures = sorted(IMAGES.iterdir())
    print(f"{len(pictures)} pictures in {IMAGES}, {sum(each.stat().st_size for each in pictures) / 1e6:.1f} MB")


if __name__ == "__main__":
    logging.basicConfig(handlers=[logging.NullHandler()])
    asyncio.run(main())
