"""Whatever is stored is shown as text: fifty hostile texts in every field, on every page, in a real browser."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.dashboard.conftest import a_context, another_page, settled, signed_in
from tests.dashboard.hostile import PAYLOADS
from tests.dashboard.minds import fill_minds, minds_app
from tests.dashboard.stage import Stage, filled

from rota import Rota, TaskType, TriggerMode
from rota.access import Principal, Role, Tokens
from rota.agents import Caller, agents_of
from rota.api.paths import quote_key
from rota.app.operator import Operator
from rota.core.task import Identity, NewTask, Renewal, Settlement, Transition
from rota.database.tables import alerts as alert_tables
from rota.stores.base import Beat, ClaimRequest, Store
from rota.triggers import Interval, encode_trigger

pytestmark = pytest.mark.asyncio(loop_scope="session")

SKELETON = """(html) => {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const foreign = "iframe, object, embed, base, style, img, math, marquee, video, audio, [style], [srcdoc]";
  const wrong = [...parsed.querySelectorAll(foreign)].map((element) => element.outerHTML);
  for (const element of parsed.querySelectorAll("*")) {
    if (element.tagName === "SCRIPT" && !element.src.startsWith(location.origin + "/static/")) wrong.push("script");
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on")) wrong.push(name);
      const leads = ["href", "src", "action", "formaction"].includes(name);
      if (leads && /^\\s*(javascript|data):/i.test(value)) wrong.push(value);
    }
  }
  return wrong;
}"""
"""What in a page is no part of ours."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hostile(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """Filled once for all tests here: they only look, so none of them can leave anything to another."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    async with filled(Rota(f"sqlite:///{folder}/rota.db?synchronous=OFF"), _fill) as stage:
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def minded(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    folder: Path = tmp_path_factory.mktemp("minded")
    app = minds_app(f"sqlite:///{folder}/rota.db?synchronous=OFF", folder / "groups")
    async with filled(app, lambda app: fill_minds(app, PAYLOADS)) as stage:
        yield stage


def _chunks(limit: int) -> Iterator[str]:
    """All texts, as many in one as fit."""
    chunk = ""
    for text in PAYLOADS:
        if len(chunk) + len(text) > limit:
            yield chunk
            chunk = ""
        chunk += text + " "
    yield chunk


async def _fill(app: Rota) -> None:
    store = await app.store()
    chunks = list(_chunks(1_800))
    described = [f"described_{place}" for place, _ in enumerate(_chunks(900))]
    await store.put_types(
        [
            TaskType(name=name, description=said, trigger_mode=TriggerMode.ONCE, max_retries=0)
            for name, said in zip(
                [*described, "failing", "waiting", "going", "repeating"], [*_chunks(900), "", "", "", ""], strict=True
            )
        ]
    )
    for place, text in enumerate(PAYLOADS):
        said = chunks[place % len(chunks)]
        payload = json.dumps({text: [text, {"all": list(PAYLOADS)}]})
        given = NewTask(task_type="failing", key=text, user_id=text, payload=payload)
        await store.schedule([given])
        await _settle(store, Transition.FAIL, text, said)
        trigger = encode_trigger(Interval(3_600_000, anchor_at=0))
        await store.schedule([NewTask(task_type="repeating", key=text, owner=text, payload=payload, trigger=trigger)])
        await store.schedule([NewTask(task_type="waiting", key=text, user_id=text, serial=text, payload=payload)])
        await store.schedule([NewTask(task_type="going", key=text, user_id=text, payload=payload)])
        await store.tick(Beat(instance=text, host=text, pid=place, types=("going",), started_at=1))
        await Tokens(await app.database()).add(text[:100], Role.VIEWER, created_by=text)
        await _alert(app, place, text)
    claimed = await store.claim(
        ClaimRequest(wants=[("going", 100)], instance=PAYLOADS[0], claim_id="c", lease_ms=3_600_000)
    )
    progress = [json.dumps({"all": chunks[place % len(chunks)]}) for place in range(len(claimed.tasks))]
    store.renew(
        [
            Renewal(task.task_type, task.key, task.token, said)
            for task, said in zip(claimed.tasks, progress, strict=True)
        ],
        3_600_000,
    )
    for text in PAYLOADS:
        operator = Operator(app, Principal(text, text, Role.OPERATOR, "api"))
        await operator.apply(Transition.PAUSE, Identity("waiting", text))
        await operator.apply(Transition.RESUME, Identity("waiting", text))


async def _settle(store: Store, event: Transition, key: str, said: str) -> None:
    claimed = await store.claim(ClaimRequest(wants=[("failing", 1)], instance=key, claim_id=key, lease_ms=60_000))
    (task,) = claimed.tasks
    settlement = Settlement(
        task_type="failing", key=key, token=task.token, transition=event, reason=key, error=said, result=said
    )
    await store.settle([settlement])


async def _alert(app: Rota, place: int, text: str) -> None:
    database = await app.database()
    entry = {"at": 1, "rule": f"{place} {text}", "subject": text, "state": "firing", "value": text, "summary": text}
    state = {"rule": entry["rule"], "subject": text, "state": "firing", "since_at": 1, "seen_at": 1, "value": text}
    await database.write(lambda connection: connection.execute(alert_tables.history.insert().values(**entry)))
    await database.write(lambda connection: connection.execute(alert_tables.states.insert().values(**state)))


LISTS = {
    "/": ("description",),
    "/tasks?type=failing": ("key", "user", "error"),
    "/tasks?type=going": ("key", "user"),
    "/runs": ("key", "reason", "error"),
    "/dead-letters": ("key", "user", "reason"),
    "/schedules": ("key", "owner"),
    "/instances": ("host", "instance"),
    "/alerts": ("rule", "subject", "summary", "the same in the history"),
    "/audit": ("actor", "target", "actor and target of the second action"),
    "/tokens": ("name", "maker"),
}
"""The lists, and the fields in which each of the texts is to be seen there."""
MINDED_LISTS = {
    "/memory": ("user",),
    f"/memory/{quote_key(PAYLOADS[0])}": ("text", "device", "agent", "watermark"),
    "/agents": ("output", "who ends it", "prompt", "script", "result", "held", "maker", "switch", "who threw it"),
}


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_shows_hostile_texts_as_text(chromium: Browser, hostile: Stage, path: str) -> None:
    await _all_are_seen(chromium, hostile, path, len(LISTS[path]))


@pytest.mark.parametrize("path", MINDED_LISTS)
async def test_memories_and_agents_are_shown_as_text(chromium: Browser, minded: Stage, path: str) -> None:
    await _all_are_seen(chromium, minded, path, len(MINDED_LISTS[path]))


async def _all_are_seen(chromium: Browser, stage: Stage, path: str, fields: int) -> None:
    """Every text is on the page, or on those that follow it, as often as there are fields for it."""
    async with signed_in(chromium, stage) as seen:
        page = await seen.open()
        await page.goto(stage.url + path)
        await settled(page)
        shown = ""
        while True:
            shown += str(await page.locator("main").text_content())
            # A long text has two lines, and is whole where the pointer rests.
            shown += " ".join(await page.locator("main .brief").evaluate_all("all => all.map(one => one.title)"))
            await _unharmed(page)
            assert await page.evaluate(SKELETON, await page.content()) == []
            further = page.locator("a[rel=next]")
            if not await further.count():
                break
            async with another_page(page):
                await further.first.click()
        await page.close()
    assert [text for text in PAYLOADS if shown.count(text) < fields] == []


async def test_the_pages_about_one_thing_show_hostile_texts_as_text(chromium: Browser, hostile: Stage) -> None:
    runs = [run.run_id for run in (await hostile.app.runs("failing", limit=50)).items]
    paths = [f"/tasks/failing/{quote_key(text)}" for text in PAYLOADS]
    paths += [f"/users?user={quote_key(text)}" for text in PAYLOADS]
    paths += [f"/types/described_{place}" for place, _ in enumerate(_chunks(900))]
    # The key is in the same places of the other pages: there, every fourth text will do.
    paths += [f"/tasks/going/{quote_key(text)}" for text in PAYLOADS[::4]]
    paths += [f"/schedules/repeating/{quote_key(text)}" for text in PAYLOADS[1::4]]
    paths += [f"/runs/{quote_key(run)}" for run in runs[::4]]
    await _none_is_markup(chromium, hostile, paths)


async def test_one_memory_and_one_agent_are_shown_as_text(chromium: Browser, minded: Stage) -> None:
    agents = await agents_of(minded.app).list_tasks(Caller.person("tests"))
    paths = [f"/memory/{quote_key(text)}" for text in PAYLOADS]
    paths += [f"/memory/{quote_key(text)}?text={quote_key(text)}" for text in PAYLOADS[::4]]
    paths += [f"/schedules/agent/{quote_key(one.id)}" for one in agents if one.status != "waiting_for_approval"]
    await _none_is_markup(chromium, minded, paths)


async def _none_is_markup(chromium: Browser, stage: Stage, paths: list[str]) -> None:
    """Each page as a browser reads it, and every twentieth opened for real."""
    async with (
        signed_in(chromium, stage) as seen,
        stage.client(Role.ADMIN) as client,
    ):
        page = await seen.open()
        await page.goto(stage.url + "/help")
        for path in paths:
            answer = await client.get(stage.url + path, headers={"Accept": "text/html"})
            assert answer.status_code == 200, path
            assert "window.pwned=1" in answer.text, "the page does not show what was to be tried"
            assert await page.evaluate(SKELETON, answer.text) == [], path
        for path in paths[::20]:
            await page.goto(stage.url + path)
            await settled(page)
            await _unharmed(page)
        await page.close()


async def test_what_an_address_says_is_shown_as_text(chromium: Browser, hostile: Stage) -> None:
    text = PAYLOADS[38]
    addresses = (
        f"/tasks?search={quote_key(text)}&user={quote_key(text)}&owner={quote_key(text)}",
        f"/runs?key={quote_key(text)}",
        f"/audit?actor={quote_key(text)}",
        f"/users?user={quote_key(text)}",
        f"/schedules/new?id={quote_key(text)}&value={quote_key(text)}&timezone={quote_key(text)}",
    )
    context = await a_context(chromium)
    page = await context.new_page()
    await page.goto(hostile.login())
    for address in addresses:
        await page.goto(hostile.url + address)
        assert await page.evaluate("() => window.pwned") is None
        assert await page.evaluate(SKELETON, await page.content()) == []
    for address in (f"/tasks?status={quote_key(text)}", f"/tasks/failing/{quote_key(text)}x", f"/{quote_key(text)}"):
        answer = await page.goto(hostile.url + address)
        assert answer is not None
        assert answer.status in (404, 422)
        assert await page.evaluate(SKELETON, await page.content()) == []
    await context.close()


async def _unharmed(page: Page) -> None:
    assert await page.evaluate("() => window.pwned") is None
    assert await page.evaluate("() => [...document.scripts].map((each) => each.src.split('/').pop())") == ["rota.js"]
