"""Scheduled agents over several instances and on every store: one run at a time, and one switch for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota import Rota
from rota.agents import AgentSettings, Caller, ChannelSettings, install_agents
from rota.testing.waiting import until

ANN = Caller.person("ann")
SLOW = "import time\nopen('begun', 'w').close()\ntime.sleep(300)"


@pytest.mark.parametrize("scope", ["*", "both"])
async def test_a_switch_ends_what_runs_in_every_instance(
    tmp_path: Path, settings: AgentSettings, python: str, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setattr("rota.agents.runs.handler.LOOK_EVERY", 0.05)
    url = f"sqlite:///{tmp_path / 'rota.db'}?synchronous=OFF"
    # Each has room for one agent: two that run at the same time run in two instances.
    mine = replace(settings, command=(python, "-c", SLOW), concurrency=1)
    # A lease that no busy machine lets run out: nobody dies here.
    first, second = Rota(url, lease="5m"), Rota(url, lease="5m")
    agents, others = install_agents(first, mine), install_agents(second, mine)
    async with first, second:
        for name in ("one", "two"):
            await (await agents.groups()).add(name)
            made = await agents.schedule_task(
                ANN, group=name, prompt="x", schedule_type="interval", schedule_value="1h"
            )
            await agents.run_task(ANN, made.id)
        await first.start()
        await second.start()
        try:

            async def both_run() -> bool:
                return len(await agents.running(ANN)) == 2

            async def rows() -> list[dict[str, Any]]:
                pages = [await agents.task_history(ANN, made.id) for made in await agents.list_tasks(ANN)]
                return [row for page in pages for row in page.items]

            async def both_are_over() -> bool:
                # A run goes off the list first, and has its row then.
                return not await agents.running(ANN) and len(await rows()) == 2

            await until(both_run, "both instances run an agent")
            for name in ["*"] if scope == "*" else ["one", "two"]:
                await others.switch_off(ANN, name, "enough")
            await until(both_are_over, "the switch has ended both")
            for made in await agents.list_tasks(ANN):
                (row,) = (await agents.task_history(ANN, made.id)).items
                assert (row["status"], row["result"]) == ("skipped", "The kill switch was thrown by ann: enough")
                assert made.status == "active"
        finally:
            await first.stop()
            await second.stop()


@pytest.mark.parametrize("store", ["redis", "postgres"])
async def test_a_run_from_its_schedule_to_its_notice_on_the_big_stores(
    request: pytest.FixtureRequest, tmp_path: Path, settings: AgentSettings, groups_dir: Path, store: str
) -> None:
    own_file = f"sqlite:///{tmp_path / 'beside.db'}?synchronous=OFF"
    beside: dict[str, object] = {} if store == "postgres" else {"database": own_file}
    app = Rota({"store": request.getfixturevalue(f"{store}_url"), "lease": "5m", **beside})
    agents = install_agents(app, settings)
    async with app:
        await (await agents.groups()).add("family", channels=[ChannelSettings(kind="file")])
        made = [
            await agents.schedule_task(
                ANN,
                group="family",
                prompt=f"number {number}",
                schedule_type="interval",
                schedule_value="1h",
                context_mode="group",
            )
            for number in range(3)
        ]
        for one in made:
            await agents.run_task(ANN, one.id)
        assert await app.run_until_idle() == 3
        for one in made:
            (row,) = (await agents.task_history(ANN, one.id)).items
            assert (row["status"], row["result"], row["fire_at"]) == ("success", one.prompt, None)
            assert row["whole_result"] == one.prompt
        session = await (await agents.groups()).session("family")
        assert (session or "").startswith("echo-"), "all three went on in one session, one after the other"
        await agents.cancel_task(ANN, made[0].id)
        assert {one.status for one in await agents.list_tasks(ANN, finished=True)} == {"active", "cancelled"}
    assert len((groups_dir / ".notices" / "family.jsonl").read_text().splitlines()) == 3
