"""What people do at the dashboard, done in a real browser against a real service with a real worker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.dashboard.conftest import Watched, a_context, another_page, hide, settled, signed_in
from tests.dashboard.stage import Stage, staged

from rota import Rota, TaskStatus, TaskType
from rota.access import AuditLog, Role
from rota.access.audit import AuditQuery
from rota.core.task import Identity, NewTask, Settlement, Transition
from rota.stores.base import ClaimRequest, TaskQuery
from rota.testing.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEAD = 500


class Gate:
    """Holds the handler back until the test has seen the task wait."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()


@pytest_asyncio.fixture(loop_scope="session")
async def gate() -> Gate:
    return Gate()


@pytest_asyncio.fixture(loop_scope="session")
async def service(tmp_path: Path, gate: Gate) -> AsyncGenerator[Stage]:
    """A service for each test: these act, and what one leaves behind must not be what another one counts."""
    app = Rota(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF", max_concurrent=8)

    @app.task(description="Waits at the gate")
    async def slow(payload: object) -> object:
        await gate.opened.wait()
        return {"done": payload}

    @app.task
    async def agent(payload: object) -> object:
        return payload

    @app.task(max_retries=0, retry={"base": "1h", "factor": 1.0, "max": "1h"})
    async def flaky(payload: object) -> None:
        raise RuntimeError("It always fails.")

    @app.task
    async def parked(payload: object) -> None: ...

    async with staged(app) as stage:
        yield stage


async def _open(seen: Watched, url: str) -> Page:
    page = await seen.open()
    await page.goto(url)
    await settled(page)
    return page


async def _ask_for_all_matching(page: Page, button: str) -> None:
    await page.get_by_label("all matching").check()
    await page.locator("#bulk").get_by_role("button", name=button).click()


def _never_reloaded(page: Page) -> Callable[[], None]:
    """A check that the page has not been loaded again since now."""
    loads: list[str] = []
    page.on("load", lambda loaded: loads.append(loaded.url))
    return lambda: _assert_empty(loads)


def _assert_empty(loads: list[str]) -> None:
    assert loads == []


async def test_signing_in_by_the_form_and_out_again(chromium: Browser, service: Stage) -> None:
    context = await a_context(chromium)
    page = await context.new_page()
    await page.goto(service.url + "/tasks")
    assert page.url.split("?")[0] == service.url + "/login"
    await page.get_by_label("Token").fill("rota_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    await page.get_by_label("Token").fill(service.secrets[Role.VIEWER])
    async with another_page(page):
        await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    (cookie,) = [each for each in await context.cookies() if each.get("name") == "rota_session"]
    assert cookie.get("httpOnly")
    assert cookie.get("sameSite") == "Strict"
    async with another_page(page):
        await page.get_by_role("button", name="Sign out").click()
    await page.goto(service.url + "/")
    assert page.url.split("?")[0] == service.url + "/login"
    await context.close()


async def test_a_link_signs_in_and_leaves_no_token_in_the_address(chromium: Browser, service: Stage) -> None:
    context = await a_context(chromium)
    page = await context.new_page()
    await page.goto(service.login(Role.ADMIN))
    assert page.url == service.url + "/"
    await context.close()


async def test_a_task_goes_from_pending_to_completed_before_ones_eyes(
    chromium: Browser, service: Stage, gate: Gate
) -> None:
    await service.app.freeze("slow")
    await service.app.schedule("slow", {"n": 1}, key="watched")
    async with signed_in(chromium, service) as seen:
        page = await _open(seen, service.url + "/tasks?type=slow")
        check = _never_reloaded(page)
        row = page.locator("tr[data-row]").filter(has_text="watched")
        await expect(row.locator(".pill")).to_have_text("pending")
        await service.app.thaw("slow")
        await expect(row.locator(".pill")).to_have_text("running")
        gate.opened.set()
        await expect(row.locator(".pill")).to_have_text("completed")
        check()


async def test_pausing_and_resuming_a_schedule(chromium: Browser, service: Stage) -> None:
    await service.app.schedules.upsert("brief", type="agent", cron="0 9 * * 1-5", timezone="Europe/Berlin")
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/schedules/agent/brief")
        await expect(page.locator("[data-live=state]")).to_contain_text("at 09:00, Monday to Friday")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("[data-live=state] .pill")).to_have_text("paused")
        found = await service.app.schedules.get("brief", "agent")
        assert found is not None
        assert found.status is TaskStatus.PAUSED
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator("[data-live=state] .pill")).to_have_text("pending")
        await page.close()
    entries, _ = await AuditLog(await service.app.database()).page(AuditQuery(target="agent/brief"))
    assert [entry.action for entry in entries if entry.via == "dashboard"] == ["task.resume", "task.pause"]


async def test_redriving_five_hundred_dead_letters_after_being_asked(chromium: Browser, service: Stage) -> None:
    store = await service.app.store()
    for start in range(0, DEAD, 100):
        await store.schedule([NewTask(task_type="flaky", key=f"k{n:03}") for n in range(start, start + 100)])

    async def all_failed() -> bool:
        return (await store.counts())["flaky"].failed == DEAD

    await until(all_failed)
    await service.app.freeze("flaky")
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/dead-letters?type=flaky")
        await _ask_for_all_matching(page, "Redrive")
        await expect(page.locator("#confirm-words")).to_have_text(f"Redrive {DEAD} tasks?")
        await page.get_by_role("button", name="Back").click()
        assert (await store.counts())["flaky"].failed == DEAD
        await page.locator("#bulk").get_by_role("button", name="Redrive").click()
        await expect(page.locator("#confirm-words")).to_have_text(f"Redrive {DEAD} tasks?")
        await page.locator("#confirm").get_by_role("button", name="Redrive").click()
        await expect(page.locator(".flash")).to_have_text(f"{DEAD} tasks redriven.")
        await expect(page.locator("[data-live=rows]")).to_contain_text("No dead letters")
    counts = (await store.counts())["flaky"]
    assert (counts.failed, counts.pending) == (0, DEAD)


async def test_a_confirmation_means_the_number_that_was_shown(service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", key="one")
    async with service.client(Role.OPERATOR) as client:
        form = {
            "event": "pause",
            "scope": "all",
            "type": "parked",
            "status": "pending",
            "expected": "7",
            "back": "/tasks",
        }
        answer = await client.post(service.url + "/act/bulk", data=form)
    assert answer.status_code == 409
    task = await service.app.tasks.get("parked", "one")
    assert task is not None
    assert task.status is TaskStatus.PENDING


async def test_ticked_rows_are_the_ones_that_change(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    for key in ("t1", "t2", "t3", "a/b c%\n:ü"):
        await service.app.schedule("parked", key=key)
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/tasks?type=parked&status=pending")
        await page.get_by_label("Select t2").check()
        await page.get_by_label("Select a/b c%").check()
        await expect(page.locator("[data-chosen]")).to_have_text("2 selected")
        await page.locator("#bulk").get_by_role("button", name="Cancel").click()
        await expect(page.locator("#confirm-words")).to_have_text("Cancel 2 tasks?")
        await page.locator("#confirm").get_by_role("button", name="Cancel").click()
        await expect(page.locator(".flash")).to_have_text("2 tasks cancelled.")
    store = await service.app.store()
    found = await store.find(TaskQuery(task_type="parked", status=TaskStatus.CANCELLED))
    assert {task.key for task in found.items} == {"t2", "a/b c%\n:ü"}


async def test_filters_survive_a_reload_and_the_back_button_works(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", key="filtered")
    async with signed_in(chromium, service) as seen:
        page = await _open(seen, service.url + "/tasks")
        filters = page.locator("form.filters")
        await filters.get_by_label("Type").select_option("parked")
        await filters.get_by_label("Exclude").select_option("completed")
        await filters.get_by_label("Search").fill("t")
        await filters.get_by_role("button", name="Filter").click()
        await page.wait_for_url("**/tasks?*type=parked*")
        await settled(page)
        await page.reload()
        await settled(page)
        assert await filters.get_by_label("Type").input_value() == "parked"
        assert await filters.get_by_label("Exclude").input_value() == "completed"
        assert await filters.get_by_label("Search").input_value() == "t"
        assert await page.locator("tr[data-row]").count() > 0
        await page.locator("tr[data-row] a[data-open]").first.click()
        await page.wait_for_url("**/tasks/parked/*")
        await page.go_back()
        await page.wait_for_url("**/tasks?*search=t*")
        assert await filters.get_by_label("Type").input_value() == "parked"


async def test_an_update_keeps_ticks_focus_and_open_menus(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    for key in ("keep1", "keep2"):
        await service.app.schedule("parked", key=key)
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/tasks?type=parked&search=keep")
        await page.get_by_label("Select keep1").check()
        await page.get_by_label("Select keep2").focus()
        row = page.locator("tr[data-row]").filter(has_text="keep2")
        await page.evaluate("() => { document.querySelector('tr[data-key$=keep2] details').open = true; }")
        await service.app.schedule("parked", key="keep3")
        await expect(page.locator("tr[data-row]").filter(has_text="keep3")).to_be_visible()
        assert await page.get_by_label("Select keep1").is_checked()
        assert await page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Select keep2"
        await expect(row.get_by_role("button", name="Pause")).to_be_visible()


async def test_a_hidden_tab_is_left_alone_and_catches_up(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    async with signed_in(chromium, service) as seen:
        page = await _open(seen, service.url + "/tasks?type=parked&search=hidden")
        looked_at = await _open(seen, service.url + "/tasks?type=parked&search=hidden")
        await hide(page, hidden=True)
        await expect(page.locator("#live")).to_have_text("paused")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await service.app.schedule("parked", key="hidden-one")
        await service.app.tasks.pause("parked", "hidden-one")
        row = looked_at.locator("tr[data-row]").filter(has_text="hidden-one")
        await expect(row.locator(".pill")).to_have_text("paused")  # whoever follows has heard of both by now
        assert asked == []
        await hide(page, hidden=False)
        await expect(page.locator("tr[data-row]").filter(has_text="hidden-one")).to_be_visible()


async def test_keys(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", key="keyed")
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/")
        # The second key counts for a moment only, and a busy machine may need longer: here that moment does not end.
        await page.evaluate("() => { window.setTimeout = () => 0; }")
        await page.keyboard.press("g")
        await page.keyboard.press("t")
        await page.wait_for_url("**/tasks")
        await settled(page)
        await page.keyboard.press("/")
        await page.keyboard.type("keyed")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/tasks?search=keyed")
        await settled(page)
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        await expect(page.locator("[data-chosen]")).to_have_text("1 selected")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/tasks/parked/keyed")
        await settled(page)
        await page.keyboard.press("?")
        await page.wait_for_url("**/help")


async def test_colours_zone_and_payloads_are_remembered(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", {"matter": "of the heart"}, key="private")
    async with signed_in(chromium, service) as seen:
        page = await _open(seen, service.url + "/tasks/parked/private")
        await expect(page.get_by_label("Payload", exact=True)).to_contain_text("of the heart")
        light = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        async with another_page(page):
            await page.get_by_label("Theme").select_option("dark")
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        dark = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert dark != light
        async with another_page(page):
            await page.get_by_label("Payloads").select_option("hide")
        await expect(page.locator("main")).not_to_contain_text("of the heart")
        times = page.locator("[data-live=facts] time").first
        assert "CE" in str(await times.get_attribute("title"))
        async with another_page(page):
            await page.get_by_label("Timezone").select_option("utc")
        await expect(times).to_have_attribute("title", re.compile("UTC$"))
        await page.goto(service.url + "/")
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_a_viewer_is_offered_nothing_and_refused_everything(service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", key="viewed")
    pages = ("/", "/tasks?search=viewed", "/tasks/parked/viewed", "/schedules", "/dead-letters", "/types/parked")
    async with service.client(Role.VIEWER) as client:
        for path in pages:
            text = (await client.get(service.url + path)).text
            assert set(re.findall(r'action="(/act[^"]*)"', text)) == {"/act/preferences"}, path
        form = {"event": "cancel", "task": "parked/viewed", "back": "/"}
        assert (await client.post(service.url + "/act/task", data=form)).status_code == 403
        assert (await client.get(service.url + "/tokens")).status_code == 403
    store = await service.app.store()
    (task,) = await store.get([Identity("parked", "viewed")])
    assert task is not None
    assert task.status is TaskStatus.PENDING


async def test_another_site_cannot_press_a_button(service: Stage) -> None:
    async with service.client() as client:
        await client.get(service.login(Role.ADMIN), follow_redirects=True)
        answer = await client.post(
            service.url + "/act/type",
            data={"verb": "disable", "type": "agent"},
            headers={"Origin": "http://evil.example"},
        )
    assert answer.status_code == 403


async def test_everything_works_without_a_script(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    for key in ("plain1", "plain2"):
        await service.app.schedule("parked", key=key)
    async with signed_in(chromium, service, Role.OPERATOR, scripts=False) as seen:
        page = await seen.open()
        await page.goto(service.url + "/tasks?search=plain")
        await page.get_by_label("all matching").check()
        await page.locator("#bulk").get_by_role("button", name="Pause").click()
        await expect(page.locator(".say")).to_have_text("Pause 2 tasks?")
        await page.locator("main").get_by_role("button", name="Pause").click()
        await expect(page.locator(".flash")).to_have_text("2 tasks paused.")
        await page.goto(service.url + "/tasks/parked/plain1")
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator(".flash")).to_have_text("parked/plain1 resumed.")
        await page.reload()
        await expect(page.locator(".flash")).to_have_count(0)


async def test_a_schedule_is_previewed_and_made(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/schedules/new")
        await page.get_by_label("Task type").select_option("agent")
        await page.get_by_label("Id", exact=True).fill("tea time")
        await page.get_by_label("Expression, duration or time").fill("0 17 * * 1-5")
        await page.locator("main").get_by_label("Time zone").fill("Asia/Shanghai")
        await expect(page.locator("[data-preview-out] .say")).to_have_text("at 17:00, Monday to Friday")
        await expect(page.locator("[data-preview-out] li")).to_have_count(6)
        await page.get_by_label("Payload (JSON)").fill('{"leaf": "green"}')
        await page.get_by_role("button", name="Create schedule").click()
        await page.wait_for_url("**/schedules/agent/tea%20time")
    info = await service.app.schedules.get("tea time", "agent")
    assert info is not None
    assert (info.value, info.timezone, info.payload) == ("0 17 * * 1-5", "Asia/Shanghai", {"leaf": "green"})


async def test_a_bad_expression_is_explained_where_it_is_typed(chromium: Browser, service: Stage) -> None:
    context = await a_context(chromium)  # a refused preview is an error on the console, as it should be
    page = await context.new_page()
    await page.goto(service.login(Role.OPERATOR))
    await page.goto(service.url + "/schedules/new")
    await page.get_by_label("Expression, duration or time").fill("61 * * * *")
    await expect(page.locator("[data-preview-out] .note.bad")).to_be_visible()
    await context.close()


async def test_a_token_is_shown_once_and_can_be_revoked(chromium: Browser, service: Stage) -> None:
    async with signed_in(chromium, service) as seen:
        page = await _open(seen, service.url + "/tokens")
        await page.get_by_label("Name").fill("deploys")
        await page.get_by_role("button", name="Create token").click()
        secret = await page.locator(".made code").first.text_content()
        assert secret is not None
        async with service.client(headers={"Authorization": f"Bearer {secret}"}) as client:
            assert (await client.get(service.url + "/tasks")).status_code == 200
            await page.goto(service.url + "/tokens")
            assert secret not in await page.content()
            await page.get_by_label("Actions for deploys").click()
            await page.get_by_role("button", name="Revoke").click()
            await page.locator("#confirm").get_by_role("button", name="Revoke").click()
            await expect(page.locator(".flash")).to_have_text("The token deploys is revoked.")
            assert (await client.get(service.url + "/tasks")).status_code == 401


async def test_erasing_a_user_needs_the_id_typed(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", key="of-u9", user_id=None)
    store = await service.app.store()
    await store.schedule([NewTask(task_type="parked", key="u9-task", user_id="u9")])
    async with signed_in(chromium, service) as seen:
        page = await _open(seen, service.url + "/users?user=u9")
        await expect(page.locator("[data-live=tasks]")).to_contain_text("u9-task")
        await page.get_by_label("Type the user ID to confirm").fill("u9")
        await page.get_by_role("button", name="Erase").click()
        await expect(page.locator(".flash")).to_contain_text("are erased")
    assert await store.get([Identity("parked", "u9-task")]) == [None]
    async with service.client(Role.ADMIN) as client:
        wrong = await client.post(service.url + "/act/user/erase", data={"user": "u1", "confirmation": "u2"})
    assert wrong.status_code == 422


async def test_every_button_shows_its_command_and_its_curl(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    await service.app.schedule("parked", key="shown")
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/tasks/parked/shown")
        for label, command in (("Pause", "rota task pause parked shown"), ("Cancel", "rota task cancel parked shown")):
            assert await page.get_by_role("button", name=label).get_attribute("title") == command
        await page.locator("[data-live=state] .commands summary").click()
        copy = page.locator("[data-live=state] .same").first.get_by_role("button", name="Copy as curl")
        curl = str(await copy.get_attribute("data-copy"))
        assert curl.startswith("curl -X POST")
        assert curl.endswith(f"{service.url}/api/tasks/parked/shown/run-now")
        assert service.secrets[Role.OPERATOR] not in await page.content()


async def test_running_all_that_match_at_once(chromium: Browser, service: Stage) -> None:
    await service.app.freeze("parked")
    for key in ("due1", "due2"):
        await service.app.schedule("parked", key=key, delay="1h")
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/tasks?type=parked")
        await _ask_for_all_matching(page, "Run now")
        await expect(page.locator("#confirm-words")).to_have_text("Run now 2 tasks?")
        await page.locator("#confirm").get_by_role("button", name="Run now").click()
        await expect(page.locator(".flash")).to_have_text("2 tasks made due now.")


async def test_dead_letters_of_one_reason_are_redriven_and_no_others(chromium: Browser, service: Stage) -> None:
    store = await service.app.store()
    await store.put_types([TaskType(name="elsewhere", max_retries=0)])  # the worker here has no handler for it
    await store.schedule([NewTask(task_type="elsewhere", key=key) for key in ("bad", "late")])
    claimed = await store.claim(ClaimRequest(wants=[("elsewhere", 2)], instance="i", claim_id="c", lease_ms=60_000))
    await store.settle(
        [
            Settlement(
                task_type=task.task_type, key=task.key, token=task.token, transition=Transition.FAIL, reason=reason
            )
            for task, reason in zip(claimed.tasks, ("error", "timeout"), strict=True)
        ]
    )
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        page = await _open(seen, service.url + "/dead-letters?reason=timeout")
        await _ask_for_all_matching(page, "Redrive")
        await expect(page.locator(".say")).to_have_text("Redrive 1 task?")
        await page.locator("main").get_by_role("button", name="Redrive").click()
        await expect(page.locator(".flash")).to_have_text("1 task redriven.")
    counts = (await store.counts())["elsewhere"]
    assert (counts.failed, counts.pending) == (1, 1)
