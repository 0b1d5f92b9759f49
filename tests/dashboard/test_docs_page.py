"""The API to read, in a real browser: found by words, linked to, copied; under a prefix; for whoever may look."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from tests.dashboard.conftest import Watched, settled, signed_in
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.access import Role

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = ("/docs", "/docs/tasks", "/docs/batches", "/docs/models")


async def test_words_find_operations_while_they_are_typed(watched: Watched, demo: Stage) -> None:
    page = await watched.open()
    await page.goto(f"{demo.url}/docs")
    rows = page.locator(".operations tr[data-words]")
    operations = sum(map(len, (await described(demo))["paths"].values()))
    await expect(rows).to_have_count(operations)
    await page.get_by_role("searchbox", name="Words").fill("pause task")
    await expect(rows.locator("visible=true")).not_to_have_count(operations)
    shown = await rows.locator("visible=true").all_inner_texts()
    assert any("/api/tasks/{task_type}/{key}/pause" in text for text in shown)
    assert not any("/api/audit" in text for text in shown)
    await expect(page.locator("#about-access")).to_be_hidden()
    await page.get_by_role("searchbox", name="Words").fill("")
    await expect(rows.locator("visible=true")).to_have_count(operations)


async def test_the_server_finds_them_too(demo: Stage) -> None:
    """Without a script; also by the name of a field."""
    async with demo.client(Role.VIEWER) as client:
        text = (await client.get(f"{demo.url}/docs?search=allow_past")).text
        assert "/docs/tasks#schedule_task" in text
        assert "#list_audit" not in text
        assert "No operation has these words" in (await client.get(f"{demo.url}/docs?search=xyzzy")).text


async def test_every_link_within_leads_somewhere(demo: Stage) -> None:
    async with demo.client(Role.VIEWER) as client:
        tags = set(re.findall(r'href="(/docs/[a-z-]+)"', (await client.get(f"{demo.url}/docs")).text))
        pages = {path: (await client.get(demo.url + path)).text for path in ("/docs", *sorted(tags))}
    assert len(tags) > 12
    for path, text in pages.items():
        for target, anchor in re.findall(r'href="(/docs[a-z/-]*)?#([\w-]+)"', text):
            if anchor != "main":
                assert f'id="{anchor}"' in pages[target or path], (path, target, anchor)


async def test_every_operation_is_shown_whole(demo: Stage) -> None:
    operations = [(path, said) for path, each in (await described(demo))["paths"].items() for said in each.values()]
    tags = {said["tags"][0].replace(" ", "-") for _, said in operations}
    async with demo.client(Role.VIEWER) as client:
        pages = {tag: (await client.get(f"{demo.url}/docs/{tag}")).text for tag in tags}
    for path, said in operations:
        text = pages[said["tags"][0].replace(" ", "-")]
        assert f'id="{said["operationId"]}"' in text
        assert path in text
        assert all(f"<code>{each['name']}</code>" in text for each in said.get("parameters", ()))


async def test_a_call_can_be_copied(watched: Watched, demo: Stage) -> None:
    await watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await watched.open()
    await page.goto(f"{demo.url}/docs/tasks#schedule_task")
    await page.locator("#schedule_task").get_by_role("button", name="Copy as curl").click()
    words = shlex.split(await page.evaluate("() => navigator.clipboard.readText()"))
    assert (words[0], words[2], words[-1]) == ("curl", "POST", f"{demo.url}/api/tasks")
    assert json.loads(words[words.index("-d") + 1])["task_type"] == "report"


@pytest.mark.parametrize("path", PAGES)
async def test_it_fits_a_phone_in_both_themes(watched: Watched, demo: Stage, path: str) -> None:
    page = await watched.open()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for width in (1440, 390):
            await page.set_viewport_size({"width": width, "height": 1000})
            await page.goto(demo.url + path)
            await settled(page)
            assert await page.evaluate("() => document.documentElement.scrollWidth") <= width
            # Nothing of others: no script, no stylesheet, no picture from anywhere else.
            sources = await page.evaluate("() => performance.getEntriesByType('resource').map((each) => each.name)")
            assert all(source.startswith(demo.url) for source in sources)


async def test_it_is_reached_from_the_menu_and_the_help(watched: Watched, demo: Stage) -> None:
    page = await watched.open()
    await page.goto(f"{demo.url}/help")
    await page.get_by_role("link", name="every operation, with examples").click()
    await page.wait_for_url(f"{demo.url}/docs")
    await expect(page.locator('nav a[aria-current="page"]')).to_contain_text("API")


async def test_it_works_under_a_prefix_and_only_for_whoever_may_look(chromium: Browser, tmp_path: Path) -> None:
    app = Rota(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    async with staged(app, base_path="/rota", works=False) as stage, signed_in(chromium, stage) as seen:
        page = await seen.open()
        await page.goto(f"{stage.url}/docs")
        await page.locator('a[href$="#list_runs"]').click()
        await page.wait_for_url(f"{stage.url}/docs/runs#list_runs")
        path = await page.locator("#list_runs").get_by_role("link", name="Open").get_attribute("href")
        assert path == "/rota/api/runs"
        opened = await page.request.get(f"{stage.url}/api/runs")
        assert (await opened.json())["items"] == []
        async with stage.client(None) as stranger:
            answer = await stranger.get(f"{stage.url}/docs", headers={"Accept": "text/html"})
            assert (answer.status_code, "/login" in answer.headers["Location"]) == (303, True)
            assert (await stranger.get(f"{stage.url}/docs/tasks")).status_code == 401


async def described(stage: Stage) -> Any:
    async with stage.client(Role.VIEWER) as client:
        return (await client.get(f"{stage.url}/api/openapi.json")).json()
