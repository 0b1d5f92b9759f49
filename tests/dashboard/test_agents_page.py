"""The agents page in a real browser: live output, stop, the approval inbox, the kill switches."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import a_context, another_page, settled
from tests.dashboard.stage import Stage, staged

from rota import Rota
from rota.access import AuditLog, AuditQuery, Role
from rota.agents import Agents, AgentSettings, Caller, Limits, agents_of, install_agents
from rota.testing.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANN, AGENT = Caller.person("ann"), Caller.agent("family")
CHATTY = """
import json, time
for n in range(3000):
    print(json.dumps({"progress": "step %d" % n}), flush=True)
    time.sleep(0.2)
"""
HOUR = {"schedule_type": "interval", "schedule_value": "1h"}


@pytest_asyncio.fixture(loop_scope="session")
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    """A service with a worker, whose agents talk for minutes unless they are stopped."""
    app = Rota(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    settings = AgentSettings(
        groups_dir=tmp_path / "groups",
        isolation="process",
        uid_base=None,
        command=(sys.executable, "-I", "-S", "-c", CHATTY),
        limits=Limits(grace_ms=200),
    )
    agents = install_agents(app, settings)
    async with staged(app) as made:
        await (await agents.groups()).add("family")
        yield made


async def opened(chromium: Browser, stage: Stage, role: Role = Role.OPERATOR) -> Page:
    page = await (await a_context(chromium)).new_page()
    await page.goto(stage.login(role))
    await page.goto(f"{stage.url}/agents")
    await settled(page)
    return page


async def _no_runs(agents: Agents) -> bool:
    return await agents.running(ANN) == []


async def test_an_agent_is_watched_stopped_approved_and_switched_off(chromium: Browser, stage: Stage) -> None:
    agents = agents_of(stage.app)
    made = await agents.schedule_task(ANN, group="family", prompt="<b>talk</b>", **HOUR)
    await agents.run_task(ANN, made.id)
    wish = await agents.schedule_task(AGENT, prompt="Let me run every night.", **HOUR)
    page = await opened(chromium, stage)
    page.on("dialog", lambda dialog: dialog.accept())

    output = page.locator("pre.output")
    await expect(output).to_contain_text("step 1")
    await expect(output).to_contain_text("step 9")  # it follows by itself
    await expect(page.get_by_text("<b>talk</b>").first).to_be_visible()

    await page.locator("[data-live=running]").get_by_role("button", name="Stop", exact=True).click()
    async with another_page(page):
        await page.locator("#confirm button[value=yes]").click()
    await expect(page.get_by_role("status").first).to_contain_text("told to end")
    await until(lambda: _no_runs(agents))

    await expect(page.get_by_text("Let me run every night.").first).to_be_visible()
    async with another_page(page):
        await page.locator("form", has=page.locator("input[name=verb][value=approve]")).locator("button").click()
    await expect(page.get_by_role("status").first).to_contain_text("is approved")
    assert (await agents.get_task(ANN, wish.id)).status == "active"

    await page.locator("form", has=page.locator("input[name=scope][value=family]")).locator("button").click()
    await page.locator("#confirm button[value=yes]").click()
    await expect(page.get_by_text("stopped", exact=True)).to_be_visible()
    entries, _ = await AuditLog(await stage.app.database()).page(AuditQuery())
    acted = [entry.action for entry in entries if entry.via == "dashboard"]
    assert acted == ["agent.kill", "agent.approve", "agent.stop"]
    await page.context.close()


async def test_a_viewer_sees_it_and_has_no_buttons(chromium: Browser, stage: Stage) -> None:
    agents = agents_of(stage.app)
    await agents.schedule_task(AGENT, prompt="Let me run every night.", **HOUR)
    page = await opened(chromium, stage, Role.VIEWER)
    await expect(page.get_by_text("Let me run every night.")).to_be_visible()
    assert await page.locator("form[action$='/act/agent'], form[action$='/act/agent/switch']").count() == 0
    await page.context.close()
