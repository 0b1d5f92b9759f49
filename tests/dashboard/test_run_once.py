"""Every type is tried from the browser: the form asks for what the handler takes, which runs in another process."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.stage import Stage, staged
from tests.telemetry.worker_process import serving

from rota import Rota
from rota.access import AuditLog, Role
from rota.access.audit import AuditQuery
from rota.app.declarations import declaration_of
from rota.app.views import alive
from rota.testing.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROJECT = """
from typing import Literal, NotRequired, TypedDict

from rota import Rota

app = Rota()

class Letter(TypedDict):
    to: str
    copies: int
    tone: Literal["kind", "stern"]
    urgent: bool
    weight: NotRequired[float]
    lines: NotRequired[list[str]]

@app.task(max_retries=5, description="Sends a letter")
async def letter(payload: Letter) -> dict:
    return dict(payload)

@app.task
async def anything(payload: object) -> object:
    return payload

@app.on_activity(after="5m")
async def digest(user_id: str) -> str:
    return f"digest of {user_id}"
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A service without an app of its own, over a store that a worker elsewhere works for."""
    folder = tmp_path_factory.mktemp("post")
    url = f"sqlite:///{folder}/rota.db?synchronous=OFF"
    app = Rota(url)

    @app.task
    async def orphan(payload: object) -> None: ...

    async with staged(app, works=False) as stage:
        with serving(folder, url, project=PROJECT):
            store = await app.store()

            async def is_at_work() -> bool:
                return bool(alive(await store.instances(), await store.now(), "letter"))

            await until(is_at_work, "the worker is at work")
            yield stage


async def _open(seen_page: Page, url: str) -> Page:
    await seen_page.goto(url)
    await settled(seen_page)
    return seen_page


async def test_what_the_form_sends_runs_in_another_process(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(await seen.open(), service.url + "/types/letter")
        form = page.locator("#run-once")
        await form.get_by_label("to", exact=True).fill("Ada")
        await form.get_by_label("copies").fill("3")
        await form.get_by_label("tone").select_option("stern")
        await form.get_by_label("urgent").check()
        await form.get_by_label("lines").fill('["one", "two"]')
        async with another_page(page):
            await form.get_by_role("button", name="Run once").click()
        assert "/tasks/letter/" in page.url
        await expect(page.get_by_role("status").first).to_contain_text("is made")
        await expect(page.locator("[data-live=state]")).to_contain_text("completed")
    (run,) = (await service.app.runs("letter", key=page.url.rpartition("/")[2])).items
    assert run.result == '{"to":"Ada","copies":3,"tone":"stern","urgent":true,"lines":["one","two"]}'
    entries, _ = await AuditLog(await service.app.database()).page(AuditQuery(action="task.schedule"))
    assert entries[0].target == "letter"


async def test_a_wrong_number_stays_and_makes_nothing(chromium: Browser, service: Stage) -> None:
    before = len((await service.app.tasks.find("letter")).items)
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        seen.forgives.add("422")
        page = await _open(await seen.open(), service.url + "/types/letter")
        form = page.locator("#run-once")
        await form.get_by_label("to", exact=True).fill("Ada")
        await form.get_by_label("copies").fill("three")
        await form.get_by_label("tone").select_option("kind")
        async with another_page(page):
            await form.get_by_role("button", name="Run once").click()
        copies = form.get_by_label("copies")
        await expect(copies).to_be_focused()
        await expect(copies).to_have_value("three")
        await expect(form.get_by_label("to", exact=True)).to_have_value("Ada")
        await expect(form.get_by_label("tone")).to_have_value("kind")
        assert page.url == service.url + "/types/letter"
        assert len((await service.app.tasks.find("letter")).items) == before
        await copies.fill("4")
        async with another_page(page):
            await form.get_by_role("button", name="Run once").click()
        assert "/tasks/letter/" in page.url
    assert len((await service.app.tasks.find("letter")).items) == before + 1


async def test_plain_json_with_a_key_and_a_delay(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(await seen.open(), service.url + "/types/anything")
        form = page.locator("#run-once")
        await form.get_by_label("Payload (JSON)").fill('{"n": 1}')
        await form.get_by_text("More", exact=True).click()
        await form.get_by_label("Key").fill("mine")
        await form.get_by_label("Delay").fill("1h")
        async with another_page(page):
            await form.get_by_role("button", name="Run once").click()
        assert page.url == service.url + "/tasks/anything/mine"
    task = await service.app.tasks.get("anything", "mine")
    assert task is not None
    assert (task.payload, task.status) == ({"n": 1}, "pending")


async def test_an_activity_type_is_touched_or_run_at_once(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(await seen.open(), service.url + "/types/digest")
        form = page.locator("#run-once")
        await form.get_by_label("As activity: due in 5m").check()
        await form.get_by_label("user_id").fill("ada")
        async with another_page(page):
            await form.get_by_role("button", name="Run once").click()
        assert "/tasks/digest/ada" in page.url
        await expect(page.locator("[data-live=state]")).to_contain_text("pending")
        page = await _open(page, service.url + "/types/digest")
        await form.get_by_label("user_id").fill("grace")
        async with another_page(page):
            await form.get_by_role("button", name="Run once").click()
        await expect(page.locator("[data-live=state]")).to_contain_text("completed")
    (run,) = (await service.app.runs("digest")).items
    assert run.result == "digest of grace"


async def test_a_type_that_nobody_serves_says_so_before(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(await seen.open(), service.url + "/types/orphan")
        await expect(page.locator("#run-once .note")).to_contain_text("No running instance has a handler")
        await service.app.disable("orphan")
        page = await _open(page, service.url + "/types/orphan")
        await expect(page.locator("#run-once")).to_contain_text("takes no new tasks on")
        await expect(page.get_by_role("button", name="Run once")).to_have_count(0)


async def test_every_setting_says_where_it_comes_from(chromium: Browser, service: Stage) -> None:
    await service.app.override("letter", {"max_pending": 7})
    async with signed_in(chromium, service, Role.VIEWER) as seen:
        page = await _open(await seen.open(), service.url + "/types/letter")
        for name, value, source in (
            ("max_retries", "5", "code"),
            ("max_pending", "7", "operator's override"),
            ("priority", "5", "default"),
        ):
            row = page.locator("table.settings tr").filter(has=page.get_by_role("cell", name=name, exact=True))
            await expect(row.locator("td").nth(1)).to_have_text(value)
            await expect(row.locator("td").nth(2)).to_have_text(source)
        await expect(page.get_by_role("button", name="Run once")).to_have_count(0)


async def test_a_service_leaves_what_the_worker_has_told(service: Stage) -> None:
    """A process that knows the type and has no handler for it does not wipe what its handler takes."""
    store = await service.app.store()
    before = await declaration_of(store, "letter")
    assert before.takes is not None
    same = {"trigger_mode": "once", "max_retries": 5, "description": "Sends a letter"}
    other = Rota({"store": service.app.config.store_url, "scheduler": {"tasks": {"letter": same}}})
    async with other:
        await other.store()
    assert (await declaration_of(store, "letter")).takes == before.takes
    async with service.client(Role.VIEWER) as client:
        answer = (await client.get(service.url + "/api/types/letter")).json()
    assert answer["takes"]["ids"] == []
    assert [field["name"] for field in answer["takes"]["fields"]] == [
        "to",
        "copies",
        "tone",
        "urgent",
        "weight",
        "lines",
    ]
