"""The MCP server over HTTP, driven by the official client: every tool, two groups, and whoever has no business here."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp_types import CallToolResult, TextContent
from tests.mcp.conftest import Scene, Staging

from rota.access import AuditLog, AuditQuery, Role, Tokens
from rota.agents import Rules
from rota.agents.operator import TOOLS
from rota.testing.waiting import PATIENCE, until

FREE = Rules(approval="none")
WEEKDAYS = {"prompt": "What changed?", "schedule_type": "cron", "schedule_value": "0 9 * * 1-5"}


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers, which must be no error."""
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    assert not answer.is_error, words(answer)
    assert answer.structured_content is not None
    return answer.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool says when it refuses, which it must."""
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    assert answer.is_error, answer.structured_content
    return words(answer)


def words(answer: CallToolResult) -> str:
    return " ".join(part.text for part in answer.content if isinstance(part, TextContent))


async def test_every_tool_does_what_it_says(staging: Staging) -> None:
    async with staging(FREE) as scene, scene.connect("family") as client:
        made = await call(client, "schedule_task", **WEEKDAYS)
        assert made["schedule_in_words"] == "at 09:00, Monday to Friday"
        assert made["next_run_in_words"].endswith("09:00 (Asia/Tokyo)"), "in the group's own zone"
        assert made["next_run_in_words"] in made["message"]
        task = made["task_id"]

        listed = await call(client, "list_tasks")
        assert [one["task_id"] for one in listed["tasks"]] == [task]
        changed = await call(client, "update_task", task_id=task, schedule_value="30 10 * * *", prompt="Anything new?")
        assert (changed["schedule_value"], changed["prompt"]) == ("30 10 * * *", "Anything new?")
        assert (await call(client, "pause_task", task_id=task))["status"] == "paused"
        assert (await call(client, "resume_task", task_id=task))["status"] == "active"

        assert (await call(client, "task_history", task_id=task))["message"] == "It has not run yet."
        await call(client, "run_task", task_id=task)
        assert await scene.app.run_until_idle() == 1
        history = await call(client, "task_history", task_id=task)
        assert [(run["status"], run["result"]) for run in history["runs"]] == [("success", "Anything new?")]
        assert history["runs"][0]["started_in_words"].endswith("(Asia/Tokyo)")

        assert (await call(client, "cancel_task", task_id=task))["status"] == "cancelled"
        assert (await call(client, "list_tasks"))["tasks"] == []
        assert len((await call(client, "list_tasks", include_finished=True))["tasks"]) == 1


async def test_the_tools_say_exactly_what_they_take_and_what_they_do(staging: Staging) -> None:
    async with staging() as scene, scene.connect("family") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {*TOOLS, "start_batch", "batch_status"}
    for tool in tools.values():
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert tool.annotations is not None
    hints = {name: tool.annotations for name, tool in tools.items() if tool.annotations is not None}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        "list_tasks",
        "task_history",
        "batch_status",
    }
    assert {name for name, hint in hints.items() if hint.destructive_hint} == {"cancel_task", "update_task"}
    assert not {name for name, hint in hints.items() if hint.idempotent_hint} & {"schedule_task", "run_task"}
    assert tools["schedule_task"].input_schema["properties"]["schedule_type"]["enum"] == ["cron", "interval", "once"]
    spoken = json.dumps(tools["schedule_task"].input_schema)
    assert not any(word in spoken for word in ("is_main", "chat_jid", "owner", "run_id")), "identity is no argument"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({**WEEKDAYS, "schedule_value": "99 9 * * *"}, "99"),
        ({**WEEKDAYS, "schedule_type": "weekly"}, "A good call: {"),
        ({**WEEKDAYS, "schedule_type": "once", "schedule_value": "2001-01-01T00:00:00"}, "2001"),
        ({**WEEKDAYS, "schedule_type": "once", "schedule_value": "tomorrow"}, "tomorrow"),
        ({**WEEKDAYS, "schedule_value": "* * * * *"}, "shortest interval"),
        ({**WEEKDAYS, "schedule_type": "interval", "schedule_value": "60000"}, "schedule_value='300000'"),
        ({**WEEKDAYS, "is_main": True}, "is_main: there is no such argument"),
        ({"prompt": "x"}, "schedule_type: Field required"),
        ({**WEEKDAYS, "prompt": "   "}, "prompt is empty"),
        ({**WEEKDAYS, "group": "work"}, "your own group"),
        ({**WEEKDAYS, "expires": "2126-01-01T00:00:00"}, "earlier 'expires'"),
    ],
)
async def test_what_is_wrong_is_said_so_that_it_can_be_put_right(
    staging: Staging, arguments: dict[str, Any], said: str
) -> None:
    async with staging(FREE) as scene, scene.connect("family") as client:
        assert said in await refused(client, "schedule_task", **arguments)
        assert await scene.operator.list_tasks() == []


async def test_a_group_neither_sees_nor_touches_another_and_main_does(staging: Staging) -> None:
    async with (
        staging(FREE) as scene,
        scene.connect("family") as family,
        scene.connect("work") as work,
        scene.connect("main") as main,
    ):
        task = (await call(family, "schedule_task", **WEEKDAYS))["task_id"]
        assert (await call(work, "list_tasks"))["tasks"] == []
        assert "not yours" in await refused(work, "list_tasks", group="family")
        for tool in ("pause_task", "resume_task", "cancel_task", "run_task", "update_task", "task_history"):
            assert "no schedule" in await refused(work, tool, task_id=task), "it looks like none at all"
        assert (await call(family, "list_tasks"))["tasks"][0]["status"] == "active"

        assert len((await call(main, "list_tasks", group="family"))["tasks"]) == 1
        made = await call(main, "schedule_task", **WEEKDAYS, group="work")
        assert (made["group"], len((await call(work, "list_tasks"))["tasks"])) == ("work", 1)
        assert (await call(main, "pause_task", task_id=task))["status"] == "paused"


async def test_what_an_agent_makes_waits_for_its_owner(staging: Staging) -> None:
    async with staging() as scene, scene.connect("family") as client:
        made = await call(client, "schedule_task", **WEEKDAYS)
        assert (made["status"], made["next_run"]) == ("waiting_for_approval", None)
        assert "approval" in made["message"]
        assert "waits for approval" in await refused(client, "run_task", task_id=made["task_id"])
        (asked,) = await scene.operator.waiting()
        await scene.operator.approve(made["task_id"], digest=asked.digest)
        assert (await call(client, "list_tasks"))["tasks"][0]["status"] == "active"
        changed = await call(client, "update_task", task_id=made["task_id"], prompt="Something else")
        assert (changed["prompt"], changed["has_waiting_change"]) == ("What changed?", True)


async def test_quotas_hold_however_many_ask_at_once(staging: Staging) -> None:
    async with staging(Rules(approval="none", max_schedules=3)) as scene:
        async with scene.connect("family") as one, scene.connect("family") as other:
            answers = await asyncio.gather(
                *(client.call_tool("schedule_task", WEEKDAYS) for client in (one, other) for _ in range(5))
            )
        assert sum(not getattr(answer, "is_error", True) for answer in answers) == 3
        assert len(await scene.operator.list_tasks(group="family")) == 3
        async with scene.connect("family") as client:
            assert "3 live schedules" in await refused(client, "schedule_task", **WEEKDAYS)


async def test_a_change_that_changes_nothing_or_would_never_run_is_refused(staging: Staging) -> None:
    async with staging(FREE) as scene, scene.connect("family") as client:
        task = (await call(client, "schedule_task", **WEEKDAYS))["task_id"]
        assert "Nothing was given" in await refused(client, "update_task", task_id=task)
        late = {"schedule_type": "once", "schedule_value": "2999-01-01T00:00:00"}
        assert "after it has expired" in await refused(client, "update_task", task_id=task, **late)
        assert (await call(client, "list_tasks"))["tasks"][0]["schedule_value"] == WEEKDAYS["schedule_value"]


async def test_a_scheduled_run_makes_and_starts_nothing(staging: Staging) -> None:
    async with staging(FREE) as scene:
        async with scene.connect("family") as chat:
            task = (await call(chat, "schedule_task", **WEEKDAYS))["task_id"]
        async with scene.connect("family", in_runs=True) as run:
            assert len((await call(run, "list_tasks"))["tasks"]) == 1
            for tool, arguments in (
                ("schedule_task", WEEKDAYS),
                ("update_task", {"task_id": task, "prompt": "more"}),
                ("run_task", {"task_id": task}),
            ):
                assert "A scheduled run may not" in await refused(run, tool, **arguments)
            assert (await call(run, "pause_task", task_id=task))["status"] == "paused"


async def test_a_token_has_the_tools_and_the_role_that_it_was_given(staging: Staging) -> None:
    async with staging(FREE) as scene:
        async with scene.connect("family", role=Role.VIEWER) as client:
            seen = {tool.name for tool in (await client.list_tools()).tools}
            assert seen == {"list_tasks", "task_history", "batch_status"}
            assert "not yours" in await refused(client, "schedule_task", **WEEKDAYS)
        async with scene.connect("family", tools=["list_tasks", "pause_task"]) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"list_tasks", "pause_task"}
            assert "not yours" in await refused(client, "cancel_task", task_id="x")
            assert "list_tasks" in await refused(client, "list_task"), "the nearest one is named"
        assert await scene.operator.list_tasks() == []


# --- the door --------------------------------------------------------------------------------------------------------

HELLO: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def knock(scene: Scene, secret: str | None = None, **headers: str) -> httpx.Response:
    bearer = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(scene.url, json=HELLO, headers={**ACCEPT, **bearer, **headers})


async def test_only_a_valid_token_of_an_agent_gets_in(staging: Staging) -> None:
    async with staging() as scene:
        secret = await scene.secret("family")
        assert (await knock(scene, secret)).status_code == 200
        nobody = await knock(scene)
        assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, "Bearer")
        assert (await knock(scene, "rota_" + "x" * 43)).status_code == 401
        tokens = Tokens(await scene.app.database())
        person = await tokens.add("ann", Role.ADMIN, created_by="test")
        assert (await knock(scene, person.secret)).status_code == 403, "a person's token is not for models"
        other = await tokens.add("other", Role.OPERATOR, created_by="test", scope={"project": "x"})
        assert (await knock(scene, other.secret)).status_code == 403
        found = await tokens.find(secret)
        assert found is not None
        await tokens.revoke(found.id)
        assert (await knock(scene, secret)).status_code == 401, "from the next call on"


async def test_rebinding_and_foreign_pages_are_refused(staging: Staging) -> None:
    async with staging(allowed_hosts=["rota.example.org"]) as scene:
        secret = await scene.secret("family")
        assert (await knock(scene, secret, Host="evil.example.com")).status_code == 400
        assert (await knock(scene, secret, Host=f"evil.example.com:{scene.port}")).status_code == 400
        assert (await knock(scene, secret, Host="rota.example.org")).status_code == 200
        assert (await knock(scene, secret, Origin="https://evil.example.com")).status_code == 403
        own = f"http://127.0.0.1:{scene.port}"
        assert (await knock(scene, secret, Origin=own)).status_code == 200


async def test_the_sdk_itself_is_told_which_hosts_and_origins_are_ours(staging: Staging) -> None:
    from mcp.server.transport_security import TransportSecurityMiddleware
    from starlette.requests import Request

    from rota.agents.faces.mcp.http import transport_security

    async with staging(allowed_hosts=["rota.example.org"]) as scene:
        door = TransportSecurityMiddleware(transport_security(scene.service))

    async def status(**headers: str) -> int | None:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        answer = await door.validate_request(Request({"type": "http", "headers": raw}))
        return None if answer is None else answer.status_code

    assert await status(host="127.0.0.1:8787") is None
    assert await status(host="rota.example.org", origin="https://rota.example.org") is None
    assert await status(host="evil.example.com:8787") == 421
    assert await status(host="localhost", origin="https://evil.example.com") == 403


async def test_what_is_too_much_or_no_call_at_all_is_said_and_nobody_else_suffers(staging: Staging) -> None:
    async with staging() as scene:
        headers = {
            **ACCEPT,
            "Authorization": f"Bearer {await scene.secret('family')}",
            "Content-Type": "application/json",
        }
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client, scene.connect("work") as other:
            huge = await client.post(scene.url, content=b"x" * 1_100_000)
            assert (huge.status_code, huge.json()["code"]) == (413, "body_too_large")
            for body in (b"", b"{", b"[]", b"[" * 50_000, b'"x"', b"\xff\xfe"):
                assert (await client.post(scene.url, content=body)).status_code == 400
            assert (await call(other, "list_tasks"))["tasks"] == []


async def test_whoever_hangs_up_in_the_middle_of_a_call_leaves_nothing_behind(staging: Staging) -> None:
    async with staging() as scene:
        secret = await scene.secret("family")
        body = json.dumps({**HELLO, "method": "tools/call", "params": {"name": "list_tasks", "arguments": {}}})
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\nAccept: {ACCEPT['Accept']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        assert (await knock(scene, secret)).status_code == 200
        before = len(asyncio.all_tasks())
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", scene.port)
            writer.write((head + body).encode())
            await writer.drain()
            writer.close()
        assert (await knock(scene, secret)).status_code == 200
        await until(lambda: len(asyncio.all_tasks()) <= before, "nobody works for those who are gone")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_is_no_stream_to_hold_and_no_session_to_end(staging: Staging, method: str) -> None:
    async with staging() as scene, httpx.AsyncClient(timeout=PATIENCE) as client:
        headers = {**ACCEPT, "Authorization": f"Bearer {await scene.secret('family')}"}
        assert (await client.request(method, scene.url, headers=headers)).status_code == 405


async def test_every_action_of_an_agent_is_in_the_audit_log_refused_or_not(staging: Staging) -> None:
    async with staging(FREE) as scene:
        async with scene.connect("family") as client:
            made = await call(client, "schedule_task", **WEEKDAYS)
            await refused(client, "schedule_task", **{**WEEKDAYS, "group": "work"})
            await call(client, "cancel_task", task_id=made["task_id"])
        entries, _ = await AuditLog(await scene.app.database()).page(AuditQuery())
        acted = [(entry.action, (entry.outcome or "").partition(":")[0]) for entry in entries if entry.via == "mcp"]
        assert acted == [
            ("agent.cancel_task", "ok"),
            ("agent.schedule_task", "not_allowed"),
            ("agent.schedule_task", "ok"),
        ]
        assert all(entry.actor.startswith("token:") for entry in entries if entry.via == "mcp")


async def test_over_the_api_an_agents_token_reaches_its_own_group_and_decides_nothing(staging: Staging) -> None:
    async with staging() as scene:
        own = await scene.operator.schedule_task(group="family", **WEEKDAYS)
        other = await scene.operator.schedule_task(group="work", **WEEKDAYS)
        base = scene.url.removesuffix("/mcp")
        chat = {"Authorization": f"Bearer {await scene.secret('family', role=Role.ADMIN)}"}
        async with httpx.AsyncClient(headers=chat, timeout=PATIENCE, base_url=f"{base}/api/agents") as client:
            assert [one["id"] for one in (await client.get("/schedules")).json()["items"]] == [own.id]
            assert [one["folder"] for one in (await client.get("/groups")).json()["items"]] == ["family"]
            assert (await client.get("/schedules", params={"group": "work"})).status_code == 403
            for path in (f"/schedules/{other.id}", f"/schedules/{other.id}/runs"):
                assert (await client.get(path)).status_code == 404
            assert (await client.post(f"/schedules/{other.id}/cancel")).status_code == 404
            wish = await client.post("/schedules", json=WEEKDAYS)
            assert (wish.status_code, wish.json()["status"]) == (201, "waiting_for_approval")
            decisions = [
                await client.post(f"/schedules/{wish.json()['id']}/approve", json={}),
                await client.post(f"/schedules/{wish.json()['id']}/reject"),
                await client.post(f"/schedules/{own.id}/stop"),
                await client.put("/switches/work", json={}),
                await client.delete("/switches/all"),
                await client.put("/groups/mine", json={"is_main": True}),
                await client.post("/groups/main/tokens", json={"name": "more"}),
            ]
            assert [answer.status_code for answer in decisions] == [403] * 7
            assert (await client.post(f"/schedules/{own.id}/pause")).json()["status"] == "paused"
        look = {"Authorization": f"Bearer {await scene.secret('family', role=Role.VIEWER)}"}
        async with httpx.AsyncClient(headers=look, timeout=PATIENCE, base_url=f"{base}/api/agents") as client:
            assert (await client.get("/schedules")).status_code == 200
            assert (await client.post(f"/schedules/{own.id}/resume")).status_code == 403


async def test_an_agents_token_opens_nothing_else(staging: Staging) -> None:
    async with staging() as scene:
        secret = await scene.secret("family", role=Role.ADMIN)
        base = scene.url.removesuffix("/mcp")
        async with httpx.AsyncClient(
            headers={"Authorization": f"Bearer {secret}"}, timeout=PATIENCE, base_url=base
        ) as client:
            for path in (
                "/api/types",
                "/api/tasks",
                "/api/schedules",
                "/api/tokens",
                "/api/audit",
                "/api/me",
                "/metrics",
            ):
                answer = await client.get(path)
                assert answer.status_code == 403, f"{path}: {answer.status_code}"
            assert (await client.post("/api/tasks/agent/x/cancel")).status_code == 403
