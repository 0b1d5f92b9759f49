"""The moving picture: a task fails, its failure is looked at, and it is run again. It really happens."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont
from playwright.async_api import BrowserContext, Locator, Page, ViewportSize

from docs.pictures.assistant import Payments
from docs.pictures.shots import settled, with_few_colours
from rota import Rota
from rota.testing.waiting import until

__all__ = ["Film", "shoot"]

WINDOW: Final[ViewportSize] = {"width": 1200, "height": 720}
SIZE: Final = (900, 540)
STRIP: Final = 36
"""Pixels below the picture, for the words."""
PACE_MS: Final = 1_900
MOVE_MS: Final = 500
POINTER: Final = ((0, 0), (0, 19), (5, 15), (8, 22), (11, 21), (8, 14), (14, 14))
ORDERS: Final = (7_001, 7_002, 7_003)


class Film:
    """Frames with their words, and a pointer where the mouse is."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[Image.Image] = []
        self._times: list[int] = []
        self._font = ImageFont.load_default(17)
        self._words = ""

    async def show(self, words: str = "", *, at: Locator | None = None, ms: int = PACE_MS) -> None:
        """One frame. With `at` the pointer is there."""
        self._words = words or self._words
        with Image.open(io.BytesIO(await self._page.screenshot())) as whole:
            picture = whole.convert("RGB").resize(SIZE, Image.Resampling.LANCZOS)
        frame = Image.new("RGB", (SIZE[0], SIZE[1] + STRIP), "#16202c")
        frame.paste(picture)
        draw = ImageDraw.Draw(frame)
        draw.text((16, SIZE[1] + 8), self._words, "#f2f5f8", font=self._font)
        if at is not None and (box := await at.bounding_box()) is not None:
            scale = SIZE[0] / WINDOW["width"]
            x, y = (box["x"] + min(box["width"] / 2, 60)) * scale, (box["y"] + box["height"] / 2) * scale
            draw.polygon([(x + right, y + down) for right, down in POINTER], fill="#111111", outline="#ffffff")
        self._frames.append(with_few_colours(frame))
        self._times.append(ms)

    async def press(self, target: Locator, words: str = "") -> None:
        """Show the pointer on something, press it, and wait for where that leads."""
        await target.scroll_into_view_if_needed()
        await self.show(words, at=target, ms=PACE_MS - MOVE_MS)
        async with self._page.expect_navigation():
            await target.click()
        await settled(self._page)

    def save(self, path: Path) -> None:
        first, *others = self._frames
        first.save(path, save_all=True, append_images=others, duration=self._times, loop=0, optimize=True)


async def shoot(context: BrowserContext, url: str, app: Rota, payments: Payments, path: Path) -> None:
    """Shoot it with a service whose worker is at work."""
    page = await context.new_page()
    await page.set_viewport_size(WINDOW)
    film = Film(page)
    await _it_fails(film, page, url, app, payments)
    await _it_is_looked_at(film, page)
    payments.is_away = False
    await _it_is_run_again(film, page, app)
    film.save(path)
    await page.close()


async def _it_fails(film: Film, page: Page, url: str, app: Rota, payments: Payments) -> None:
    await page.goto(f"{url}/failures?type=send_invoice")
    await settled(page)
    await film.show("The failures of one type of task")
    payments.is_away = True
    before = await _failed_runs(app)
    for order in ORDERS:
        await app.schedule("send_invoice", {"order": order, "cents": 4_990}, key=f"order-{order}", user_id="ada")
    await until(_are(app, "failed"), "the orders have failed")

    async def are_counted() -> bool:
        return await _failed_runs(app) >= before + 2 * len(ORDERS)

    await until(are_counted, "their two runs each are counted")
    await page.reload()
    await settled(page)
    await film.show("The payment provider is away: three more orders fail, as one failure")


async def _it_is_looked_at(film: Film, page: Page) -> None:
    await film.press(page.locator("main a[href*='/failures/send_invoice/']", has_text="ConnectionError").first)
    await film.show("How often, since when, for how many users ...", ms=PACE_MS + 500)
    await page.locator("main pre").first.evaluate("(each) => each.scrollIntoView({block: 'center'})")
    await film.show("... and where in the program", ms=PACE_MS + 800)
    await film.press(page.locator("main a[href*='/runs/']").first, "One run of it")
    await film.show("What it was given, what it said, how long each step took", ms=PACE_MS + 800)
    await page.go_back()
    await settled(page)


async def _it_is_run_again(film: Film, page: Page, app: Rota) -> None:
    again = page.locator("main").get_by_role("button", name=re.compile("^(Redrive|Run again)")).first
    await film.press(again, "The provider is back: all of them are run again, and no others")
    sure = page.locator("main").get_by_role("button", name=re.compile("^Yes"))
    if await sure.count():
        await film.press(sure)
    await until(_are(app, "completed"), "the orders are done")
    await page.evaluate("() => scrollTo(0, 0)")
    await film.show(ms=PACE_MS)
    base = page.url.partition("/failures")[0]
    await page.goto(f"{base}/tasks/send_invoice/order-{ORDERS[0]}")
    await settled(page)
    await film.show("Done", ms=PACE_MS + 1_500)


async def _failed_runs(app: Rota) -> int:
    return sum(one.count for one in await app.failures("send_invoice"))


def _are(app: Rota, status: str) -> Callable[[], object]:
    async def look() -> bool:
        found = [await app.tasks.get("send_invoice", f"order-{order}") for order in ORDERS]
        return all(task is not None and task.status == status for task in found)

    return look
