"""Alerts in a real browser: one bar, badges that change by themselves, every rule as it stands, and silence."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect
from tests.dashboard.conftest import a_context, another_page, settled
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.access import AuditLog, AuditQuery, Role
from rota.agents import Caller, agents_of
from rota.alerts import Alerts
from rota.testing.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
TYPES = ("charge", "export", "mail", "resize")
RULES = {
    "check_interval": "1s",
    "rules": {"letters": {"kind": "dead_letters", "for": "0s"}, "rare": {"kind": "queue_depth", "type": "mail"}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    """A service with a worker, four types whose handlers fail, and nothing that has failed so far."""
    app = Rota({"store": f"sqlite:///{tmp_path}/rota.db?synchronous=OFF", "alerts": RULES})

    async def fails() -> None:
        raise RuntimeError("no")

    for name in TYPES:
        app.task(name=name, max_retries=0)(fails)
    async with staged(app) as made:
        yield made


async def opened(chromium: Browser, stage: Stage, path: str, role: Role = Role.OPERATOR) -> Page:
    page = await (await a_context(chromium)).new_page()
    await page.goto(stage.login(role))
    await page.goto(stage.url + path)
    await settled(page)
    return page


def badge(page: Page, entry: str) -> Locator:
    return page.locator(f"[data-badge={entry}] b")


async def test_badges_change_without_a_reload_on_every_page(chromium: Browser, stage: Stage) -> None:
    page = await opened(chromium, stage, "/help")
    for entry in ("dead_letters", "alerts", "agents"):
        await expect(badge(page, entry)).to_be_hidden()
    await page.evaluate("window.stayed = true")

    await stage.app.schedule("charge", key="c1")
    await expect(badge(page, "dead_letters")).to_have_text("1")
    await expect(badge(page, "alerts")).to_have_text("1")
    await stage.app.schedule("export", key="e1")
    await expect(badge(page, "dead_letters")).to_have_text("2")
    await expect(badge(page, "alerts")).to_have_text("2")

    agents = agents_of(stage.app)
    await (await agents.groups()).add("family")
    asked = await agents.schedule_task(
        Caller.agent("family"), prompt="Tell me.", schedule_type="interval", schedule_value="1h"
    )
    await expect(badge(page, "agents")).to_have_text("1")
    await agents.reject(Caller.person("ann"), asked.id)
    await expect(badge(page, "agents")).to_be_hidden()
    assert await page.evaluate("window.stayed") is True
    await expect(page.get_by_role("link", name="Alerts 2 to look at")).to_have_count(1)
    await page.close()


async def test_all_that_fires_is_one_bar_with_the_values_of_now(chromium: Browser, stage: Stage) -> None:
    page = await opened(chromium, stage, "/")
    await expect(page.locator(".bar")).to_have_count(0)
    for name in TYPES:
        await stage.app.schedule(name, key="1")
    bar = page.locator(".bar")
    await expect(bar.locator("summary")).to_contain_text("4 alerts")
    await expect(bar).to_have_count(1)
    await expect(bar.locator("summary")).to_contain_text("and 1 more")
    await expect(bar.locator("li").first).to_be_hidden()
    await bar.locator("summary").click()
    await expect(bar.locator("li")).to_have_count(4)
    await stage.app.schedule("mail", key="2")
    await expect(bar).to_contain_text("2 tasks of mail have failed")
    await expect(bar.locator("li").first).to_be_visible()
    assert await bar.locator("dt").all_inner_texts() == ["letters"], "those of one rule stand together"
    about_mail = bar.get_by_role("link", name="2 tasks of mail have failed")
    await expect(about_mail).to_have_attribute("href", "/failures?type=mail")
    for width, scheme in ((1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"wider than {width}"
        await page.screenshot(path=PICTURES / f"alerts-bar-{width}-{scheme}.png")
    await page.close()


async def test_every_rule_is_listed_and_silenced_by_a_form(chromium: Browser, stage: Stage) -> None:
    await stage.app.schedule("charge", key="c1")
    page = await opened(chromium, stage, "/alerts")
    rule = page.locator("[data-live=rules] tr[data-row]", has_text="letters")
    await expect(rule.locator("[data-label=State]")).to_contain_text("firing")
    await expect(rule.locator("[data-label=Now]")).to_contain_text("1")
    await expect(page.locator("[data-live=rules] tr[data-row]", has_text="rare")).to_contain_text("ok")
    assert "dead_letters" not in await page.locator("[data-live=rules] td b").all_inner_texts(), (
        "its own one replaces it"
    )

    form = page.locator("form[action$='/act/alert/silence']").last
    await form.get_by_label("Rule").select_option("letters")
    await form.get_by_label("Type").fill("chrage")
    await form.get_by_label("For").fill("2h")
    await form.get_by_label("Why").fill("the provider knows")
    async with another_page(page):
        await form.get_by_role("button", name="Silence").click()
    await expect(page.locator(".field.wrong")).to_contain_text("Did you mean 'charge'?")
    assert await form.get_by_label("Why").input_value() == "the provider knows"
    await form.get_by_label("Type").fill("charge")
    async with another_page(page):
        await form.get_by_role("button", name="Silence").click()

    await expect(page.locator(".flash")).to_contain_text("letters of charge is silenced until")
    await expect(rule).to_contain_text("the provider knows")
    firing = page.locator("[data-live=firing] tr[data-row]", has_text="charge")
    await expect(firing).to_contain_text("silenced until")
    await expect(badge(page, "alerts")).to_be_hidden()

    await rule.get_by_label("Actions for letters").click()
    async with another_page(page):
        await rule.get_by_role("button", name="Unsilence charge").click()
    await expect(page.locator(".flash")).to_contain_text("letters of charge is heard again")
    await expect(badge(page, "alerts")).to_have_text("1")
    entries, _ = await AuditLog(await stage.app.database()).page(AuditQuery())
    done = [(entry.action, entry.target) for entry in entries if entry.action.startswith("alert.")]
    # What was refused before it was begun is no deed.
    assert done == [("alert.unsilence", "letters/charge"), ("alert.silence", "letters/charge")]
    await page.close()


async def test_a_viewer_sees_it_and_has_no_buttons(chromium: Browser, stage: Stage) -> None:
    await stage.app.schedule("charge", key="c1")
    page = await opened(chromium, stage, "/alerts", Role.VIEWER)
    await expect(badge(page, "alerts")).to_have_text("1")
    await expect(page.locator("[data-live=rules] tr[data-row]").first).to_be_visible()
    assert await page.locator("form[action*='/act/alert/']").count() == 0
    async with stage.client(Role.VIEWER) as client:
        answer = await client.post(f"{stage.url}/api/alerts/rules/letters/silence", json={"duration": "1h"})
    assert answer.status_code == 403
    await page.close()


async def test_without_a_script_the_badges_are_those_of_the_page(stage: Stage) -> None:
    await stage.app.schedule("charge", key="c1")
    alerts = Alerts(await stage.app.database())

    async def fires() -> bool:
        return await alerts.count() == 1

    await until(fires)
    async with stage.client(Role.VIEWER) as client:
        text = (await client.get(f"{stage.url}/help")).text
    assert 'data-badge="alerts"> <b>1</b>' in text
    assert 'data-badge="agents" hidden>' in text
