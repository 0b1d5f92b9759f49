"""When something is away, behind a proxy, or asked for in a way that it cannot be: pages say so and come back."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.dashboard.conftest import a_context, another_page, hide, settled, signed_in
from tests.dashboard.stage import Stage, a_kept_port, staged

from rota import Rota
from rota.access import Role
from rota.core.task_type import RateLimit
from rota.errors import StoreUnavailable

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _app(url: str) -> Rota:
    app = Rota(url)

    @app.task
    async def agent(payload: object) -> object:
        return payload

    return app


@pytest_asyncio.fixture(loop_scope="session")
async def prefixed(tmp_path: Path) -> AsyncGenerator[Stage]:
    """A service that lives below /rota."""
    app = _app(f"sqlite:///{tmp_path}/rota.db?synchronous=OFF")
    async with staged(app, base_path="/rota", works=False) as stage:
        await app.schedule("agent", key="a/b")
        yield stage


async def test_every_link_stays_below_the_base_path(prefixed: Stage) -> None:
    async with prefixed.client(follow_redirects=True) as client:
        await client.get(prefixed.login())
        for path in (
            "/",
            "/tasks",
            "/tasks/agent/a%2Fb",
            "/schedules",
            "/schedules/new",
            "/tokens",
            "/help",
            "/users?user=u",
        ):
            answer = await client.get(prefixed.url + path)
            assert answer.status_code == 200, path
            places = re.findall(
                r'(?:href|src|action|data-bulk|data-preview|data-live-from)="([^"#][^"]*)"', answer.text
            )
            assert [place for place in places if not place.startswith("/rota")] == [], path


async def test_acting_below_the_base_path_leads_back(chromium: Browser, prefixed: Stage) -> None:
    async with signed_in(chromium, prefixed, Role.OPERATOR) as seen:
        page = await seen.open()
        await page.goto(prefixed.url + "/tasks/agent/a%2Fb")
        await settled(page)
        async with another_page(page):
            await page.get_by_role("button", name="Pause").click()
        await expect(page.locator(".flash")).to_have_text("agent/a/b paused.")
        assert page.url == prefixed.url + "/tasks/agent/a%2Fb"


async def test_a_store_that_is_away_is_said_and_comes_back(
    chromium: Browser, prefixed: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await prefixed.app.store()

    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailable("The store did not answer within 5 s.")

    context = await a_context(chromium)  # its console says 503, as it should
    page = await context.new_page()
    await page.goto(prefixed.login())
    await page.goto(prefixed.url + "/tasks")
    await settled(page)
    with monkeypatch.context() as patched:
        patched.setattr(store, "find", away)
        patched.setattr(store, "counts", away)
        await expect(page.locator("#trouble")).to_contain_text("The store is unavailable")
        answer = await page.request.get(prefixed.url + "/tasks", headers={"Accept": "text/html"})
        assert answer.status == 503
        assert "The store is unavailable" in await answer.text()
    await expect(page.locator("#trouble")).to_be_hidden()
    await context.close()


async def test_files_are_kept_for_ever_and_known_again(prefixed: Stage) -> None:
    async with prefixed.client() as client:
        text = (await client.get(prefixed.url + "/login")).text
        (sheet,) = re.findall(r'href="([^"]*rota\.css)"', text)
        url = prefixed.url.removesuffix("/rota") + sheet
        first = await client.get(url)
        assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
        again = await client.get(url, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        old = await client.get(re.sub(r"/static/\w+/", "/static/0123456789abcdef/", url))
        assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")
        assert (await client.get(url.replace("rota.css", "site.py"))).status_code == 404


async def test_only_the_regions_asked_for_are_rendered(prefixed: Stage) -> None:
    async with prefixed.client(Role.VIEWER) as client:
        answer = await client.get(prefixed.url + "/tasks", headers={"X-Rota-Fragment": "rows,states,nothing"})
        regions = answer.json()["regions"]
        assert sorted(regions) == ["rows", "states"]
        assert "<html" not in regions["rows"]
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/tasks?status=sleeping", 422),
        ("/tasks?cursor=nonsense", 422),
        ("/?minutes=7", 422),
        ("/tasks/agent/nobody", 404),
        ("/schedules/agent/nobody", 404),
        ("/runs/nobody", 422),
        ("/runs/999999999", 404),
        ("/types/nobody", 404),
        ("/nowhere", 404),
    ],
)
async def test_what_cannot_be_shown_is_a_page_with_a_sentence(prefixed: Stage, path: str, status: int) -> None:
    async with prefixed.client(Role.ADMIN, headers={"Accept": "text/html"}) as client:
        answer = await client.get(prefixed.url + path)
    assert answer.status_code == status
    assert 'class="say"' in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/act/task", {"event": "explode", "task": "agent/a"}),
        ("/act/task", {"event": "pause", "task": "agent"}),
        ("/act/bulk", {"event": "pause", "scope": "all", "expected": "many", "type": "agent"}),
        ("/act/type", {"verb": "explode", "type": "agent"}),
        ("/act/type/limits", {"type": "agent", "concurrency": "-1"}),
        ("/act/type/limits", {"type": "agent", "rate": "fast"}),
        ("/act/type/limits", {"type": "agent", "start_rate": "2", "start_burst": "-1"}),
        ("/act/schedule/set", {"type": "agent", "id": "x", "kind": "cron", "value": "61 * * * *"}),
        ("/act/schedule/set", {"type": "agent", "id": "x", "kind": "cron", "value": "* * * * *", "payload": "{"}),
        ("/act/schedule/set", {"type": "agent", "id": "x", "kind": "eval", "value": "1"}),
        ("/act/token/add", {"name": "", "role": "admin"}),
        ("/act/token/add", {"name": "x", "role": "emperor"}),
        ("/act/user/erase", {"user": "u1", "confirmation": "u2"}),
    ],
)
async def test_a_form_that_makes_no_sense_is_refused_with_a_sentence(
    prefixed: Stage, path: str, form: dict[str, str]
) -> None:
    async with prefixed.client(Role.ADMIN, headers={"Accept": "text/html"}) as client:
        answer = await client.post(prefixed.url + path, data=form)
    assert answer.status_code == 422
    assert 'class="say"' in answer.text


async def test_limits_are_set_and_taken_back(prefixed: Stage) -> None:
    async def overrides() -> object:
        (record,) = [each for each in await prefixed.app.types() if each.task_type.name == "agent"]
        limits = record.overrides
        return limits.concurrency, limits.max_pending, limits.rate_limit, limits.start_limit

    async with prefixed.client(Role.OPERATOR) as client:
        form = {"type": "agent", "concurrency": "3", "max_pending": "100", "rate": "0.5", "burst": "2"}
        form |= {"start_rate": "4"}
        assert (await client.post(prefixed.url + "/act/type/limits", data=form)).status_code == 303
        assert await overrides() == (3, 100, RateLimit(rate=0.5, burst=2), RateLimit(rate=4.0))
        page = await client.get(prefixed.url + "/types/agent")
        assert 'name="start_rate" value="4.0"' in page.text
        assert (await client.post(prefixed.url + "/act/type/limits", data={"type": "agent"})).status_code == 303
        assert await overrides() == (None, None, None, None)


async def test_a_users_data_is_handed_out_line_by_line(prefixed: Stage) -> None:
    await prefixed.app.schedule("agent", {"n": 1}, user_id="u7")
    async with prefixed.client(Role.ADMIN) as client:
        answer = await client.get(prefixed.url + "/users/u7/export")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert '"user_id":"u7"' in answer.text


# --- a session that ends, a service that starts again, two tabs -------------------------------------------------------


async def test_whoever_signs_in_again_comes_back_to_the_page(chromium: Browser, prefixed: Stage) -> None:
    """Their session has ended between looking and pressing a button: nothing is done, and nothing is lost."""
    context = await a_context(chromium)
    page = await context.new_page()
    await page.goto(prefixed.login(Role.OPERATOR))
    await page.goto(prefixed.url + "/tasks/agent/a%2Fb?from=mail")
    await settled(page)
    await hide(page, hidden=True)  # else the page itself might find out first, and lead to the door before the button
    await context.clear_cookies(name="rota_session")
    async with another_page(page):
        await page.get_by_role("button", name="Pause").click()
    await page.get_by_label("Token").fill(prefixed.secrets[Role.OPERATOR])
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(prefixed.url + "/tasks/agent/a%2Fb?from=mail")
    await expect(page.locator("[data-live=state] [aria-current]")).to_have_text("pending")
    await context.close()


async def test_a_page_that_is_left_open_asks_to_sign_in_and_is_come_back_to(chromium: Browser, prefixed: Stage) -> None:
    context = await a_context(chromium)
    page = await context.new_page()
    await page.goto(prefixed.login(Role.OPERATOR))
    await page.goto(prefixed.url + "/tasks?type=agent")
    await settled(page)
    await context.clear_cookies(name="rota_session")
    await prefixed.app.schedule("agent", key="news")  # what makes the page look again
    await page.get_by_label("Token").fill(prefixed.secrets[Role.OPERATOR])
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(prefixed.url + "/tasks?type=agent")
    await context.close()


async def test_an_open_page_outlives_a_restart_of_the_service(chromium: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db?synchronous=OFF"
    context = await a_context(chromium)  # its console says that the service was away, as it should
    page = await context.new_page()
    with a_kept_port() as port:
        async with staged(_app(url), works=False, port=port) as stage:
            await page.goto(stage.login(Role.OPERATOR))
            await page.goto(stage.url + "/tasks")
            await settled(page)
        await expect(page.locator("#trouble")).to_contain_text("cannot be reached")
        async with staged(_app(url), works=False, port=port) as stage:
            await stage.app.schedule("agent", key="after-the-restart")
            await expect(page.locator("tr[data-row]")).to_contain_text("after-the-restart")
            await expect(page.locator("#trouble")).to_be_hidden()
            await expect(page.locator("#live")).to_have_text("live")
    await context.close()


async def test_two_tabs_see_what_one_of_them_does(chromium: Browser, prefixed: Stage) -> None:
    async with signed_in(chromium, prefixed, Role.OPERATOR) as seen:
        one, other = await seen.open(), await seen.open()
        for page in (one, other):
            await page.goto(prefixed.url + "/tasks/agent/a%2Fb")
            await settled(page)
        async with another_page(one):
            await one.get_by_role("button", name="Pause").click()
        await expect(other.get_by_role("button", name="Resume")).to_be_visible()
        await one.get_by_role("button", name="Cancel").click()
        await one.locator("#confirm").get_by_role("button", name="Cancel").click()
        await expect(other.get_by_role("button", name="Purge")).to_be_visible()


async def test_what_is_hidden_is_nowhere_on_the_page_and_stays_as_it_is(prefixed: Stage) -> None:
    secret = {"word": "of-the-heart"}
    await prefixed.app.schedules.upsert("quiet", type="agent", every="1h", payload=secret)
    async with prefixed.client(Role.OPERATOR, cookies={"rota_payloads": "hide"}) as client:
        for path in ("/schedules/agent/quiet", "/tasks/agent/quiet", "/tasks", "/audit"):
            assert "of-the-heart" not in (await client.get(prefixed.url + path)).text, path
        form = {"task": "agent/quiet", "kind": "every", "value": "2h", "payload_hidden": "true"}
        assert (await client.post(prefixed.url + "/act/schedule/set", data=form)).status_code == 303
        assert "of-the-heart" not in (await client.get(prefixed.url + "/audit")).text
    info = await prefixed.app.schedules.get("quiet", "agent")
    assert info is not None
    assert (info.value, info.payload) == ("7200000", secret)


async def test_the_answer_to_a_form_leads_back_to_a_page(prefixed: Stage) -> None:
    """Whoever changes the colours there is not sent to an address that takes forms only."""
    async with prefixed.client(Role.ADMIN) as client:
        made = await client.post(prefixed.url + "/act/token/add", data={"name": "x", "role": "viewer"})
        (back,) = set(re.findall(r'name="back" value="([^"]*)"', made.text)) - {"/rota/tokens"}
        assert (await client.get(prefixed.url.removesuffix("/rota") + back)).status_code == 200


async def test_a_wrong_token_forgets_nothing_of_where_one_was_going(chromium: Browser, prefixed: Stage) -> None:
    context = await a_context(chromium)
    page = await context.new_page()
    await page.goto(prefixed.url + "/tasks?type=agent")
    for token, shown in (("rota_mistyped", 1), ("rota_again", 1), (prefixed.secrets[Role.VIEWER], 0)):
        await page.get_by_label("Token").fill(token)
        async with page.expect_navigation():
            await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("This token is not valid.")).to_have_count(shown)
    assert page.url == prefixed.url + "/tasks?type=agent"
    await context.close()


async def test_a_link_with_a_token_leads_on_as_well(prefixed: Stage) -> None:
    async with prefixed.client() as client:
        wrong = await client.get(f"{prefixed.url}/login?token=no&next=/rota/runs")
        assert (wrong.status_code, 'name="next" value="/rota/runs"' in wrong.text) == (401, True)
        right = await client.get(prefixed.login(Role.VIEWER) + "&next=/rota/runs")
        assert right.headers["location"] == "/rota/runs"
        again = await client.get(f"{prefixed.url}/login?next=/rota/tasks")
        assert again.headers["location"] == "/rota/tasks"
