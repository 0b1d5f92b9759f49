"""In whose name: roles, narrowed tokens, the audit log; and what keeps house."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from rota import Rota, load_config
from rota.access import AuditLog, AuditQuery, Principal, Role
from rota.agents import AGENT, Agents, AgentSettings, Caller, Limits
from rota.agents.isolation.base import MEBIBYTE
from rota.agents.operator import TOOLS, AgentOperator, agent_principal, scope_of
from rota.agents.part import agents_of
from rota.agents.runs.janitor import Janitor
from rota.agents.schedules.agent_task import AgentPayload
from rota.agents.schedules.origins import Origins
from rota.agents.service import KEPT_MS
from rota.app.builtin import build
from rota.clock import MINUTE, SystemClock
from rota.core.task import Identity, NewTask, Transition
from rota.errors import IllegalTransition, InvalidConfig, InvalidInput, NotAllowed, RunnerUnavailable, UnknownTask
from rota.runtime.health import Pulse
from rota.testing import FakeClock
from rota.triggers import Interval, encode_trigger

ANN = Caller.person("ann")
HOURLY = {"prompt": "What changed?", "schedule_type": "interval", "schedule_value": "1h"}


def operator_of(app: Rota, agents: Agents, principal: Principal) -> AgentOperator:
    return AgentOperator(agents, principal, app.database)


def person(role: Role) -> Principal:
    return Principal(f"test:{role}", role.value, role, "code")


async def add_groups(agents: Agents) -> None:
    groups = await agents.groups()
    await groups.add("main", is_main=True)
    await groups.add("family")


async def test_a_viewer_looks_an_operator_acts_an_admin_governs(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        viewer, operator, admin = (operator_of(app, agents, person(role)) for role in Role)
        with pytest.raises(NotAllowed, match="operator"):
            await viewer.schedule_task(group="family", **HOURLY)
        made = await operator.schedule_task(group="family", **HOURLY)
        assert [one.id for one in await viewer.list_tasks()] == [made.id]
        with pytest.raises(NotAllowed, match="operator"):
            await viewer.switch_off()
        with pytest.raises(NotAllowed, match="admin"):
            await operator.add_group("work")
        with pytest.raises(NotAllowed, match="admin"):
            await operator.add_token("family", "chat")
        await admin.add_group("work")
        await operator.switch_off("work", "enough")
        entries, _ = await AuditLog(await app.database()).page(AuditQuery())
        assert [(entry.actor, entry.action, (entry.outcome or "")[:11]) for entry in reversed(entries)] == [
            ("test:viewer", "agent.schedule_task", "not_allowed"),
            ("test:operator", "agent.schedule_task", "ok"),
            ("test:viewer", "agent.kill", "not_allowed"),
            ("test:operator", "agent.group.add", "not_allowed"),
            ("test:operator", "agent.token.add", "not_allowed"),
            ("test:admin", "agent.group.add", "ok"),
            ("test:operator", "agent.kill", "ok"),
        ]


async def test_an_agent_decides_nothing_whatever_its_role(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        family = Principal("token:x", "chat", Role.ADMIN, "api", scope_of("family"))
        agent = operator_of(app, agents, family)
        wish = await agent.schedule_task(**HOURLY)
        assert wish.status == "waiting_for_approval"
        for attempt in (
            agent.approve(wish.id),
            agent.reject(wish.id),
            agent.stop_run(wish.id),
            agent.switch_off(),
            agent.switch_on(),
            agent.add_group("mine", is_main=True),
            agent.add_token("main", "more"),
        ):
            with pytest.raises(NotAllowed):
                await attempt
        assert (await agent.cancel_task(wish.id)).status == "rejected", "its own wish it may take back"


async def test_who_is_main_is_looked_up_and_never_believed(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        lying = Principal("token:x", "chat", Role.OPERATOR, "mcp", {"group": "family", "is_main": True})
        assert not (await operator_of(app, agents, lying).caller()).sees_all
        assert (await operator_of(app, agents, agent_principal("main")).caller()).sees_all
        run = await operator_of(app, agents, agent_principal("main", "task-1-aa-7")).caller()
        assert (run.run_id, run.run_depth) == ("task-1-aa-7", 1)
        with pytest.raises(NotAllowed):
            await operator_of(app, agents, Principal("t", "t", Role.ADMIN, "api", {"project": "x"})).caller()


def test_a_scope_names_tools_that_exist() -> None:
    assert scope_of("family", TOOLS[:2], in_runs=True) == {"group": "family", "tools": list(TOOLS[:2]), "in_runs": True}
    with pytest.raises(InvalidInput, match="approve"):
        scope_of("family", ["approve"])


# --- keeping house ---------------------------------------------------------------------------------------------------


async def test_what_was_over_long_ago_is_forgotten_and_nothing_else(
    app: Rota, agents: Agents, clock: FakeClock
) -> None:
    async with app:
        await add_groups(agents)
        over = await agents.schedule_task(ANN, group="family", **HOURLY)
        live = await agents.schedule_task(ANN, group="family", **HOURLY)
        waiting = await agents.schedule_task(Caller.agent("family"), **HOURLY)
        refused = await agents.schedule_task(Caller.agent("family"), **HOURLY)
        await agents.reject(ANN, refused.id)
        await agents.cancel_task(ANN, over.id)
        store, origins = await app.store(), Origins(await app.database())
        await store.apply(Transition.PURGE, [Identity(AGENT, over.id)])
        janitor = Janitor(agents, Pulse(SystemClock()), lambda: 0.5)
        assert await janitor.run_once() == 0, "not yet"
        clock.advance(f"{KEPT_MS // MINUTE + 1}m")
        assert await janitor.run_once() == 2
        left = await origins.get([over.id, live.id, waiting.id, refused.id])
        assert set(left) == {live.id, waiting.id}
        with pytest.raises(UnknownTask):
            await agents.task_history(ANN, over.id)


async def test_the_list_in_the_folder_follows_every_change(
    app: Rota, agents: Agents, clock: FakeClock, groups_dir: Path
) -> None:
    def listed(group: str) -> dict[str, str]:
        rows = json.loads((groups_dir / group / "current_tasks.json").read_text())
        return {row["id"]: row["status"] for row in rows}

    async with app:
        await add_groups(agents)
        first = await agents.schedule_task(ANN, group="family", **HOURLY)
        other = await agents.schedule_task(ANN, group="main", **HOURLY)
        clock.advance("1h")
        await app.run_until_idle()
        second = await agents.schedule_task(ANN, group="family", **HOURLY)
        await agents.pause_task(ANN, first.id)
        assert listed("family") == {first.id: "paused", second.id: "active"}
        assert listed("main") == {first.id: "paused", second.id: "active", other.id: "active"}
        await agents.cancel_task(ANN, second.id)
        assert listed("family") == {first.id: "paused"}


async def test_what_was_asked_to_change_is_approved_by_what_was_shown(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        made = await agents.schedule_task(ANN, group="family", **HOURLY)
        await agents.update_task(Caller.agent("family"), made.id, prompt="Something else")
        (shown,) = await agents.waiting(ANN)
        assert (shown.asks_for, shown.asked_by, shown.made_by) == ("update", "agent:family", "ann")
        approved = await agents.approve(ANN, made.id, digest=shown.digest)
        assert (approved.prompt, approved.asks_for) == ("Something else", None)


async def test_what_was_asked_to_change_does_not_undo_what_a_person_has_changed_since(
    app: Rota, agents: Agents
) -> None:
    async with app:
        await add_groups(agents)
        made = await agents.schedule_task(ANN, group="family", **HOURLY)
        await agents.update_task(Caller.agent("family"), made.id, prompt="Something else")
        await agents.update_task(ANN, made.id, schedule_value="2h")
        with pytest.raises(IllegalTransition, match="would be undone"):
            await agents.approve(ANN, made.id)
        rejected = await agents.reject(ANN, made.id)
        assert (rejected.prompt, rejected.schedule_value, rejected.asks_for) == (made.prompt, "7200000", None)


async def test_an_approval_that_was_made_but_not_written_down_can_be_given_again(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        made = await agents.schedule_task(ANN, group="family", **HOURLY)
        await agents.update_task(Caller.agent("family"), made.id, prompt="Something else")
        origins = Origins(await app.database())
        waiting = (await origins.get([made.id]))[made.id]
        await agents.approve(ANN, made.id)
        row = {"approval": waiting.approval, "proposal": msgspec.json.encode(waiting.proposal).decode()}
        await origins.set(made.id, **row)  # as if the instance had died between the two
        approved = await agents.approve(ANN, made.id)
        assert (approved.prompt, approved.asks_for) == ("Something else", None)


async def test_a_schedule_that_was_resumed_elsewhere_is_held_no_more(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        made = await agents.schedule_task(ANN, group="family", **HOURLY)
        await agents.pause_task(ANN, made.id)
        await Origins(await app.database()).set(made.id, held="5 runs in a row have failed.")
        assert (await agents.get_task(ANN, made.id)).held is not None
        await app.schedules.resume(made.id, "agent")
        assert (await agents.get_task(ANN, made.id)).held is None


async def test_what_is_over_takes_no_place_in_the_list_of_what_is_not(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        store = await app.store()
        payload = AgentPayload(group_folder="family", chat_jid="", prompt="x")
        many = [
            NewTask(
                task_type=AGENT,
                key=f"a{number:04}",
                trigger=encode_trigger(Interval(every_ms=3_600_000, anchor_at=0)),
                payload=msgspec.json.encode(payload).decode(),
                owner="family",
                serial="family",
            )
            for number in range(1_100)
        ]
        await store.schedule(many)
        await store.apply(Transition.CANCEL, [Identity(AGENT, new.key) for new in many])
        made = await agents.schedule_task(ANN, group="family", **HOURLY)
        assert [one.id for one in await agents.list_tasks(ANN, group="family")] == [made.id]
        assert len(await agents.list_tasks(ANN, group="family", finished=True)) == 1_000


async def test_pages_show_what_is_not_over_once_each_and_by_id(app: Rota, agents: Agents) -> None:
    async with app:
        await add_groups(agents)
        await (await agents.groups()).add("work")
        made = [(await agents.schedule_task(ANN, group=group, **HOURLY)).id for group in ("family", "work") * 6]
        await agents.pause_task(ANN, made[3])
        await agents.cancel_task(ANN, made[4])
        live = sorted(one for one in made if one != made[4])
        for group, expected in ((None, live), ("family", [one for one in live if one in made[::2]])):
            seen: list[str] = []
            after: str | None = None
            while True:
                page = await agents.page_of_tasks(ANN, group=group, after=after, limit=4)
                assert len(page.items) <= 4
                seen += [one.id for one in page.items]
                after = page.cursor
                if after is None:
                    break
            assert seen == expected
        with pytest.raises(NotAllowed, match="not yours to see"):
            await agents.page_of_tasks(Caller.agent("family"), group="work", limit=4)
        own = await agents.page_of_tasks(Caller.agent("family"), limit=50)
        assert {one.group_folder for one in own.items} == {"family"}


# --- configured ------------------------------------------------------------------------------------------------------


def test_the_configuration_says_everything() -> None:
    config = load_config(
        {
            "timezone": "Europe/Berlin",
            "agents": {
                "groups_dir": "/srv/groups",
                "isolation": "bubblewrap",
                "command": ["my-agent", "--print", ["--resume", "{sessionId}"]],
                "hears": "text",
                "speaks": "text",
                "pass_on": ["API_KEY"],
                "timeout": "10m",
                "approval": "untrusted",
                "max_schedules": 7,
                "min_interval": "1h",
                "max_life": "7d",
                "max_failures": 2,
                "concurrency": 3,
            },
        },
        environ={},
    )
    made = AgentSettings.of(config)
    assert (made.groups_dir, made.timezone, made.isolation) == (Path("/srv/groups"), "Europe/Berlin", "bubblewrap")
    assert made.command == ("my-agent", "--print", ("--resume", "{sessionId}"))
    assert (made.input_format, made.output_format, made.pass_on) == ("text", "text", ("API_KEY",))
    rules = made.rules
    assert (rules.approval, rules.max_schedules, rules.min_interval_ms) == ("untrusted", 7, 60 * MINUTE)
    assert (made.limits.wall_ms, made.max_failures, made.concurrency) == (10 * MINUTE, 2, 3)
    plain = AgentSettings.of(load_config({}, environ={}))
    assert (plain.command, plain.limits) == (AgentSettings().command, Limits())


def test_the_limits_of_a_run_are_configured() -> None:
    given = {"memory_mib": 512, "cpus": 0.5, "processes": 64, "disk_mib": 100, "output_mib": 1}
    settings = AgentSettings.of(load_config({"agents": {**given, "engine_options": ["--runtime", "runc"]}}, environ={}))
    limits = settings.limits
    assert (limits.memory_bytes, limits.cpus, limits.processes) == (512 * MEBIBYTE, 0.5, 64)
    assert (limits.disk_bytes, limits.output_bytes) == (100 * MEBIBYTE, MEBIBYTE)
    assert settings.engine_options == ("--runtime", "runc")
    for name in given:
        with pytest.raises(InvalidConfig, match=f"agents.{name}"):
            load_config({"agents": {name: 0}}, environ={})


def test_a_sandbox_can_be_insisted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert AgentSettings(isolation="process").choose().isolation.name == "process"
    with pytest.raises(RunnerUnavailable, match="sandbox"):
        AgentSettings.of(load_config({"agents": {"require": True}}, environ={})).choose()
    with pytest.raises(RunnerUnavailable, match=r"agents\.require is set"):
        AgentSettings.of(load_config({"agents": {"require": True, "isolation": "process"}}, environ={})).choose()


async def test_the_built_in_app_has_the_type_and_its_agents_are_found() -> None:
    app = build(load_config({"agents": {"concurrency": 2}}, environ={}, flags={"store": "memory://"}))
    async with app:
        types = {record.task_type.name: record.task_type for record in await app.types()}
        assert types[AGENT].concurrency == 2
        assert agents_of(app) is agents_of(app)
        assert agents_of(app).settings.concurrency == 2


async def test_where_there_is_no_group_no_isolation_is_announced(app: Rota, agents: Agents) -> None:
    async with app:
        janitor = Janitor(agents, Pulse(SystemClock()), lambda: 0.5)
        with capture_logs() as said:
            await janitor.run_once()
        assert said == []
        await add_groups(agents)
        with capture_logs() as said:
            await janitor.run_once()
            await janitor.run_once()
        assert len(said) == 1, "once there are agents, once"


async def test_every_run_of_an_agent_counts_whoever_asked_for_it(app: Rota, agents: Agents, clock: FakeClock) -> None:
    async with app:
        await add_groups(agents)
        made = await agents.schedule_task(ANN, group="family", **HOURLY)
        for _ in range(2):
            await agents.run_task(ANN, made.id)
            await app.run_until_idle()
        assert (await agents.get_task(ANN, made.id)).runs == 2
        once = await agents.schedule_task(
            ANN, group="family", prompt="Now.", schedule_type="once", schedule_value="2026-01-05T10:30:00"
        )
        clock.advance("2h")
        await app.run_until_idle()
        assert (await agents.get_task(ANN, once.id)).runs == 1
        paused = await agents.pause_task(ANN, made.id)
        assert (paused.status, paused.next_run) == ("paused", None), "it waits for no fire"
