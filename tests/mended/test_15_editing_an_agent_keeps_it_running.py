"""Whoever edits a scheduled agent, by whichever way, has agreed to what it does from then on; or is told the way."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.stage import a_client

from rota import Rota
from rota.access import Role, Tokens
from rota.agents import AGENT, Agents, AgentSchedule, AgentSettings, Caller, install_agents
from rota.api import Service, create_api
from rota.cli import main
from rota.errors import InvalidInput
from rota.testing import FakeClock

ANN = Caller.person("ann")
GATE = "\necho first\necho '{\"wakeAgent\": true}'\n"
"""Begins with a line break, which a careless form loses."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    monkeypatch.setattr("rota.agents.runs.handler.LOOK_EVERY", 0.01)


@asynccontextmanager
async def a_schedule(
    folder: Path, clock: FakeClock | None = None
) -> AsyncGenerator[tuple[Rota, Agents, AgentSchedule]]:
    """Ann's agent, every hour, with a gate."""
    flags: dict[str, Any] = {} if clock is None else {"clock": clock}
    app = Rota(f"sqlite:///{folder / 'rota.db'}?synchronous=OFF", **flags)
    agents = install_agents(app, AgentSettings(groups_dir=folder / "groups", isolation="process", uid_base=None))
    async with app:
        await (await agents.groups()).add("family", timezone="Asia/Tokyo")
        made = await agents.schedule_task(
            ANN, group="family", prompt="old", script=GATE, schedule_type="interval", schedule_value="1h"
        )
        yield app, agents, made


@asynccontextmanager
async def a_browser(app: Rota) -> AsyncGenerator[httpx.AsyncClient]:
    service = Service(app)
    async with service:
        token = await Tokens(await app.database()).add("t", Role.OPERATOR, created_by="test")
        async with a_client(create_api(service), token.secret) as client:
            client.headers["Origin"] = "http://localhost:8787"
            yield client


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of the form on a schedule's page, with the line breaks of browsers."""
    form = re.search(r'<form class="edit".*?</form>', page, re.DOTALL)
    assert form is not None
    found: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]*>", form[0]):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name is not None and ("radio" not in tag or "checked" in tag):
            found[name[1]] = html.unescape(value[1]) if value else ""
    for name, text in re.findall(r'<textarea name="(\w+)"[^>]*>\n?(.*?)</textarea>', form[0], re.DOTALL):
        found[name] = html.unescape(text).replace("\n", "\r\n")
    return found


async def test_an_agent_that_was_edited_in_the_dashboard_runs_as_edited(tmp_path: Path) -> None:
    clock = FakeClock()
    async with a_schedule(tmp_path, clock) as (app, agents, made), a_browser(app) as browser:
        page = (await browser.get(f"/schedules/agent/{made.id}")).text
        fields = fields_of(page)
        assert "owner" not in fields
        untouched = await browser.post("/act/schedule/set", data=fields)
        assert untouched.status_code == 303, untouched.text
        same = await agents.get_task(ANN, made.id)
        assert (same.prompt, same.script, same.schedule_value, same.digest) == ("old", GATE, "3600000", made.digest)

        changed = await browser.post("/act/schedule/set", data={**fields, "prompt": "new", "value": "2h"})
        assert changed.status_code == 303, changed.text
        clock.advance("2h")
        await app.run_until_idle()
        after = await agents.get_task(ANN, made.id)
        assert (after.held, after.status, after.last_result) == (None, "active", "new")
        assert (after.schedule_value, after.script, after.made_by) == ("7200000", GATE, "ann")


@pytest.mark.parametrize(
    ("fields", "then"),
    [
        ({"kind": "cron", "value": "0 9 * * *", "timezone": "Europe/Berlin"}, ("cron", "0 9 * * *", "Europe/Berlin")),
        ({"script": ""}, ("interval", "3600000", "Asia/Tokyo")),
        ({"expires": "2036-01-01T00:00:00Z"}, ("interval", "3600000", "Asia/Tokyo")),
    ],
    ids=["cron", "no script", "end"],
)
async def test_each_field_of_the_form_counts(
    tmp_path: Path, fields: dict[str, str], then: tuple[str, str, str]
) -> None:
    async with a_schedule(tmp_path) as (app, agents, made), a_browser(app) as browser:
        page = (await browser.get(f"/schedules/agent/{made.id}")).text
        answer = await browser.post("/act/schedule/set", data={**fields_of(page), **fields})
        assert answer.status_code == 303, answer.text
        after = await agents.get_task(ANN, made.id)
        assert (after.schedule_type, after.schedule_value, after.timezone) == then
        assert after.script == (None if fields.get("script") == "" else GATE)
        assert (after.expires_at is not None) is ("expires" in fields)


async def test_other_ways_to_edit_an_agent_name_the_way(tmp_path: Path) -> None:
    async with a_schedule(tmp_path) as (app, agents, made), a_browser(app) as browser:
        settings: dict[str, Any] = {"every": "2h", "owner": "family", "serial": "family", "payload": {"prompt": "new"}}
        for path in (f"/api/schedules/agent/{made.id}",):
            answer = await browser.put(path, json=settings)
            assert answer.status_code == 422
            assert f"PATCH /api/agents/schedules/{made.id}" in answer.json()["detail"]
        with pytest.raises(InvalidInput, match=f"rota agent update {made.id}"):
            await app.schedules.upsert(made.id, type=AGENT, **settings)
        assert await agents.get_task(ANN, made.id) == made
        assert (await browser.patch(f"/api/agents/schedules/{made.id}", json={"prompt": "new"})).status_code == 200

        # What the program's own code makes is the code's to change.
        payload = {"group_folder": "family", "chat_jid": "", "prompt": "coded"}
        for every in ("1h", "2h"):
            await app.schedules.upsert("nightly", type=AGENT, every=every, payload=payload, owner="family")


@pytest.mark.usefixtures("command_line_here")
def test_the_command_line_changes_it_and_refuses_the_other_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def make() -> str:
        async with a_schedule(tmp_path) as (_, _, made):
            return made.id

    schedule_id = asyncio.run(make())
    assert main(("schedule", "add", "agent", schedule_id, "--every", "2h", "--owner", "family")) != 0
    assert f"rota agent update {schedule_id}" in capsys.readouterr().err
    assert main(("agent", "update", schedule_id, "--prompt", "new", "--cron", "0 9 * * *", "--script", "")) == 0
    assert "is changed" in capsys.readouterr().out
    main(("agent", "show", schedule_id))
    said = capsys.readouterr().out
    assert "new" in said
    assert "0 9 * * *" in said
    assert "wakeAgent" not in said
    assert main(("agent", "update", schedule_id)) != 0
    assert "Nothing was given" in capsys.readouterr().err
