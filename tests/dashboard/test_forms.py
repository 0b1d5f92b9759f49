"""Every form that is refused comes back with what was typed, and each message stands at its field."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.dashboard.conftest import another_page, settled, signed_in
from tests.dashboard.minds import DAILY
from tests.dashboard.stage import Stage, staged

import rota
from rota import Rota
from rota.access import Role
from rota.agents import AgentSettings, Caller, agents_of, install_agents
from rota.batches import BatchesPart
from rota.testing.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEMPLATES = sorted(Path(rota.__file__).parent.glob("**/templates/*.html"))
FORM = re.compile(r"<form\b[^>]*>")
MADE = re.compile(r"\bui\.form\(view, \"([^\"]+)\"|\{% call\(fields\) form\(view, \"([^\"]+)\"")

BY_HAND = {
    "base.html": ["action=\"{{ view.url('/act/preferences') }}\" data-auto", "action=\"{{ view.url('/logout') }}\""],
    "login.html": ["action=\"{{ view.url('/login') }}\""],
    "confirm.html": ["action=\"{{ view.url('/act/bulk') }}\""],
    "ui.html": [
        'action="{{ view.url(path) }}"{{ attributes | xmlattr }}',
        'action="{{ view.url(action.path) }}"{% if action.question %} data-confirm="{{ action.question }}"{% endif %}',
    ],
}
"""Forms in which nobody types, beside `ui.form` itself; and the one for signing in, which sends no secret back."""


@dataclass(frozen=True)
class Mistake:
    """A form, what somebody typed into it, and the fields that are wrong with it."""

    page: str
    act: str
    typed: dict[str, str]
    wrong: tuple[str, ...]
    hidden: dict[str, str]


def mistake(page: str, act: str, wrong: str, /, hidden: dict[str, str] | None = None, **typed: str) -> Mistake:
    return Mistake(page, act, typed, tuple(wrong.split()), hidden or {})


MISTAKES = (
    mistake("/types/report", "/act/type/limits", "concurrency", {"type": "report"}, concurrency="many", rate="0.5"),
    mistake("/types/report", "/act/type/limits", "concurrency rate", {"type": "report"}, concurrency="0", rate="fast"),
    mistake("/types/report", "/act/type/limits", "burst", {"type": "report"}, rate="2", burst="9999999"),
    mistake("/types/report", "/act/type/limits", "start_rate", {"type": "report"}, start_burst="4", max_pending="12"),
    mistake("/types/report", "/act/type/run", "payload", {"type": "report"}, payload="{not json"),
    mistake("/types/report", "/act/type/run", "payload delay at priority", {"type": "report"}, payload="NaN",
            key="mine", delay="soon", at="once", priority="high"),
    mistake("/schedules/new", "/act/schedule/set", "value", type="report", id="tea", kind="cron", value="61 * * * *"),
    mistake("/schedules/new", "/act/schedule/set", "id value", type="report", kind="every", payload='{"n": 1}'),
    mistake("/schedules/new", "/act/schedule/set", "timezone payload", type="report", id="tea", kind="cron",
            value="0 9 * * *", timezone="Europe/Berln", payload="{not json"),
    mistake("/schedules/new", "/act/schedule/set", "jitter grace max_runs expires priority", type="report", id="tea",
            kind="every", value="1h", jitter="soon", grace="ages", max_runs="x", expires="never", priority="high"),
    mistake("/schedules/new", "/act/schedule/set", "priority", type="report", id="tea", kind="every", value="1h",
            priority="99"),
    mistake("/schedules/report/brief", "/act/schedule/set", "value", {"task": "report/brief"}, kind="every",
            value="no"),
    mistake("/schedules/agent/{agent}", "/act/schedule/set", "value expires", {"task": "agent/{agent}"}, kind="at",
            value="whenever", prompt="Tell me\nmore.", expires="tomorrow"),
    mistake("/schedules/agent/{agent}", "/act/schedule/set", "prompt", {"task": "agent/{agent}"}, kind="every",
            value="1h", prompt=" ", script="exit 0"),
    mistake("/tokens", "/act/token/add", "expires", name="deploys", role="operator", expires="a while"),
    mistake("/tokens", "/act/token/add", "name", role="admin", expires="30d"),
    mistake("/users?user=u1", "/act/user/erase", "confirmation", {"user": "u1"}, confirmation="u2"),
    mistake("/failures/flaky/{failure}", "/act/failure/mute", "for", {"type": "flaky", "failure": "{failure}"},
            **{"for": "ages"}),
    mistake("/alerts", "/act/alert/silence", "for", None, rule="dead_letters", subject="flaky", reason="known",
            **{"for": "ages"}),
    mistake("/batches", "/act/batch/start", "count", type="location_name", count="9999999", style="norse",
            priority="5"),
    mistake("/batches", "/act/batch/start", "priority", type="location_name", count="5", style="by the sea",
            priority="first"),
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """A service with something of everything that has a form. No test here changes anything."""
    folder = tmp_path_factory.mktemp("forms")
    app = Rota(f"sqlite:///{folder}/rota.db?synchronous=OFF", parts=[BatchesPart()])
    install_agents(app, AgentSettings(groups_dir=folder / "groups", isolation="process", uid_base=None))

    @app.task
    async def report(payload: object) -> None: ...

    @app.task(max_retries=0)
    async def flaky() -> None:
        raise RuntimeError("It always fails.")

    async with staged(app) as stage:
        await app.schedules.upsert("brief", type="report", every="1h")
        await app.schedule("flaky", key="one")
        groups = await agents_of(app).groups()
        await groups.add("family", name="Family", chat_jid="family")
        await agents_of(app).schedule_task(Caller.person("tests"), group="family", prompt="Tell me.", **DAILY)
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ids(service: Stage) -> dict[str, str]:
    """What nobody chose, by the names that the mistakes have for it."""
    store = await service.app.store()

    async def has_failed() -> bool:
        return bool(await store.failures("flaky"))

    await until(has_failed, "the failure is counted")
    (failure,) = await store.failures("flaky")
    (agent, *_) = await agents_of(service.app).list_tasks(Caller.person("tests"))
    return {"failure": failure.group.id, "agent": agent.id}


async def test_every_form_is_made_by_the_one_that_comes_back() -> None:
    """A new form that acts is made by `ui.form`, and a mistake in it is listed above."""
    for template in TEMPLATES:
        found = [form for form in FORM.findall(template.read_text()) if 'method="post"' in form]
        allowed = BY_HAND.get(template.name, [])
        strays = [form for form in found if not any(each in form for each in allowed)]
        assert strays == [], f"{template.name}: make it by `ui.form`, see dashboard/refusal.py"
        assert len(found) == len(allowed)


async def test_a_mistake_is_known_for_every_form() -> None:
    made = {one or other for template in TEMPLATES for one, other in MADE.findall(template.read_text())}
    assert made - {"/act/bulk"} == {each.act for each in MISTAKES}


@pytest.mark.parametrize("each", MISTAKES, ids=lambda each: f"{each.act}:{'+'.join(each.wrong)}")
async def test_a_mistake_is_told_at_its_field(service: Stage, ids: dict[str, str], each: Mistake) -> None:
    page = each.page.format(**ids)
    hidden = {name: value.format(**ids) for name, value in each.hidden.items()}
    async with service.client(Role.ADMIN, headers={"Accept": "text/html"}) as client:
        answer = await client.post(service.url + each.act, data={**each.typed, **hidden, "back": page})
    assert answer.status_code == 422
    text = answer.text
    assert f'data-here="{page}"' in text
    wrong = [tag for tag in re.findall(r"<(?:input|select|textarea)[^>]*>", text) if "aria-invalid" in tag]
    assert [_attribute(tag, "name") for tag in wrong] == list(each.wrong)
    assert [" autofocus" in tag for tag in wrong] == [True, *[False] * (len(wrong) - 1)]
    for tag in wrong:
        message = re.search(rf'<p class="said" id="{re.escape(_attribute(tag, "aria-describedby"))}">(.+?)</p>', text)
        assert message is not None
    for name, value in each.typed.items():
        assert value in _shown(text, name), name


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf'\b{name}="([^"]*)"', tag)
    return unescape(found.group(1)) if found else ""


def _shown(text: str, name: str) -> list[str]:
    """What the fields of a name hold: inputs, boxes that are ticked, choices that are made, texts."""
    inputs = [tag for tag in re.findall(r"<input[^>]*>", text) if _attribute(tag, "name") == name]
    kept = [_attribute(tag, "value") for tag in inputs if "radio" not in tag or " checked" in tag]
    kept += map(unescape, re.findall(rf'<textarea name="{name}"[^>]*>\n(.*?)</textarea>', text, re.DOTALL))
    for options in re.findall(rf'<select name="{name}"[^>]*>(.*?)</select>', text, re.DOTALL):
        kept += [unescape(chosen) for chosen in re.findall(r"<option[^>]* selected>([^<]*)</option>", options)]
    return kept


async def test_what_no_field_is_to_blame_for_is_said_on_the_page(service: Stage) -> None:
    form = {"event": "pause", "scope": "all", "expected": "7", "type": "report", "back": "/tasks?type=report"}
    async with service.client(Role.ADMIN, headers={"Accept": "text/html"}) as client:
        answer = await client.post(service.url + "/act/bulk", data=form)
        elsewhere = await client.post(service.url + "/act/bulk", data={**form, "back": "/nothing-here"})
    assert answer.status_code == elsewhere.status_code == 409
    assert re.search(r'role="alert">[^<]*7', answer.text)
    assert "<h1>Tasks</h1>" in answer.text
    assert "<h1>Count changed</h1>" in elsewhere.text


async def test_a_wrong_number_in_the_browser(chromium: Browser, service: Stage) -> None:
    """The message stands at the field, which has the focus; what was typed is kept; loading anew sends nothing."""
    async with signed_in(chromium, service, Role.OPERATOR) as seen:
        seen.forgives.add("422")
        page = await seen.open()
        await page.goto(service.url + "/types/report")
        await settled(page)
        await page.get_by_label("Concurrency per instance").fill("many")
        await page.get_by_label("Max pending").fill("5000")
        async with another_page(page):
            await page.get_by_role("button", name="Set limits").click()
        field = page.get_by_label("Concurrency per instance")
        await expect(field).to_have_attribute("aria-invalid", "true")
        await expect(field).to_be_focused()
        await expect(field).to_have_value("many")
        await expect(field).to_have_accessible_description(re.compile("no whole number"))
        await expect(page.get_by_label("Max pending")).to_have_value("5000")
        assert page.url == service.url + "/types/report"
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.method))
        await page.reload()
        await settled(page)
        assert "POST" not in sent
        await expect(page.get_by_label("Max pending")).to_have_value("")


async def test_a_wrong_token_does_not_forget_where_one_was_going(service: Stage) -> None:
    async with service.client() as client:
        answer = await client.post(service.url + "/login", data={"token": "rota_wrong", "next": "/tasks?type=report"})
        assert answer.status_code == 401
        assert 'aria-invalid="true"' in answer.text
        assert "rota_wrong" not in answer.text
        to = re.search(r'name="next" value="([^"]*)"', answer.text)
        assert to is not None
        form = {"token": service.secrets[Role.VIEWER], "next": unescape(to.group(1))}
        entered = await client.post(service.url + "/login", data=form)
    assert entered.headers["location"] == "/tasks?type=report"
