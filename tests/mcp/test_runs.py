"""A scheduled run that reaches the MCP server: as itself, for as long as it lasts, and as nothing more."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.mcp.conftest import Scene, Staging
from tests.mcp.test_http import FREE, WEEKDAYS, knock

from rota import Rota
from rota.access import AuditLog, Role, Tokens
from rota.access.audit import AuditQuery
from rota.agents import AgentSettings, Rules, install_agents
from rota.agents.isolation import Limits
from rota.agents.runs.run_tokens import MAKER
from rota.clock import DAY

# Calls the tools that its prompt names, with the token that it was given, and answers with what they answered.
AGENT = """
import json, os, sys, urllib.request
given = json.loads(sys.stdin.readline())
said = {"secret": os.environ["ROTA_MCP_TOKEN"], "run": os.environ["ROTA_RUN"], "answers": []}
for tool, arguments in json.loads(given["prompt"]):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "Authorization": "Bearer " + os.environ["ROTA_MCP_TOKEN"],
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(os.environ["ROTA_MCP_URL"], json.dumps(call).encode(), headers)
    result = json.loads(urllib.request.urlopen(request).read())["result"]
    said["answers"].append(result.get("structuredContent") or result["content"][0]["text"])
print(json.dumps({"status": "success", "result": said}))
"""


@asynccontextmanager
async def running(scene: Scene, url: str, rules: Rules, tmp_path: Path) -> AsyncGenerator[Rota]:
    """An instance beside the service whose runs are told where the service is."""
    app = Rota(url, clock=scene.clock, lease="5m")
    install_agents(
        app,
        AgentSettings(
            groups_dir=tmp_path / "groups",
            isolation="process",
            command=(sys.executable, "-c", AGENT),
            uid_base=None,
            rules=rules,
            mcp_url=scene.url,
            limits=Limits(wall_ms=60_000),
        ),
    )
    async with app:
        yield app


async def said_by_a_run(scene: Scene, app: Rota, calls: list[Any]) -> tuple[str, dict[str, Any]]:
    prompt = json.dumps(calls)
    made = await scene.operator.schedule_task(**{**WEEKDAYS, "prompt": prompt}, group="family")
    await scene.operator.run_task(made.id)
    assert await app.run_until_idle() == 1
    (row,) = (await scene.operator.task_history(made.id)).items
    assert row["status"] == "success", row["error"]
    return made.id, json.loads(row["whole_result"])


async def test_a_run_is_known_by_its_own_token_and_makes_nothing(
    staging: Staging, tmp_path: Path, sqlite_url: str
) -> None:
    async with staging(FREE) as scene, running(scene, sqlite_url, FREE, tmp_path) as app:
        other = await scene.operator.schedule_task(**WEEKDAYS, group="work")
        calls: list[Any] = [
            ("list_tasks", {}),
            ("schedule_task", WEEKDAYS),
            ("cancel_task", {"task_id": other.id}),
        ]
        schedule_id, said = await said_by_a_run(scene, app, calls)
        listed, scheduled, cancelled = said["answers"]
        assert [task["task_id"] for task in listed["tasks"]] == [schedule_id]
        assert "A scheduled run may not" in scheduled
        assert "no schedule" in cancelled
        entries, _ = await AuditLog(await scene.app.database()).page(AuditQuery())
        assert {entry.actor for entry in entries if entry.via == "mcp"} == {f"run:{said['run']}"}

        assert (await knock(scene, said["secret"])).status_code == 401, "it ends with the run"
        names = [token.name for token in await Tokens(await scene.app.database()).list()]
        assert not any(name.startswith("run ") for name in names), "and leaves nothing behind"


async def test_what_a_run_makes_where_it_may_names_the_run(staging: Staging, tmp_path: Path, sqlite_url: str) -> None:
    rules = Rules(approval="none", max_depth=2)
    async with staging(rules) as scene, running(scene, sqlite_url, rules, tmp_path) as app:
        _, said = await said_by_a_run(scene, app, [("schedule_task", WEEKDAYS)])
        made = await scene.operator.get_task(said["answers"][0]["task_id"])
        assert (made.made_by, made.made_in_run) == ("agent:family", said["run"])


async def test_what_a_dead_instance_leaves_behind_is_swept_when_its_time_is_up(staging: Staging) -> None:
    async with staging() as scene:
        tokens = Tokens(await scene.app.database())
        now = await scene.agents.now()
        scope = {"group": "family", "run": "task-1-1"}
        over = await tokens.add("run over", Role.OPERATOR, created_by=MAKER, expires_at=now - DAY, scope=scope)
        live = await tokens.add("run live", Role.OPERATOR, created_by=MAKER, expires_at=now + DAY, scope=scope)
        persons = await tokens.add("ann's", Role.ADMIN, created_by="ann", expires_at=now - DAY)
        assert (await knock(scene, over.secret)).status_code == 401
        await scene.agents.prune()
        left = {token.id for token in await tokens.list()}
        assert over.token.id not in left
        assert {live.token.id, persons.token.id} <= left
