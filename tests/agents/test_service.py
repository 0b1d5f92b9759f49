"""What people and agents can do: whose schedules, within which limits, and who has to agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from rota import Rota
from rota.agents import Agents, AgentSchedule, AgentSettings, Caller, Rules, install_agents
from rota.agents.schedules.agent_task import AGENT, Origin, content_digest, payload_of
from rota.agents.schedules.origins import Origins
from rota.clock import DAY
from rota.core.task import Identity
from rota.database.tables.agents import provenance
from rota.errors import IllegalTransition, InvalidInput, LimitExceeded, NotAllowed, RotaError, UnknownGroup, UnknownTask
from rota.testing import FakeClock

ANN = Caller.person("ann")
MAIN = Caller.agent("main", is_main=True)
FAMILY = Caller.agent("family")
WORK = Caller.agent("work")
IN_RUN = Caller.agent("family", run_id="task-1-7", run_depth=1)

DAILY = {"schedule_type": "cron", "schedule_value": "0 9 * * *"}


@pytest.fixture
def trusting(app: Rota, settings: AgentSettings) -> Agents:
    """Nobody's approval is needed: what is left are the limits."""
    return install_agents(app, replace(settings, rules=Rules(approval="none", max_schedules=3)))


async def add_groups(agents: Agents) -> None:
    groups = await agents.groups()
    await groups.add("main", is_main=True)
    await groups.add("family", timezone="Europe/Berlin")
    await groups.add("work")


async def test_a_group_sees_and_touches_only_its_own(app: Rota, trusting: Agents) -> None:
    async with app:
        await add_groups(trusting)
        mine = await trusting.schedule_task(FAMILY, prompt="mine", **DAILY)
        theirs = await trusting.schedule_task(WORK, prompt="theirs", **DAILY)

        assert [one.id for one in await trusting.list_tasks(FAMILY)] == [mine.id]
        assert {one.id for one in await trusting.list_tasks(MAIN)} == {mine.id, theirs.id}
        assert {one.id for one in await trusting.list_tasks(ANN)} == {mine.id, theirs.id}
        assert [one.id for one in await trusting.list_tasks(MAIN, group="work")] == [theirs.id]

        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: trusting.get_task(FAMILY, theirs.id),
            lambda: trusting.pause_task(FAMILY, theirs.id),
            lambda: trusting.resume_task(FAMILY, theirs.id),
            lambda: trusting.cancel_task(FAMILY, theirs.id),
            lambda: trusting.run_task(FAMILY, theirs.id),
            lambda: trusting.update_task(FAMILY, theirs.id, prompt="evil"),
            lambda: trusting.task_history(FAMILY, theirs.id),
            lambda: trusting.stop_run(FAMILY, theirs.id),
        ]
        for attempt in attempts:
            with pytest.raises(UnknownTask, match="list_tasks"):
                await attempt()
        with pytest.raises(NotAllowed, match="own group"):
            await trusting.schedule_task(FAMILY, prompt="evil", group="work", **DAILY)
        with pytest.raises(NotAllowed, match="not yours"):
            await trusting.list_tasks(FAMILY, group="work")
        assert (await trusting.get_task(ANN, theirs.id)).to_dict() == theirs.to_dict(), "nothing has changed"
        assert (await trusting.schedule_task(MAIN, prompt="for you", group="work", **DAILY)).group_folder == "work"


async def test_nothing_that_an_agent_makes_counts_before_a_person_agrees(
    app: Rota, agents: Agents, clock: FakeClock
) -> None:
    async with app:
        await add_groups(agents)
        wish = await agents.schedule_task(FAMILY, prompt="send the keys", **DAILY)
        assert (wish.status, wish.next_run, wish.made_by) == ("waiting_for_approval", None, "agent:family")
        store = await app.store()
        clock.advance("2d")
        assert await app.run_until_idle() == 0
        assert (await store.counts()).get("agent") is None or (await store.counts())["agent"].created_total == 0

        for caller in (FAMILY, MAIN):
            with pytest.raises(NotAllowed, match="Only a person"):
                await agents.approve(caller, wish.id)
        (waiting,) = await agents.waiting(ANN)
        assert waiting.digest == wish.digest
        with pytest.raises(IllegalTransition, match="changed since"):
            await agents.approve(ANN, wish.id, digest="0" * 64)
        with pytest.raises(IllegalTransition, match="waits for approval"):
            await agents.run_task(FAMILY, wish.id)

        counted = await agents.approve(ANN, wish.id, digest=wish.digest)
        assert (counted.status, counted.approval) == ("active", "approved")
        assert await agents.waiting(ANN) == []
        with pytest.raises(IllegalTransition, match="does not wait"):
            await agents.approve(ANN, wish.id)
        clock.advance("1d")
        assert await app.run_until_idle() == 1


async def test_a_rejected_wish_never_runs(app: Rota, agents: Agents, clock: FakeClock) -> None:
    async with app:
        await add_groups(agents)
        wish = await agents.schedule_task(FAMILY, prompt="x", **DAILY)
        assert (await agents.reject(ANN, wish.id)).status == "rejected"
        assert await agents.list_tasks(FAMILY) == []
        withdrawn = await agents.schedule_task(FAMILY, prompt="y", **DAILY)
        assert (await agents.cancel_task(FAMILY, withdrawn.id)).status == "rejected"
        clock.advance("3d")
        assert await app.run_until_idle() == 0


async def test_what_has_waited_too_long_does_not_fire_at_once(app: Rota, agents: Agents, clock: FakeClock) -> None:
    async with app:
        await add_groups(agents)
        once = await agents.schedule_task(
            FAMILY, prompt="x", schedule_type="once", schedule_value="2026-01-05T18:00:00+01:00"
        )
        daily = await agents.schedule_task(FAMILY, prompt="y", **DAILY)
        clock.advance("31d")
        for wish in (once, daily):
            with pytest.raises(IllegalTransition, match="which is over"):
                await agents.approve(ANN, wish.id)
            assert (await agents.reject(ANN, wish.id)).status == "rejected"
        assert await app.run_until_idle() == 0


async def test_a_change_waits_while_the_schedule_goes_on_as_it_was(app: Rota, agents: Agents, clock: FakeClock) -> None:
    async with app:
        await add_groups(agents)
        made = await agents.schedule_task(ANN, group="family", prompt="old", **DAILY)
        asked = await agents.update_task(FAMILY, made.id, prompt="new", schedule_value="0 10 * * *")
        assert (asked.prompt, asked.schedule_value, asked.has_proposal) == ("old", "0 9 * * *", True)
        clock.advance("24h")
        await app.run_until_idle()
        assert (await agents.task_history(ANN, made.id)).items[0]["result"] == "old"
        (shown,) = await agents.waiting(ANN)
        assert (shown.prompt, shown.schedule_value) == ("new", "0 10 * * *")
        after = await agents.approve(ANN, made.id)
        assert (after.prompt, after.schedule_value, after.has_proposal) == ("new", "0 10 * * *", False)
        clock.advance("24h")
        await app.run_until_idle()
        assert (await agents.task_history(ANN, made.id)).items[0]["result"] == "new"

        await agents.update_task(FAMILY, made.id, prompt="newest")
        kept = await agents.reject(ANN, made.id)
        assert (kept.prompt, kept.status, kept.approval) == ("new", "active", "approved")


async def test_a_scheduled_run_may_look_and_stop_but_not_make(app: Rota, trusting: Agents) -> None:
    async with app:
        await add_groups(trusting)
        made = await trusting.schedule_task(ANN, group="family", prompt="x", **DAILY)
        for attempt in (
            lambda: trusting.schedule_task(IN_RUN, prompt="again", **DAILY),
            lambda: trusting.update_task(IN_RUN, made.id, prompt="again"),
            lambda: trusting.run_task(IN_RUN, made.id),
        ):
            with pytest.raises(NotAllowed, match="scheduled run"):
                await attempt()
        assert len(await trusting.list_tasks(IN_RUN)) == 1
        assert (await trusting.pause_task(IN_RUN, made.id)).status == "paused"
        assert (await trusting.resume_task(IN_RUN, made.id)).status == "active"
        assert (await trusting.cancel_task(IN_RUN, made.id)).status == "cancelled"


async def test_quotas_hold_also_for_many_at_once(app: Rota, trusting: Agents, agents: Agents) -> None:
    async with app:
        await add_groups(trusting)
        asked = await asyncio.gather(
            *(trusting.schedule_task(FAMILY, prompt=str(n), **DAILY) for n in range(12)), return_exceptions=True
        )
        refused = [one for one in asked if isinstance(one, LimitExceeded)]
        assert len(asked) - len(refused) == 3
        assert all("Cancel one first" in str(one) for one in refused)
        assert len(await trusting.list_tasks(FAMILY)) == 3
        assert (await trusting.schedule_task(WORK, prompt="x", **DAILY)).status == "active", "others have their own"
        await trusting.schedule_task(ANN, group="family", prompt="a person may", **DAILY)

        waiting = await asyncio.gather(
            *(agents.schedule_task(FAMILY, prompt=str(n), **DAILY) for n in range(15)), return_exceptions=True
        )
        assert sum(isinstance(one, LimitExceeded) for one in waiting) == 5
        assert len(await agents.waiting(FAMILY)) == 10


async def test_an_agents_schedule_ends_after_a_month_even_if_changed(
    app: Rota, trusting: Agents, clock: FakeClock
) -> None:
    async with app:
        await add_groups(trusting)
        made = await trusting.schedule_task(FAMILY, prompt="x", **DAILY)
        assert made.expires_at == "2026-02-04T09:00:00.000Z"
        clock.advance("20d")
        with pytest.raises(LimitExceeded, match="2026-02-04"):
            await trusting.update_task(FAMILY, made.id, expires="2026-02-20T00:00:00Z")
        clock.advance("11d")
        await app.run_until_idle()
        clock.advance("10d")
        assert await app.run_until_idle() == 0
        assert clock.now() > DAY


async def test_running_now_is_no_way_around_the_shortest_interval(
    app: Rota, trusting: Agents, clock: FakeClock
) -> None:
    async with app:
        await add_groups(trusting)
        made = await trusting.schedule_task(FAMILY, prompt="x", **DAILY)
        await trusting.run_task(FAMILY, made.id)
        await app.run_until_idle()
        with pytest.raises(LimitExceeded, match="Try again after"):
            await trusting.run_task(FAMILY, made.id)
        await trusting.run_task(ANN, made.id)
        await app.run_until_idle()
        clock.advance("6m")
        await trusting.run_task(FAMILY, made.id)
        await app.run_until_idle()
        assert len((await trusting.task_history(FAMILY, made.id)).items) == 3


@pytest.mark.parametrize(
    ("wish", "kind", "words"),
    [
        ({"schedule_type": "cron", "schedule_value": "every day"}, InvalidInput, "every day"),
        ({"schedule_type": "interval", "schedule_value": "10abc"}, InvalidInput, "1800000"),
        ({"schedule_type": "interval", "schedule_value": "60000"}, LimitExceeded, "schedule_value='300000'"),
        ({"schedule_type": "once", "schedule_value": "2020-01-01T00:00:00"}, InvalidInput, "not in the future"),
        ({"schedule_type": "once", "schedule_value": "2027-01-01T00:00:00"}, LimitExceeded, "after it has expired"),
        ({"schedule_type": "daily", "schedule_value": "9"}, InvalidInput, "cron"),
        ({**DAILY, "prompt": " "}, InvalidInput, "Say what"),
        ({**DAILY, "context_mode": "shared"}, InvalidInput, "isolated"),
        ({**DAILY, "script": "x" * 40_000}, LimitExceeded, "32,000"),
        ({**DAILY, "timezone": "Mars/Olympus"}, InvalidInput, "Mars"),
        ({**DAILY, "expires": "soon"}, InvalidInput, "ISO 8601"),
    ],
)
async def test_a_wish_that_cannot_be_is_refused_in_words_to_act_on(
    app: Rota, trusting: Agents, wish: dict[str, str], kind: type[RotaError], words: str
) -> None:
    async with app:
        await add_groups(trusting)
        with pytest.raises(kind, match=words):
            await trusting.schedule_task(FAMILY, **{"prompt": "x", **wish})
        assert await trusting.list_tasks(ANN) == []


async def test_words_are_in_the_zone_of_the_group(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)

        def at(group: str, value: str) -> Awaitable[AgentSchedule]:
            return agents.schedule_task(ANN, group=group, prompt="x", schedule_type="once", schedule_value=value)

        berlin = await at("family", "2026-01-05T18:00:00")
        assert (berlin.next_run, berlin.schedule_value) == ("2026-01-05T17:00:00.000Z", "2026-01-05T18:00:00+01:00")
        assert berlin.next_run_words == "Monday 5 January 2026, 18:00 (Europe/Berlin)"
        assert (await at("work", "2026-01-05T18:00:00")).next_run == "2026-01-05T18:00:00.000Z"


async def test_groups_have_one_main_and_names_that_differ(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        groups = await agents.groups()
        for folder, is_main in (("second", True), ("family", False), ("FAMILY", False), ("../x", False)):
            with pytest.raises(InvalidInput):
                await groups.add(folder, is_main=is_main)
        assert [group.folder for group in await groups.list()] == ["main", "family", "work"]
        number = (await groups.get("family")).number
        await groups.remove("family")
        with pytest.raises(UnknownGroup, match="Group not found: family"):
            await agents.schedule_task(ANN, group="family", prompt="x", **DAILY)
        assert (await groups.add("family")).number == number, "its folder keeps its user"


async def test_only_a_person_throws_a_switch_and_throwing_it_twice_is_once(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        for caller in (MAIN, FAMILY):
            with pytest.raises(NotAllowed, match="Only a person"):
                await agents.switch_off(caller)
            with pytest.raises(NotAllowed, match="Only a person"):
                await agents.switch_on(caller)
        first = await agents.switch_off(ANN, reason="too loud")
        assert await agents.switch_off(Caller.person("bob"), reason="indeed") == first
        groups = await agents.groups()
        assert await groups.switch_over("family") == first
        await agents.switch_on(ANN)
        assert await groups.switch_over("family") is None
        with pytest.raises(UnknownGroup):
            await agents.switch_off(ANN, "nobody")


async def test_what_is_refused_leaves_nothing_behind(app: Rota, trusting: Agents) -> None:
    async with app:
        await add_groups(trusting)
        for number in range(3):
            await trusting.schedule_task(FAMILY, prompt=str(number), **DAILY)
        for _ in range(5):
            with pytest.raises(LimitExceeded):
                await trusting.schedule_task(FAMILY, prompt="one too many", **DAILY)
        database = await app.database()
        count = select(func.count()).select_from(provenance)
        assert await database.read(lambda connection: connection.execute(count).scalar_one()) == 3


async def test_what_rota_has_held_an_agent_can_neither_resume_nor_run(
    app: Rota, trusting: Agents, clock: FakeClock
) -> None:
    async with app:
        await add_groups(trusting)
        made = await trusting.schedule_task(FAMILY, prompt="x", **DAILY)
        await trusting.pause_task(ANN, made.id)
        await Origins(await app.database()).set(made.id, held="5 runs in a row have failed.")
        for attempt in (trusting.resume_task, trusting.run_task):
            with pytest.raises(NotAllowed, match="Ask the owner"):
                await attempt(FAMILY, made.id)
        clock.advance("1d")
        assert await app.run_until_idle() == 0
        await trusting.run_task(ANN, made.id)
        assert await app.run_until_idle() == 1, "a person may try it, and it stays held"
        assert (await trusting.get_task(ANN, made.id)).held is not None
        await trusting.cancel_task(ANN, made.id)
        with pytest.raises(IllegalTransition):
            await trusting.resume_task(ANN, made.id)
        assert (await trusting.get_task(ANN, made.id)).held is not None, "what was refused changes nothing"


async def test_an_agent_cannot_run_what_is_over(app: Rota, trusting: Agents, clock: FakeClock) -> None:
    async with app:
        await add_groups(trusting)
        made = await trusting.schedule_task(
            FAMILY, prompt="x", schedule_type="once", schedule_value="2026-01-05T12:00:00"
        )
        clock.advance("3h")
        assert await app.run_until_idle() == 1
        clock.advance("1h")
        with pytest.raises(IllegalTransition, match="completed"):
            await trusting.run_task(FAMILY, made.id)
        assert (await trusting.run_task(ANN, made.id)).status == "active"


async def test_a_rejected_wish_stays_rejected_by_whom_it_was(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        wish = await agents.schedule_task(FAMILY, prompt="x", **DAILY)
        await agents.reject(ANN, wish.id)
        for attempt in (agents.cancel_task, agents.run_task, agents.pause_task):
            with pytest.raises(IllegalTransition, match="decided on already"):
                await attempt(FAMILY, wish.id)
        origin = (await Origins(await app.database()).get([wish.id]))[wish.id]
        assert (origin.approval, origin.decided_by) == ("rejected", "ann")


async def test_of_two_who_decide_at_once_one_is_told_so(
    app: Rota, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one decides just before the first one's decision is written down."""
    bob = Caller.person("bob")
    decide = Origins.decide
    async with app:
        await add_groups(agents)

        async def overtake(schedule_id: str) -> None:
            async def late(self: Origins, *given: Any) -> Origin | None:
                monkeypatch.setattr(Origins, "decide", decide)
                await agents.reject(bob, schedule_id)
                return await decide(self, *given)

            monkeypatch.setattr(Origins, "decide", late)
            with pytest.raises(IllegalTransition, match="decided"):
                await agents.approve(ANN, schedule_id)

        wish = await agents.schedule_task(FAMILY, prompt="new", **DAILY)
        await overtake(wish.id)
        assert (await agents.get_task(ANN, wish.id)).status == "cancelled", "what was rejected does not run"

        made = await agents.schedule_task(ANN, group="family", prompt="old", **DAILY)
        changed = await agents.update_task(FAMILY, made.id, prompt="changed")
        assert changed.has_proposal
        await overtake(made.id)
        after = await agents.get_task(ANN, made.id)
        (task,) = await (await app.store()).get([Identity(AGENT, made.id)])
        assert task is not None
        digest = content_digest(payload_of(task.payload), task.trigger, task.expires_at)
        assert (after.prompt, after.digest) == ("changed", digest), "it can run as it is"
