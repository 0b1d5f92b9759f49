"""The confirmation of a bulk action shows the command that does exactly that: run as it stands, it changes the ticked
tasks and no others. What cannot be undone looks different, and what cannot apply is not offered."""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import Watched, settled, signed_in
from tests.dashboard.conftest import chromium as chromium
from tests.dashboard.stage import Stage, staged

from rota import Rota, TaskStatus, TaskType
from rota.access import Role
from rota.core.task import Identity, NewTask, Settlement, Transition
from rota.dashboard import actions
from rota.dashboard.forms import written
from rota.stores.base import MAX_PAGE, ClaimRequest, TaskQuery
from rota.testing.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")

ODD = ["a b", "it's", '$(touch oops) "x"; `ls` #', "-rf", "a/b", "two\nlines", "ümläut", "--all", "*"]
FAILED = [*ODD, *(f"k{number}" for number in range(38))]


@pytest_asyncio.fixture(loop_scope="session")
async def service(tmp_path: Path) -> AsyncGenerator[Stage]:
    """47 dead letters, and a task that waits."""
    app = Rota(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    async with staged(app, works=False) as stage:
        store = await app.store()
        await store.put_types([TaskType(name="mail", max_retries=0)])
        await store.schedule([NewTask(task_type="mail", key=key) for key in FAILED])
        request = ClaimRequest(wants=[("mail", len(FAILED))], instance="i", claim_id="c", lease_ms=60_000)
        await store.settle(
            [
                Settlement(task_type="mail", key=task.key, token=task.token, transition=Transition.FAIL, reason="error")
                for task in (await store.claim(request)).tasks
            ]
        )
        await store.schedule([NewTask(task_type="mail", key="waits")])
        yield stage


async def in_state(service: Stage, status: TaskStatus) -> set[str]:
    store = await service.app.store()
    return {task.key for task in (await store.find(TaskQuery(task_type="mail", status=status, limit=MAX_PAGE))).items}


async def confirmation(service: Stage, transition: Transition, keys: Sequence[str] = (), **fields: str) -> str:
    """The page that asks before the ticked tasks are changed."""
    ticked = [written(Identity("mail", key)) for key in keys]
    async with service.client(Role.OPERATOR, follow_redirects=True) as client:
        form = {"event": transition.value, "task": ticked, "back": "/tasks", **fields}
        return (await client.post(service.url + "/act/bulk", data=form)).text


def shown_in(page: str) -> str:
    (command,) = re.findall(r'<div class="exact"><code>(.*?)</code>', page, re.DOTALL)
    return html.unescape(command)


async def run(command: str, folder: Path) -> str:
    """What somebody pastes into a shell."""
    environment = {
        **os.environ,
        "ROTA_STORE": f"sqlite:///{folder}/rota.db",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", command, cwd=folder, env=environment, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(shell.communicate(), 4 * PATIENCE)
    assert shell.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.parametrize("ticked", [FAILED[:2], ODD, FAILED], ids=["two", "odd", "all"])
async def test_the_command_that_is_shown_changes_the_ticked_tasks_and_no_others(
    service: Stage, tmp_path: Path, ticked: list[str]
) -> None:
    command = shown_in(await confirmation(service, Transition.PURGE, ticked))
    assert "--status" not in command
    said = await run(command, tmp_path)
    assert said == f"{len(ticked)} tasks purged.\n"
    assert await in_state(service, TaskStatus.FAILED) == set(FAILED) - set(ticked)
    assert await in_state(service, TaskStatus.PENDING) == {"waits"}
    assert not (tmp_path / "oops").exists()


async def test_more_than_a_page_of_tasks_can_be_named(service: Stage, tmp_path: Path) -> None:
    """As for the dead letters of one reason, which no filter of the command line knows."""
    store = await service.app.store()
    keys = [f"many {number}" for number in range(MAX_PAGE + 1)]
    for start in range(0, len(keys), 100):
        await store.schedule([NewTask(task_type="mail", key=key) for key in keys[start : start + 100]])
    command = actions.named_command(Transition.CANCEL, [Identity("mail", key) for key in keys])
    assert await run(command, tmp_path) == "1,001 tasks cancelled.\n"
    assert await in_state(service, TaskStatus.PENDING) == {"waits"}


async def test_all_that_match_is_the_filter(service: Stage, tmp_path: Path) -> None:
    page = await confirmation(service, Transition.REDRIVE, scope="all", type="mail", search="k1")
    await run(shown_in(page), tmp_path)
    assert await in_state(service, TaskStatus.PENDING) == {"waits", *(key for key in FAILED if key.startswith("k1"))}


async def test_the_dead_letters_of_one_reason_are_named(service: Stage, tmp_path: Path) -> None:
    page = await confirmation(service, Transition.REDRIVE, scope="all", status="failed", reason="error")
    await run(shown_in(page), tmp_path)
    assert await in_state(service, TaskStatus.PENDING) == {"waits", *FAILED}


async def test_what_cannot_apply_to_any_ticked_task_is_not_asked_about(service: Stage) -> None:
    assert "None of the selected tasks can be paused in their current state." in await confirmation(
        service, Transition.PAUSE, FAILED[:2]
    )
    assert "1 task will be skipped" in await confirmation(service, Transition.PURGE, ["k1", "waits"])


async def test_what_cannot_be_undone_looks_different(service: Stage) -> None:
    purge, redrive = [
        await confirmation(service, transition, ["k1"]) for transition in (Transition.PURGE, Transition.REDRIVE)
    ]
    assert 'class="final"' in purge
    assert "This cannot be undone" in purge
    assert 'class="final"' not in redrive


async def offered(page: Page) -> list[str]:
    buttons = page.locator("#bulk button[name=event]:visible")
    return [text.strip() for text in await buttons.all_inner_texts()]


async def opened(seen: Watched, url: str) -> Page:
    page = await seen.open()
    await page.goto(url)
    await settled(page)
    return page


async def test_a_browser_shows_the_same_command(chromium: Browser, service: Stage, tmp_path: Path) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await opened(seen, service.url + "/tasks?status=failed")
        for key in ("a b", "it's"):
            await page.get_by_label(f"Select {key}").check()
        await page.locator("#bulk").get_by_role("button", name="Purge").click()
        await expect(page.locator("#confirm-words")).to_have_text("Purge 2 tasks?")
        command = await page.locator("#confirm-note").text_content()
    assert command is not None
    await run(command, tmp_path)
    assert await in_state(service, TaskStatus.FAILED) == set(FAILED) - {"a b", "it's"}


async def test_a_browser_offers_what_can_apply_and_marks_what_is_final(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await opened(seen, service.url + "/tasks?status=failed")
        assert await offered(page) == ["Redrive", "Purge"]
        page = await opened(seen, service.url + "/tasks?type=mail")
        assert len(await offered(page)) == 6
        await page.get_by_label("Select a b").check()
        assert await offered(page) == ["Redrive", "Purge"]
        for name, look in (("Purge", "final"), ("Redrive", "primary")):
            await page.locator("#bulk").get_by_role("button", name=name).click()
            await expect(page.locator("#confirm-yes")).to_have_class(look)
            await page.get_by_role("button", name="Back").click()
        await page.get_by_label("Select waits").check()
        assert await offered(page) == ["Pause", "Run now", "Redrive", "Cancel", "Purge"]
        await page.get_by_label("all matching").check()
        assert len(await offered(page)) == 6
