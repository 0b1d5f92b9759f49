"""The pages of batches in a real browser: one is asked for and its items appear, it is held back, goes on and is ended;
whatever a model calls its items, they are text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from sqlalchemy import update
from tests.batches.scene import Maker, names
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.conftest import chromium as chromium
from tests.dashboard.hostile import PAYLOADS
from tests.dashboard.stage import Stage, staged
from tests.dashboard.test_hostile import SKELETON
from tests.dashboard.test_pages import NAMELESS, fits

from rota import Rota
from rota.access import Role
from rota.batches import BatchesPart, Generated, GenerationRequest, Item
from rota.batches.batch import Batch, BatchStatus, Subtask, SubtaskStatus
from rota.batches.faces.pages import of_batch, to_restore
from rota.batches.faces.words import account_of, reason_of, style_of
from rota.batches.names import DETAIL_BATCH
from rota.batches.today import today
from rota.clock import HOUR, SECOND
from rota.database.tables.batches import batches as batches_table

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "<script>alert(1)</script>"
LONG = "a" * 200
ARABIC = "مدينة النور"
TURNED = "\u202e\u2066turned \U0001f469\u200d\U0001f680"


@asynccontextmanager
async def served(
    folder: Path, maker: Maker | None = None, *, works: bool = True, **settings: Any
) -> AsyncGenerator[Stage]:
    """An app with batches at work, behind its dashboard."""
    config = {
        "store": f"sqlite:///{folder}/rota.db?synchronous=OFF",
        "batches": settings,
        "scheduler": {"tasks": {DETAIL_BATCH: {"retry": {"base": "10ms", "max": "20ms"}}}},
    }
    app = Rota(config, parts=[BatchesPart(generator=maker or Maker())])
    async with staged(app, works=works) as stage:
        yield stage


class Slow(Maker):
    """The first subtask of a batch is answered at once; the others wait for the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.rest = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> Generated:
        if request.index:
            await self.rest.wait()
        return await super().generate(request)


async def opened(page: Page, url: str) -> Page:
    await page.goto(url)
    await settled(page)
    return page


def items_of(page: Page) -> Locator:
    return page.locator("table.items tr[data-row]")


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_the_form_starts_a_batch_and_its_items_appear(chromium: Browser, tmp_path: Path) -> None:
    maker = Slow()
    async with served(tmp_path, maker) as stage, signed_in(chromium, stage, Role.OPERATOR) as seen:
        page = await opened(await seen.open(), f"{stage.url}/batches")
        assert await page.evaluate(NAMELESS) == []
        form = page.locator("form[action$='/act/batch/start']")
        await form.get_by_label("Type").select_option("location_name")
        await form.get_by_label("Count").fill("30")
        await form.get_by_label("Style").fill("norse <b>")
        await form.get_by_label("Priority").fill("7")
        async with another_page(page):
            await form.get_by_role("button", name="Ask").click()
        await expect(page.get_by_role("status").first).to_contain_text("30 items of the type location_name asked for.")
        await expect(page.locator("h1")).to_have_text("30 \N{MULTIPLICATION SIGN} location_name")
        await expect(page.locator("[data-live=state]")).to_contain_text("norse <b>")
        await expect(items_of(page)).to_have_count(8)
        await expect(page.locator("[data-live=state] .say")).to_contain_text("8 of 30 so far.")
        assert await page.evaluate(NAMELESS) == []
        await page.evaluate("() => { window.kept = 'the same page'; }")
        maker.rest.set()
        await expect(items_of(page)).to_have_count(30)
        await expect(page.locator("[data-live=state] .say")).to_contain_text("All 30 came, in")
        assert await page.evaluate("() => window.kept") == "the same page"

        await opened(page, f"{stage.url}/batches")
        row = page.locator("[data-live=rows] tr[data-row]")
        await expect(row).to_contain_text("30 of 30")
        await expect(row).to_contain_text("completed")
        (batch,) = (await stage.app.batches.list()).items
        assert (batch.priority, style_of(batch)) == (7, "norse <b>")
        assert batch.owner.startswith("token:")


async def test_the_list_is_live(chromium: Browser, tmp_path: Path) -> None:
    async with served(tmp_path) as stage, signed_in(chromium, stage, Role.VIEWER) as seen:
        page = await opened(await seen.open(), f"{stage.url}/batches")
        await expect(page.locator(".empty")).to_be_visible()
        await stage.app.batches.start("location_name", 12)
        await expect(page.locator("[data-live=rows] tr[data-row]")).to_contain_text("12 of 12")
        await expect(page.locator("[data-live=figures]")).to_contain_text(re.compile(r"Completed today\s*1"))


async def test_what_cannot_be_asked_for_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as stage, stage.client(Role.OPERATOR) as client:
        for count in ("0", "501", "many", "-1", ""):
            form = {"type": "location_name", "count": count, "priority": "5"}
            answer = await client.post(f"{stage.url}/act/batch/start", data=form, headers={"Accept": "text/html"})
            assert answer.status_code == 422, count
            assert "count" in answer.text
        assert (await stage.app.batches.list()).items == []


# --- acting ----------------------------------------------------------------------------------------------------------


async def test_a_batch_is_paused_resumed_and_cancelled(chromium: Browser, tmp_path: Path) -> None:
    maker = Slow()
    async with served(tmp_path, maker) as stage, signed_in(chromium, stage, Role.OPERATOR) as seen:
        handle = await stage.app.batches.start("location_name", 30)
        page = await opened(await seen.open(), f"{stage.url}/batches/{handle.id}")
        await expect(items_of(page)).to_have_count(8)
        async with another_page(page):
            await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("[data-live=state] .pill")).to_have_text("paused")
        assert (await handle.status()).status is BatchStatus.PAUSED
        async with another_page(page):
            await page.get_by_role("button", name="Resume").click()
        await expect(page.locator("[data-live=state] .pill")).to_have_text("running")

        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#confirm-words")).to_contain_text("Cancel this batch of 30 items? The 8 that have")
        await page.get_by_role("button", name="Back").click()
        assert (await handle.status()).status is BatchStatus.RUNNING
        await page.get_by_role("button", name="Cancel").click()
        async with another_page(page):
            await page.locator("#confirm button[value=yes]").click()
        await expect(page.get_by_role("status").first).to_contain_text("The batch is cancelled.")
        await expect(page.locator("[data-live=state] .say")).to_contain_text("8 of 30 had come, and stay.")
        await expect(page.locator("main form[action*='/act/']")).to_have_count(0)
        maker.rest.set()


async def test_whoever_is_too_late_is_told_so(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as stage, stage.client(Role.OPERATOR) as client:
        handle = await stage.app.batches.start("location_name", 5)
        await handle.cancel()
        for verb in ("pause", "cancel"):
            form = {"verb": verb, "id": handle.id, "back": "/batches"}
            assert (await client.post(f"{stage.url}/act/batch", data=form)).status_code == 303
        form = {"verb": "eat", "id": handle.id, "back": "/batches"}
        assert (await client.post(f"{stage.url}/act/batch", data=form)).status_code == 422
        unknown = await client.get(f"{stage.url}/batches/nobody", headers={"Accept": "text/html"})
        assert unknown.status_code == 404
        assert "No batch has the id" in unknown.text


async def test_a_viewer_sees_it_and_has_no_buttons(chromium: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as stage, stage.client(Role.VIEWER) as client:
        handle = await stage.app.batches.start("location_name", 30)
        await stage.app.batches.freeze()
        async with signed_in(chromium, stage, Role.VIEWER) as seen:
            page = await opened(await seen.open(), f"{stage.url}/batches")
            await expect(page.locator("[data-live=rows]")).to_contain_text("0 of 30")
            await expect(page.get_by_text("Frozen.")).to_be_visible()
            assert await page.locator("main form[action*='/act/']").count() == 0
            await opened(page, f"{stage.url}/batches/{handle.id}")
            await expect(page.locator("[data-live=subtasks] tr[data-row]")).to_have_count(3)
            assert await page.locator("main form[action*='/act/']").count() == 0
        for path, form in (
            ("/act/batch", {"verb": "cancel", "id": handle.id}),
            ("/act/batch/start", {"type": "location_name", "count": "5", "priority": "5"}),
            ("/act/batch/restore", {}),
        ):
            assert (await client.post(stage.url + path, data=form)).status_code == 403
        assert (await handle.status()).status is BatchStatus.RUNNING


async def test_an_admin_takes_the_switches_back(chromium: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as stage:
        await stage.app.batches.freeze()
        await stage.app.batches.degrade()
        async with signed_in(chromium, stage, Role.OPERATOR) as seen:
            page = await opened(await seen.open(), f"{stage.url}/batches")
            await expect(page.get_by_text("Degraded.")).to_be_visible()
            await expect(page.get_by_role("button", name="Restore")).to_have_count(0)
            seen.forgives.add("503")
            await page.get_by_label("Style").fill("norse")
            async with another_page(page):
                await page.get_by_role("button", name="Ask").click()
            await expect(page.locator("form").get_by_role("alert")).to_contain_text("Batches are frozen by an operator")
            await expect(page.get_by_label("Style")).to_have_value("norse")
        async with signed_in(chromium, stage, Role.ADMIN) as seen:
            page = await opened(await seen.open(), f"{stage.url}/batches")
            assert await page.evaluate(NAMELESS) == []
            async with another_page(page):
                await page.get_by_role("button", name="Restore").click()
            await expect(page.get_by_text("Frozen.")).to_have_count(0)
        assert not (await stage.app.batches.switches()).is_frozen


async def test_the_calls_that_a_page_shows_do_what_its_buttons_do(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as stage, stage.client(Role.ADMIN) as client:
        handle = await stage.app.batches.start("location_name", 30)
        await stage.app.batches.freeze()
        pause, cancel = of_batch(await handle.status())
        assert (await client.request(pause.method, stage.url + pause.url)).status_code == 200
        (resume, _) = of_batch(await handle.status())
        for action in (resume, cancel, to_restore()):
            assert (await client.request(action.method, stage.url + action.url)).status_code == 200, action.url
        assert (await handle.status()).status is BatchStatus.CANCELLED
        assert not (await stage.app.batches.switches()).is_frozen


# --- what models say -------------------------------------------------------------------------------------------------


def hostile_items(request: GenerationRequest) -> list[Item]:
    strange = [EVIL, LONG, ARABIC, TURNED, "x" * 300, "Anna", "anna", *PAYLOADS]
    return [Item(name[:250], {"description": EVIL + "b" * 500, EVIL[:60]: name}) for name in strange]


async def hostile(request: GenerationRequest) -> Generated:
    if request.index == 1:
        raise RuntimeError(f"{EVIL} {PAYLOADS[0]} {'z' * 300}")
    items = hostile_items(request)
    return Generated(items[: request.count] if request.index == 0 else items[-request.count :], invalid=2)


async def test_whatever_a_model_says_is_text(chromium: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, Maker(hostile), first_size=50) as stage, signed_in(chromium, stage) as seen:
        handle = await stage.app.batches.start(
            "location_name", 110, style=f"{EVIL} {ARABIC} {LONG}", session_id=EVIL, user_id=PAYLOADS[0]
        )
        await handle.result()
        for path, name in ((f"/batches/{handle.id}", "batch-hostile"), ("/batches", "batches-hostile")):
            await fits(await seen.open(), stage.url + path, name)
        page = await opened(await seen.open(), f"{stage.url}/batches/{handle.id}")
        for text in (EVIL, LONG, ARABIC, TURNED):
            await expect(items_of(page).get_by_text(text, exact=True).first).to_be_visible()
        for summary in await page.locator("details.payload summary").all():
            await summary.click()
        await expect(page.locator("[data-live=items]")).to_contain_text("the name has 250 characters; 200 are the most")
        await expect(page.locator("[data-live=items]")).to_contain_text("came without a name")
        await expect(page.locator("[data-live=subtasks]")).to_contain_text(f"RuntimeError {EVIL}")
        for width in (1200, 400):
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), width
        for path in (f"/batches/{handle.id}", "/batches"):
            await opened(page, stage.url + path)
            assert await page.evaluate(SKELETON, await page.content()) == []
            assert await page.evaluate("() => window.pwned") is None
            scripts = "() => [...document.scripts].map((each) => each.src.split('/').pop())"
            assert await page.evaluate(scripts) == ["rota.js"]


async def test_names_and_styles_can_be_hidden(tmp_path: Path) -> None:
    async with served(tmp_path) as stage, stage.client(Role.VIEWER, cookies={"rota_payloads": "hide"}) as client:
        handle = await stage.app.batches.start("location_name", 5, style="by the sea")
        result = await handle.result()
        for path in ("/batches", f"/batches/{handle.id}"):
            text = (await client.get(stage.url + path)).text
            assert "by the sea" not in text.replace('placeholder="norse, by the sea"', "")
            assert not any(item.name in text for item in result.items)


# --- how it ended ----------------------------------------------------------------------------------------------------


async def test_a_failed_subtask_leads_to_its_task_and_dead_letter(chromium: Browser, tmp_path: Path) -> None:
    async def fails(request: GenerationRequest) -> Generated:
        if request.index == 1:
            raise RuntimeError("The provider has a bad day.")
        return Generated(names(request.count))

    async with served(tmp_path, Maker(fails)) as stage, signed_in(chromium, stage) as seen:
        handle = await stage.app.batches.start("location_name", 30)
        batch = (await handle.result()).batch
        assert batch.items < 30
        page = await opened(await seen.open(), f"{stage.url}/batches/{handle.id}")
        lost = batch.count - batch.items
        await expect(page.locator(".say")).to_contain_text(f"{batch.items} of 30: 1 subtask for {lost} of them failed.")
        row = page.locator("[data-live=subtasks] tr[data-row]").nth(1)
        await expect(row).to_contain_text("The provider has a bad day.")
        async with another_page(page):
            await row.get_by_role("link", name="dead letter").click()
        await expect(page.locator("tr[data-row]")).to_have_count(1)
        await page.go_back()
        async with another_page(page):
            await row.get_by_role("link", name="task").click()
        await expect(page.locator("h1")).to_have_text(f"{handle.id}:1:0")


def a_batch(**values: Any) -> Batch:
    usual: dict[str, Any] = {
        "id": "b",
        "owner": "app",
        "user_id": None,
        "session_id": "b",
        "type": "skill",
        "agent": "a",
        "count": 50,
        "style": '""',
        "priority": 5,
        "seed": 1,
        "distinct": "batch",
        "similarity": 950,
        "size": 10,
        "deadline_at": HOUR,
        "budget_tokens": None,
        "idempotency_key": None,
        "digest": None,
        "correlation_id": "b",
        "status": BatchStatus.COMPLETED,
        "reason": None,
        "expected": 5,
        "done": 5,
        "failed": 0,
        "items": 50,
        "duplicates": 0,
        "invalid": 0,
        "late": 0,
        "rounds": 0,
        "tokens_in": 0,
        "tokens_out": 0,
        "events": 1,
        "numbers": 0,
        "first_at": None,
        "created_at": 0,
        "ended_at": 2 * SECOND,
    }
    return Batch(**{**usual, **values})


def a_subtask(**values: Any) -> Subtask:
    usual: dict[str, Any] = {
        "id": "b:0:0",
        "batch_id": "b",
        "index": 0,
        "round": 0,
        "count": 10,
        "cost": 1,
        "status": SubtaskStatus.DONE,
        "attempt": 1,
        "errors": 0,
        "queue_told": 1,
        "event_id": None,
        "dispatched_at": None,
        "sent_at": None,
        "ended_at": None,
        "wait_ms": None,
        "error_class": None,
        "error": None,
        "kept": 0,
        "created_at": 0,
    }
    return Subtask(**{**usual, **values})


FAILED = SubtaskStatus.FAILED


@pytest.mark.parametrize(
    ("batch", "subtasks", "said", "short"),
    [
        ({}, [], "All 50 came, in 2 s.", None),
        ({"count": 1, "items": 1}, [], "It came.", None),
        (
            {"status": BatchStatus.RUNNING, "items": 8, "done": 1},
            [],
            "8 of 50 so far. 4 subtasks to go.",
            None,
        ),
        (
            {"status": BatchStatus.PAUSED, "items": 8},
            [],
            "8 of 50 so far. No subtask is begun now; what agents have begun still comes in.",
            None,
        ),
        ({"status": BatchStatus.CANCELLED, "items": 8}, [], "8 of 50 had come, and stay.", None),
        (
            {"reason": "exhausted", "items": 43, "duplicates": 7, "rounds": 2},
            [{"count": 50, "kept": 43}],
            "43 of 50: 7 were too much like others and two more rounds brought no new ones.",
            "7 missing: too few came",
        ),
        (
            {"reason": "exhausted", "items": 44, "duplicates": 1, "invalid": 2, "rounds": 1},
            [{"count": 50, "kept": 43}, {"count": 7, "round": 1, "kept": 1}],
            (
                "44 of 50: 1 was too much like another, 2 had no usable name, agents made 10 fewer than they were asked"
                " for and one more round brought only one new one."
            ),
            "6 missing: too few came",
        ),
        (
            {"reason": "exhausted", "items": 40, "failed": 1},
            [{"count": 40, "kept": 40}, {"status": FAILED}],
            "40 of 50: 1 subtask for 10 of them failed.",
            "10 missing: too few came",
        ),
        (
            {"status": BatchStatus.FAILED, "reason": "exhausted", "items": 0, "failed": 5},
            [{"status": FAILED}] * 5,
            "None of 50: 5 subtasks for 50 of them failed.",
            "50 missing: too few came",
        ),
        ({"reason": "exhausted", "items": 49}, [], "49 of 50: agents made too few.", "1 missing: too few came"),
        (
            {"reason": "deadline", "items": 43},
            [],
            "43 of 50: the deadline passed, 1 h after it was asked for.",
            "7 missing: the deadline passed",
        ),
        (
            {"reason": "budget", "items": 43, "budget_tokens": 1_000},
            [],
            "43 of 50: the budget of 1,000 tokens is used up.",
            "7 missing: the budget is used up",
        ),
    ],
)
async def test_how_a_batch_ended_in_a_sentence(
    batch: dict[str, Any], subtasks: list[dict[str, Any]], said: str, short: str | None
) -> None:
    ended = a_batch(**batch)
    assert account_of(ended, [a_subtask(**one) for one in subtasks]) == said
    assert reason_of(ended) == short


async def test_a_style_is_one_line() -> None:
    assert style_of(a_batch(style='"two\\n lines"')) == "two lines"
    assert style_of(a_batch(style='{"a": 1}')) == '{"a":1}'


# --- many ------------------------------------------------------------------------------------------------------------


async def test_filters_and_pages(chromium: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as stage, signed_in(chromium, stage) as seen:
        for number in range(52):
            await stage.app.batches.start("location_name" if number else "skill", 5, session_id=f"s{number}")
        page = await opened(await seen.open(), f"{stage.url}/batches")
        rows = page.locator("[data-live=rows] tr[data-row]")
        await expect(rows).to_have_count(50)
        async with another_page(page):
            await page.locator("a[rel=next]").click()
        await expect(rows).to_have_count(2)
        await expect(rows.last).to_contain_text("skill")

        (batch,) = (await stage.app.batches.list(limit=1)).items
        await stage.app.batches.cancel(batch.id)
        await opened(page, f"{stage.url}/batches")
        filters = page.locator("form.filters[method=get]")
        await filters.get_by_label("State").select_option("cancelled")
        async with another_page(page):
            await filters.get_by_role("button", name="Filter").click()
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("cancelled")
        copied = page.locator("[data-copy^='rota batch ls']").first
        assert await copied.get_attribute("data-copy") == "rota batch ls --status cancelled"
        for query, count in (("type=skill", 1), ("session=s7", 1), ("type=nothing", 0)):
            await opened(page, f"{stage.url}/batches?{query}")
            await expect(rows).to_have_count(count)


async def test_the_figures_of_the_day(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        handles = [await stage.app.batches.start("location_name", 5) for _ in range(4)]
        for handle in handles:
            await handle.result()
        database = await stage.app.database()
        now = await database.now()

        def long_ago(connection: Any) -> None:
            connection.execute(
                update(batches_table)
                .where(batches_table.c.id == handles[0].id)
                .values(ended_at=now - 30 * HOUR, first_at=batches_table.c.created_at + 9 * SECOND)
            )

        await database.write(long_ago)
        seen = await today(database, now, now - HOUR)
        assert (seen.completed, seen.items, seen.measured, seen.first_p95_ms) == (3, 20, 4, 9 * SECOND)
        later = await today(database, now + 2 * HOUR, now + HOUR)
        assert later == (0, 0, 0, None, None)


async def test_what_bounds_the_agents_is_shown_where_it_is_set(tmp_path: Path) -> None:
    (tmp_path / "bounded").mkdir()
    async with served(tmp_path, works=False) as stage, stage.client(Role.VIEWER) as client:
        handle = await stage.app.batches.start("location_name", 5)
        assert "a minute" not in (await client.get(f"{stage.url}/batches/{handle.id}")).text
    limits: dict[str, Any] = {"requests_per_minute": 120, "tokens_per_minute": 60_000}
    async with served(tmp_path / "bounded", works=False, **limits) as stage, stage.client(Role.VIEWER) as client:
        handle = await stage.app.batches.start("location_name", 5)
        text = (await client.get(f"{stage.url}/batches/{handle.id}")).text
        assert "at most 120 a minute" in text
        assert "at most 60,000 a minute" in text
