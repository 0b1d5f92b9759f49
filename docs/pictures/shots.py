"""The still pictures: which pages, how wide, in which colours. A page is found by its address."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from PIL import Image
from playwright.async_api import BrowserContext, Page, ViewportSize

from rota import Rota
from rota.agents import Caller, agents_of

__all__ = ["Shot", "settled", "shots_of", "take", "with_few_colours"]

Theme = Literal["light", "dark"]

SIZES: Final[Sequence[ViewportSize]] = (
    {"width": 1440, "height": 900},
    {"width": 1280, "height": 800},
    {"width": 390, "height": 844},
)
BOTH: Final[tuple[Theme, ...]] = ("light", "dark")


class Shot(NamedTuple):
    """One page, under the name of its pictures."""

    name: str
    path: str
    themes: tuple[Theme, ...] = ("light",)


async def shots_of(app: Rota) -> list[Shot]:
    """The pages worth looking at, with what the store holds now."""
    failure = next(one for one in await app.failures("send_invoice") if one.exception == "ConnectionError")
    runs = (await app.runs(failure=failure.id, task_type="send_invoice")).items
    run = next(one for one in runs if one.attempt > 1)  # the last one of a task that was given up
    batch = (await app.batches.list()).items[0]
    agent = next(one for one in await agents_of(app).list_tasks(Caller.person("ada")) if one.status != "waiting")
    return [
        Shot("overview", "/", BOTH),
        Shot("failures", "/failures", BOTH),
        Shot("failure", f"/failures/send_invoice/{failure.id}", BOTH),
        Shot("run", f"/runs/{quote(run.run_id, safe='')}", BOTH),
        Shot("task", f"/tasks/{run.task_type}/{quote(run.key, safe='')}"),
        Shot("tasks", "/tasks"),
        Shot("runs", "/runs"),
        Shot("dead-letters", "/dead-letters"),
        Shot("schedules", "/schedules"),
        Shot("schedule", "/schedules/send_invoice/renewals"),
        Shot("type", "/types/send_invoice"),
        Shot("batches", "/batches"),
        Shot("batch", f"/batches/{batch.id}"),
        Shot("agents", "/agents"),
        Shot("agent", f"/schedules/agent/{agent.id}"),
        Shot("memory", "/memory"),
        Shot("alerts", "/alerts"),
    ]


async def take(context: BrowserContext, url: str, shots: Sequence[Shot], folder: Path) -> None:
    """Take each picture at each size; the dark ones at the first size alone."""
    page = await context.new_page()
    for shot in shots:
        answer = await page.goto(url + shot.path)
        assert answer is not None, shot.path
        assert answer.status == 200, f"{shot.path} answered {answer.status}"
        await settled(page)
        for theme in shot.themes:
            await page.emulate_media(color_scheme=theme)
            for size in SIZES if theme == "light" else SIZES[:1]:
                await page.set_viewport_size(size)
                ending = "" if theme == "light" else f"-{theme}"
                keep(await page.screenshot(), folder / f"{shot.name}-{size['width']}{ending}.png")
        await page.emulate_media(color_scheme="light")
    await page.close()


async def settled(page: Page) -> None:
    """The page is whole, and follows what happens if it is one that does."""
    await page.wait_for_load_state()
    if await page.locator("#live").count():
        await page.locator("#live[data-state=live]").wait_for()


def keep(picture: bytes, path: Path) -> None:
    """As a small PNG."""
    with Image.open(io.BytesIO(picture)) as whole:
        with_few_colours(whole.convert("RGB")).save(path, optimize=True)


def with_few_colours(picture: Image.Image) -> Image.Image:
    """Those that matter stay as they are, the rare ones too; a file is a third of what it was."""
    return picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
