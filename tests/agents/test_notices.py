"""Notices reach a file or a webhook, also over a restart, and trouble on the way is nobody's failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota import Rota
from rota.agents import NOTICE, Agents, AgentSettings, Caller, ChannelSettings, install_agents
from rota.agents.groups import Group
from rota.agents.notices import Channels, Notice
from rota.core.task import TaskStatus
from rota.errors import UnknownTaskType
from rota.stores.base import RunQuery, TaskQuery
from rota.testing import FakeClock
from rota.webhooks import Webhooks, verify

ANN = Caller.person("ann")
SECRET = "whsec_aHVudGVyMg=="
OPEN = Webhooks(allow_private=True, allow_http=True, timeout=60)  # a call that takes long is not what is tested
TOLD = Notice(kind="result", group="family", schedule_id="task-1", text="All is well.", at=1_767_603_600_000)


class Endpoint:
    """Somebody's webhook: it answers what it is told to, and keeps what it was sent."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        self.calls.append((headers, await reader.readexactly(int(headers["content-length"]))))
        status = self._answers.pop(0) if self._answers else "204 No Content"
        writer.write(f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def endpoint(*answers: str) -> AsyncGenerator[Endpoint]:
    made = Endpoint(answers)
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    async with server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        yield made


async def scheduled(agents: Agents, *channels: ChannelSettings) -> str:
    """An agent that is due in an hour, in a group with these channels."""
    await (await agents.groups()).add("family", channels=channels)
    made = await agents.schedule_task(
        ANN, group="family", prompt="All is well.", schedule_type="once", schedule_value="2026-01-05T10:00:00"
    )
    return made.id


async def ends(app: Rota) -> list[tuple[str, str | None]]:
    page = await (await app.store()).runs(RunQuery(task_type=NOTICE, limit=50))
    return [(run.status.value, run.result) for run in reversed(page.items)]


async def test_a_file_gets_a_line_for_each_notice(tmp_path: Path, app: Rota) -> None:
    channels = Channels(tmp_path / "notices", app.store)
    group = Group(folder="family", number=1, name="Family", chat_jid="x", channels=(ChannelSettings(kind="file"),))
    for _ in range(2):
        await channels.tell(group, TOLD)
    lines = (tmp_path / "notices" / "family.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["All is well."] * 2
    assert json.loads(lines[0])["at"] == "2026-01-05T09:00:00.000Z"
    await channels.tell(None, TOLD)  # nobody to tell is no trouble
    assert len((tmp_path / "notices" / "family.jsonl").read_text().splitlines()) == 2


async def test_a_webhook_is_signed_and_called_once(app: Rota, settings: AgentSettings, clock: FakeClock) -> None:
    agents = install_agents(app, settings, webhooks=OPEN)
    async with app, endpoint() as hook:
        made = await scheduled(agents, ChannelSettings(kind="webhook", url=hook.url, secret=SECRET))
        clock.advance("1h")
        await app.run_until_idle()
        ((headers, body),) = hook.calls
        assert (json.loads(body)["schedule_id"], json.loads(body)["text"]) == (made, "All is well.")
        assert verify(SECRET, headers, body, now=clock.now())
        assert not verify("another", headers, body, now=clock.now())
        (kept,) = (await (await app.store()).find(TaskQuery(task_type=NOTICE))).items
        assert SECRET not in (kept.payload or ""), "what signs it stays with the group"


async def test_a_notice_outlives_the_service_and_is_tried_again_under_the_same_id(
    app: Rota, settings: AgentSettings, clock: FakeClock
) -> None:
    agents = install_agents(app, settings, webhooks=OPEN)
    async with endpoint("503 Service Unavailable", "500 Internal Server Error") as hook:
        async with app:
            made = await scheduled(agents, ChannelSettings(kind="webhook", url=hook.url, secret=SECRET))
            clock.advance("1h")
            await app.run_until_idle()
            assert len(hook.calls) == 1
            (row,) = (await agents.task_history(ANN, made)).items
            assert row["status"] == "success", "the run is over, whatever becomes of its notice"
        again = Rota(app.config, clock=clock)
        install_agents(again, settings, webhooks=OPEN)
        async with again:
            for _ in range(4):
                clock.advance("10m")
                await again.run_until_idle()
            assert [status for status, _ in await ends(again)] == ["error", "error", "success"]
    assert len({headers["webhook-id"] for headers, _ in hook.calls}) == 1
    headers, body = hook.calls[-1]
    assert verify(SECRET, headers, body, now=clock.now() - 20 * 60_000), "signed when it was sent"


async def test_what_nobody_ever_takes_is_a_dead_letter(app: Rota, settings: AgentSettings, clock: FakeClock) -> None:
    agents = install_agents(app, settings, webhooks=OPEN)
    async with app, endpoint(*["503 Service Unavailable"] * 20) as hook:
        await scheduled(agents, ChannelSettings(kind="webhook", url=hook.url))
        clock.advance("1h")
        await app.run_until_idle()
        for _ in range(12):
            clock.advance("10m")
            await app.run_until_idle()
        (dead,) = (await (await app.store()).find(TaskQuery(task_type=NOTICE, status=TaskStatus.FAILED))).items
        assert "status 503" in (dead.error or "")
        assert len(hook.calls) == 10


async def test_what_can_only_fail_again_is_given_up_and_the_other_channels_are_told(
    app: Rota, settings: AgentSettings, clock: FakeClock, groups_dir: Path
) -> None:
    install_agents(app, settings, webhooks=Webhooks())  # calls no private address
    lenient = Agents(app.store, app.database, settings, webhooks=OPEN)  # somebody's who did
    async with app, endpoint() as hook:
        await scheduled(lenient, ChannelSettings(kind="webhook", url=hook.url), ChannelSettings(kind="file"))
        clock.advance("1h")
        await app.run_until_idle()
        ((status, why),) = await ends(app)
        assert status == "skipped"
        assert "Not delivered" in (why or "")
        assert hook.calls == []
    assert "All is well." in (groups_dir / ".notices" / "family.jsonl").read_text()


async def test_a_webhook_that_was_taken_away_is_not_called(
    app: Rota, settings: AgentSettings, clock: FakeClock
) -> None:
    agents = install_agents(app, settings, webhooks=OPEN)
    async with app, endpoint("503 Service Unavailable") as hook:
        await scheduled(agents, ChannelSettings(kind="webhook", url=hook.url))
        clock.advance("1h")
        await app.run_until_idle()
        await (await agents.groups()).remove("family")
        clock.advance("10m")
        await app.run_until_idle()
        assert len(hook.calls) == 1
        assert (await ends(app))[-1] == ("skipped", "Not delivered: the group has no such webhook any more.")


async def test_what_is_no_notice_is_given_up_at_once(app: Rota, settings: AgentSettings) -> None:
    install_agents(app, settings, webhooks=OPEN)
    async with app:
        await app.schedule(NOTICE, {"text": "hello"}, key="by-hand")
        assert await app.run_until_idle() == 1
        (run,) = (await (await app.store()).runs(RunQuery(task_type=NOTICE))).items
        assert (run.status.value, "no notice of an agent" in (run.result or "")) == ("skipped", True)


async def test_a_notice_that_is_not_taken_in_fails_no_run(
    app: Rota, agents: Agents, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app:
        hook = ChannelSettings(kind="webhook", url="https://example.org/hook")
        made = await scheduled(agents, hook)
        store = await app.store()

        async def unknown(news: list[object]) -> object:
            raise UnknownTaskType(f"There is no type {news}.")

        monkeypatch.setattr(store, "schedule", unknown)
        clock.advance("1h")
        await app.run_until_idle()
        (row,) = (await agents.task_history(ANN, made)).items
        assert row["status"] == "success"
