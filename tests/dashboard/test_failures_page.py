"""Failures by groups, in a real browser: what is shown of one, those of one redriven and no others, muted and heard."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.stage import Stage, staged

from rota import Rota, TaskStatus
from rota.access import AuditLog, Role
from rota.access.audit import AuditQuery
from rota.core.task import Identity
from rota.stores.base import Failures, Store, TaskQuery
from rota.testing.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECLINED, AWAY = 23, 4
SECRET = "sk-live-0123456789abcdef"


class PaymentError(Exception):
    """The bank says no."""


class Bank:
    """Says no until somebody has talked to it."""

    def __init__(self) -> None:
        self.says_yes = False

    def charge(self, card: str) -> str:
        if card.startswith("away"):
            raise ConnectionError(f"no answer from https://bank.example/{card}")
        if not self.says_yes:
            raise PaymentError(f"card {len(card)} was declined with api_key={SECRET}")
        return "paid"


def shop_of(url: str, folder: Path, bank: Bank) -> Rota:
    """Cards that are declined, and cards whose bank is away: two failures of one type."""
    # Redis has no tables: the database is a file then.
    database = {"database": f"sqlite:///{folder}/database.db?synchronous=OFF"} if url.startswith("redis") else {}
    app = Rota({"store": url, "spool": "off", **database})

    @app.task(max_retries=0)
    async def charge_card(payload: dict[str, str]) -> str:
        return bank.charge(payload["card"])

    return app


@asynccontextmanager
async def failed_shop(url: str, folder: Path, bank: Bank) -> AsyncGenerator[Stage]:
    app = shop_of(url, folder, bank)
    async with staged(app) as stage:
        for number in range(DECLINED):
            await app.schedule("charge_card", {"card": f"{number}"}, key=f"c{number}", user_id=f"u{number % 7}")
        for number in range(AWAY):
            await app.schedule("charge_card", {"card": f"away{number}"}, key=f"d{number}")
        store = await app.store()

        async def are_counted() -> bool:
            return {found.dead: found.group.count for found in await store.failures()} == {
                DECLINED: DECLINED,
                AWAY: AWAY,
            }

        await until(are_counted, "both failures are counted")
        yield stage


async def failure_of(store: Store, kind: str) -> Failures:
    """The group of what was raised."""
    return next(found for found in await store.failures() if found.group.kind == kind)


async def opened(page: Page, url: str) -> Page:
    await page.goto(url)
    await settled(page)
    return page


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
async def test_a_group_is_redriven_and_no_other_one(
    engine: str, request: pytest.FixtureRequest, chromium: Browser, tmp_path: Path
) -> None:
    bank = Bank()
    url = str(request.getfixturevalue(f"{engine}_url"))
    async with (
        failed_shop(url, tmp_path, bank) as stage,
        signed_in(chromium, stage, Role.OPERATOR) as seen,
    ):
        store = await stage.app.store()
        page = await opened(await seen.open(), stage.url + "/")
        async with another_page(page):
            await page.locator("[data-live=failures]").get_by_role("link", name="PaymentError").click()
        await expect(page.locator("h1")).to_have_text("PaymentError")
        await expect(page.locator("pre[aria-label=Traceback]")).to_contain_text("raise PaymentError(")
        assert SECRET not in await page.content()
        bank.says_yes = True
        async with another_page(page):
            await page.get_by_role("button", name=f"Redrive {DECLINED}").click()
        await expect(page.locator(".say")).to_have_text(f"Redrive {DECLINED} tasks?")
        async with another_page(page):
            await page.get_by_role("button", name="Yes, redrive").click()
        await expect(page.locator(".flash")).to_have_text(f"{DECLINED} tasks redriven.")

        async def all_are_paid() -> bool:
            return (await store.counts())["charge_card"].completed == DECLINED

        await until(all_are_paid, "those of the group have run again")
        # The page follows by itself: nothing of the group waits any more.
        await expect(page.get_by_role("button", name="Redrive")).to_have_count(0)
        others = await store.find(TaskQuery(task_type="charge_card", status=TaskStatus.FAILED))
        assert {task.key for task in others.items} == {f"d{number}" for number in range(AWAY)}
        assert {task.attempt for task in others.items} == {1}
        assert (await failure_of(store, "ConnectionError")).dead == AWAY


async def test_a_group_is_muted_and_heard_again(chromium: Browser, sqlite_url: str, tmp_path: Path) -> None:
    async with (
        failed_shop(sqlite_url, tmp_path, Bank()) as stage,
        signed_in(chromium, stage, Role.OPERATOR) as seen,
    ):
        store = await stage.app.store()
        declined = (await failure_of(store, "PaymentError")).group
        page = await opened(await seen.open(), f"{stage.url}/failures/charge_card/{declined.id}")
        await page.get_by_label("Until").select_option("4h")
        async with another_page(page):
            await page.get_by_role("button", name="Mute", exact=True).click()
        await expect(page.locator(".flash")).to_contain_text("is muted until")
        await opened(page, stage.url + "/failures")
        await expect(page.locator("table.failures tbody tr")).to_have_count(1)
        await expect(page.locator("table.failures")).to_contain_text("ConnectionError")
        await opened(page, stage.url + "/")
        await expect(page.locator("[data-live=failures]")).not_to_contain_text("PaymentError")
        await opened(page, stage.url + "/failures")
        async with another_page(page):
            await page.get_by_role("link", name="Muted 1").click()
        async with another_page(page):
            await page.get_by_role("link", name="PaymentError").click()
        async with another_page(page):
            await page.get_by_role("button", name="Hear again").click()
        await expect(page.locator(".flash")).to_contain_text("is heard again")
        assert (await failure_of(store, "PaymentError")).group.muted_until is None
        entries, _ = await AuditLog(await stage.app.database()).page(AuditQuery(action="failure.mute"))
        assert [entry.target for entry in entries] == [f"charge_card/{declined.id}"] * 2


async def test_dead_letters_of_a_failure_are_listed_and_redriven_alone(
    chromium: Browser, sqlite_url: str, tmp_path: Path
) -> None:
    bank = Bank()
    async with (
        failed_shop(sqlite_url, tmp_path, bank) as stage,
        signed_in(chromium, stage, Role.OPERATOR) as seen,
    ):
        store = await stage.app.store()
        page = await opened(await seen.open(), stage.url + "/dead-letters")
        async with another_page(page):
            await page.locator("[data-live=groups]").get_by_role("link", name="ConnectionError").click()
        await expect(page.locator("table.rows tbody tr")).to_have_count(AWAY)
        # A reason on top of it narrows further, and never widens.
        await opened(page, f"{page.url}&reason=timeout")
        await expect(page.locator("table.rows tbody tr")).to_have_count(0)
        failure = (await failure_of(store, "ConnectionError")).group
        await opened(page, f"{stage.url}/dead-letters?type=charge_card&failure={failure.id}")
        bank.says_yes = True
        await page.locator("#bulk input[name=scope]").check()
        await page.locator("#bulk").get_by_role("button", name="Redrive").click()
        await expect(page.locator("#confirm-words")).to_have_text(f"Redrive {AWAY} tasks?")
        async with another_page(page):
            await page.locator("#confirm").get_by_role("button", name="Redrive").click()
        await expect(page.locator(".flash")).to_have_text(f"{AWAY} tasks redriven.")
        declined = await store.find(TaskQuery(task_type="charge_card", status=TaskStatus.FAILED, failure=None))
        assert sum(task.key.startswith("c") for task in declined.items) == DECLINED
        assert (await store.get([Identity("charge_card", "c0")]))[0] is not None


async def test_a_group_that_is_not_there_is_said_so(chromium: Browser, demo: Stage) -> None:
    async with demo.client(Role.VIEWER) as client:
        answer = await client.get(f"{demo.url}/failures/agent/0123456789ab", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "There is no group of failures agent/0123456789ab" in answer.text
