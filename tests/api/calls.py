"""One good call of every operation, by its id: what each route does when all is well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
from sqlalchemy import Connection, insert, update
from tests.api.stage import Stage

from rota.agents import AGENT, Caller, agents_of
from rota.agents.runs.run_store import RunStart, RunStore
from rota.alerts.silences import Silences
from rota.batches import batches_of
from rota.clock import HOUR
from rota.core.task_type import TaskType
from rota.database.tables.events import inbox, outbox
from rota.events import Event, Handles
from rota.events.kept import Kept, keep
from rota.stores.base import ClaimRequest

__all__ = ["CALLS", "Call", "check_problem", "dead_letters", "failed_task", "perform"]

FAR_AWAY: Final = 4_102_444_800_000
"""2100, in milliseconds."""


@dataclass(frozen=True)
class Call:
    """How to call an operation, what it answers, and the action that the audit log keeps of it."""

    method: str
    path: str
    json: object = None
    status: int = 200
    action: str | None = None
    prepare: Callable[[Stage], Awaitable[Mapping[str, str]]] | None = None


async def nothing(stage: Stage) -> Mapping[str, str]:
    return {}


async def a_task(stage: Stage) -> Mapping[str, str]:
    await stage.app.schedule("job", {"n": 1}, key="t1", delay="1h")
    return {}


async def a_paused_task(stage: Stage) -> Mapping[str, str]:
    await a_task(stage)
    await stage.app.tasks.pause("job", "t1")
    return {}


async def a_schedule(stage: Stage) -> Mapping[str, str]:
    await stage.app.schedules.upsert("morning", type="job", cron="0 9 * * *", timezone="Europe/Berlin")
    return {}


async def a_paused_schedule(stage: Stage) -> Mapping[str, str]:
    await a_schedule(stage)
    await stage.app.schedules.pause("morning", "job")
    return {}


async def a_group(stage: Stage) -> Mapping[str, str]:
    store = await stage.app.store()
    await store.put_types([TaskType(name=AGENT)])
    await (await agents_of(stage.app).groups()).add("family")
    return {}


async def an_agent(stage: Stage) -> Mapping[str, str]:
    await a_group(stage)
    made = await agents_of(stage.app).schedule_task(
        Caller.person("ann"), group="family", prompt="x", schedule_type="interval", schedule_value="1h"
    )
    return {"agent": made.id}


async def a_paused_agent(stage: Stage) -> Mapping[str, str]:
    values = await an_agent(stage)
    await agents_of(stage.app).pause_task(Caller.person("ann"), values["agent"])
    return values


async def a_running_agent(stage: Stage) -> Mapping[str, str]:
    values = await an_agent(stage)
    await agents_of(stage.app).run_task(Caller.person("ann"), values["agent"])
    store = await stage.app.store()
    (task,) = (await store.claim(ClaimRequest(wants=[(AGENT, 1)], instance="i", claim_id="c", lease_ms=60_000))).tasks
    start = RunStart(id=values["agent"], folder="family", token=task.token)
    await RunStore(await stage.app.database()).start(start)
    return values


async def a_wish(stage: Stage) -> Mapping[str, str]:
    await a_group(stage)
    made = await agents_of(stage.app).schedule_task(
        Caller.agent("family"), prompt="x", schedule_type="interval", schedule_value="1h"
    )
    return {"agent": made.id}


async def failed_task(stage: Stage) -> Mapping[str, str]:
    await stage.app.schedule("broken", key="dead")
    await stage.app.run_until_idle()
    return {}


async def a_run(stage: Stage) -> Mapping[str, str]:
    await failed_task(stage)
    return {"run_id": (await stage.app.runs("broken")).items[0].run_id}


async def a_failure(stage: Stage) -> Mapping[str, str]:
    await failed_task(stage)
    (found,) = await (await stage.app.store()).failures("broken")
    return {"failure": found.group.id}


async def a_muted_failure(stage: Stage) -> Mapping[str, str]:
    values = await a_failure(stage)
    await (await stage.app.store()).mute_failure("broken", values["failure"], FAR_AWAY, "test")
    return values


async def a_user(stage: Stage) -> Mapping[str, str]:
    await stage.app.touch("upkeep", "u1")
    return {}


async def a_token(stage: Stage) -> Mapping[str, str]:
    from rota.access import Role

    made = await (await stage.service.tokens()).add("spare", Role.VIEWER, created_by="test")
    return {"id": made.token.id}


async def a_closed_feed(stage: Stage) -> Mapping[str, str]:
    await stage.service.feed.close()  # else the answer would never end
    return {}


async def an_unfinished_erasure(stage: Stage) -> Mapping[str, str]:
    await stage.app.schedule("upkeep", user_id="u1")
    store = await stage.app.store()
    await store.claim(ClaimRequest(wants=[("upkeep", 1)], instance="i", claim_id="c", lease_ms=60_000))
    await store.erase_user("u1")
    return {}


async def a_memory(stage: Stage) -> Mapping[str, str]:
    from rota.memory import ChatMessagePush, memory_of

    pushed = await memory_of(stage.app).push_message(ChatMessagePush(user_id="u1", content="I live in Oslo."))
    return {"context_id": str(pushed.context_id)}


async def an_event(stage: Stage) -> Mapping[str, str]:
    events = await stage.app.events()
    (event_id,) = await events.outbox.publish(Event(event_type="Shop.Order.Created", aggregate_id="o1", payload=1))
    return {"event_id": event_id}


async def a_dead_event(stage: Stage) -> Mapping[str, str]:
    """One that a consumer has given up, and one that the bus has refused."""
    values = await an_event(stage)
    event_id = values["event_id"]
    row = {"event_id": event_id, "consumer": "billing", "topic": "rota.shop.order", "key": "o1", "status": "dead"}
    kept = keep(Kept(0, "1", {"event_type": "Shop.Order.Created"}, '{"total": 12}'))

    def write(connection: Connection) -> None:
        connection.execute(insert(inbox).values(**row, attempts=5, error="it broke", envelope=kept, at=1))
        connection.execute(update(outbox).values(status="dead", error="too large", sent_at=1))

    await (await stage.app.database()).write(write)
    return values


async def a_consumer(stage: Stage) -> Mapping[str, str]:
    async def bill(event: Event) -> None: ...

    stage.app.consumer("Shop.Order.Created", name="billing")(bill)
    return {}


async def a_handle(stage: Stage) -> Mapping[str, str]:
    handles = Handles(await stage.app.database())
    handle_id = await handles.database.write(
        lambda connection: handles.create(
            connection, correlation_id="b1", expected=["Shop.Order.Created"], expected_count=2, task_name="orders"
        )
    )
    return {"handle": handle_id}


async def a_batch(stage: Stage) -> Mapping[str, str]:
    batch = await batches_of(stage.app).start("location_name", 12, style="norse")
    return {"batch": batch.id}


async def a_paused_batch(stage: Stage) -> Mapping[str, str]:
    values = await a_batch(stage)
    await batches_of(stage.app).pause(values["batch"])
    return values


async def an_ended_batch(stage: Stage) -> Mapping[str, str]:
    values = await a_batch(stage)
    await batches_of(stage.app).cancel(values["batch"])
    return values


async def a_silence(stage: Stage) -> Mapping[str, str]:
    await Silences(await stage.app.database()).add("late", "", 4 * HOUR, "test")
    return {}


CALLS: Final[Mapping[str, Call]] = {
    "check_alive": Call("GET", "/healthz"),
    "check_ready": Call("GET", "/readyz"),
    "read_metrics": Call("GET", "/metrics"),
    "who_am_i": Call("GET", "/api/me"),
    "describe_api": Call("GET", "/api/openapi.json"),
    "follow_changes": Call("GET", "/api/live", prepare=a_closed_feed),
    "list_types": Call("GET", "/api/types"),
    "get_type": Call("GET", "/api/types/job"),
    "change_type": Call("PATCH", "/api/types/job", {"frozen": True, "concurrency": 3}, action="type.override"),
    "list_tasks": Call("GET", "/api/tasks", prepare=a_task),
    "schedule_task": Call("POST", "/api/tasks", {"task_type": "job", "delay": "5m"}, 201, "task.schedule"),
    "change_tasks": Call(
        "POST",
        "/api/tasks/bulk",
        {"event": "pause", "query": {"task_type": "job"}},
        action="tasks.pause",
        prepare=a_task,
    ),
    "get_task": Call("GET", "/api/tasks/job/t1", prepare=a_task),
    "explain_task": Call("GET", "/api/tasks/job/t1/explain", prepare=a_task),
    "list_runs_of_task": Call("GET", "/api/tasks/broken/dead/runs", prepare=failed_task),
    "pause_task": Call("POST", "/api/tasks/job/t1/pause", action="task.pause", prepare=a_task),
    "resume_task": Call("POST", "/api/tasks/job/t1/resume", action="task.resume", prepare=a_paused_task),
    "cancel_task": Call("POST", "/api/tasks/job/t1/cancel", action="task.cancel", prepare=a_task),
    "run_now_task": Call("POST", "/api/tasks/job/t1/run-now", action="task.run_now", prepare=a_task),
    "redrive_task": Call("POST", "/api/tasks/broken/dead/redrive", action="task.redrive", prepare=failed_task),
    "run_task_again": Call("POST", "/api/tasks/broken/dead/again", {}, 201, "task.run_again", failed_task),
    "purge_task": Call("POST", "/api/tasks/broken/dead/purge", None, 204, "task.purge", failed_task),
    "reset_task": Call("POST", "/api/tasks/upkeep/u1:default:default/reset", None, 204, "task.reset"),
    "list_schedules": Call("GET", "/api/schedules", prepare=a_schedule),
    "preview_schedule": Call("POST", "/api/schedules/preview", {"cron": "0 9 * * 1-5"}),
    "get_schedule": Call("GET", "/api/schedules/job/morning", prepare=a_schedule),
    "put_schedule": Call("PUT", "/api/schedules/job/evening", {"every": "30m"}, action="schedule.upsert"),
    "list_fires": Call("GET", "/api/schedules/job/morning/fires?n=3", prepare=a_schedule),
    "pause_schedule": Call("POST", "/api/schedules/job/morning/pause", action="task.pause", prepare=a_schedule),
    "resume_schedule": Call(
        "POST", "/api/schedules/job/morning/resume", action="task.resume", prepare=a_paused_schedule
    ),
    "cancel_schedule": Call("POST", "/api/schedules/job/morning/cancel", action="task.cancel", prepare=a_schedule),
    "run_now_schedule": Call("POST", "/api/schedules/job/morning/run-now", action="task.run_now", prepare=a_schedule),
    "list_runs": Call("GET", "/api/runs?task_type=broken", prepare=failed_task),
    "get_waterfall_of_task": Call("GET", "/api/tasks/job/t1/waterfall", prepare=a_task),
    "get_run": Call("GET", "/api/runs/{run_id}", prepare=a_run),
    "list_failures": Call("GET", "/api/failures?task_type=broken", prepare=failed_task),
    "get_failure": Call("GET", "/api/failures/broken/{failure}", prepare=a_failure),
    "redrive_failure": Call(
        "POST", "/api/failures/broken/{failure}/redrive", {}, action="tasks.redrive", prepare=a_failure
    ),
    "mute_failure": Call(
        "POST", "/api/failures/broken/{failure}/mute", {"duration": "4h"}, action="failure.mute", prepare=a_failure
    ),
    "unmute_failure": Call(
        "POST", "/api/failures/broken/{failure}/unmute", action="failure.mute", prepare=a_muted_failure
    ),
    "list_dead_letters": Call("GET", "/api/dead-letters", prepare=failed_task),
    "redrive_dead_letters": Call(
        "POST", "/api/dead-letters/redrive", {"all": True}, action="tasks.redrive", prepare=failed_task
    ),
    "purge_dead_letters": Call(
        "POST", "/api/dead-letters/purge", {"task_type": "broken"}, action="tasks.purge", prepare=failed_task
    ),
    "touch": Call("POST", "/api/touch", {"task_type": "upkeep", "user_id": "u1"}),
    "push_chat": Call("POST", "/api/push/chat", {"user_id": "u1", "messages": [{"content": "I live in Oslo."}]}),
    "push_chat_message": Call("POST", "/api/push/chat/message", {"user_id": "u1", "content": "I live in Oslo."}),
    "push_screenshot": Call("POST", "/api/push/screenshot", {"user_id": "u1", "text": "Oslo S", "app": "maps"}),
    "push_document": Call("POST", "/api/push/document", {"user_id": "u1", "text": "Oslo is a city.", "title": "Oslo"}),
    "get_memory_stats": Call("GET", "/api/memory/stats"),
    "get_user_memory_stats": Call("GET", "/api/memory/u1/stats", prepare=a_memory),
    "list_contexts": Call("GET", "/api/memory/u1/contexts?state=fresh", prepare=a_memory),
    "get_context": Call("GET", "/api/memory/u1/contexts/{context_id}", prepare=a_memory),
    "search_memory": Call("GET", "/api/memory/u1/search?text=oslo", prepare=a_memory),
    "list_queues": Call("GET", "/api/queues"),
    "list_instances": Call("GET", "/api/instances"),
    "get_overview": Call("GET", "/api/overview?minutes=5"),
    "monitor_scheduler": Call("GET", "/api/monitoring/scheduler?hours=1"),
    "monitor_queues": Call("GET", "/api/monitoring/scheduler/queues"),
    "monitor_failures": Call("GET", "/api/monitoring/scheduler/failures?hours=1"),
    "export_user": Call("GET", "/api/users/u1/export", action="user.export", prepare=a_user),
    "erase_user": Call("DELETE", "/api/users/u1", None, 202, "user.erase", a_user),
    "get_erasure": Call("GET", "/api/users/u1/erasure", prepare=an_unfinished_erasure),
    "list_tokens": Call("GET", "/api/tokens"),
    "add_token": Call("POST", "/api/tokens", {"name": "deploy", "role": "viewer"}, 201, "token.add"),
    "revoke_token": Call("DELETE", "/api/tokens/{id}", action="token.revoke", prepare=a_token),
    "list_audit": Call("GET", "/api/audit"),
    "list_alerts": Call("GET", "/api/alerts"),
    "list_alert_rules": Call("GET", "/api/alerts/rules"),
    "silence_alert": Call("POST", "/api/alerts/rules/late/silence", {"duration": "4h"}, action="alert.silence"),
    "unsilence_alert": Call(
        "POST", "/api/alerts/rules/late/unsilence", {}, 204, action="alert.unsilence", prepare=a_silence
    ),
    "list_alert_kinds": Call("GET", "/api/alerts/kinds"),
    "list_events": Call("GET", "/api/events?status=new&topic=rota.shop.order", prepare=an_event),
    "get_event": Call("GET", "/api/events/{event_id}", prepare=a_dead_event),
    "publish_events": Call(
        "POST",
        "/api/events",
        {"events": [{"event_type": "Shop.Order.Created", "aggregate_id": "o1", "payload": {"total": 12}}]},
        201,
        "event.publish",
    ),
    "list_dead_events": Call("GET", "/api/events/dead?consumer=billing", prepare=a_dead_event),
    "redrive_dead_events": Call(
        "POST", "/api/events/dead/redrive", {"all": True}, action="event.redrive", prepare=a_dead_event
    ),
    "purge_dead_events": Call(
        "POST", "/api/events/dead/purge", {"consumer": "billing"}, action="event.purge", prepare=a_dead_event
    ),
    "list_event_consumers": Call("GET", "/api/events/consumers", prepare=a_consumer),
    "replay_events": Call(
        "POST", "/api/events/replay", {"consumer": "billing", "last": "1h"}, action="event.replay", prepare=a_consumer
    ),
    "get_outbox": Call("GET", "/api/outbox", prepare=an_event),
    "retry_outbox": Call("POST", "/api/outbox/retry", {"all": True}, action="outbox.retry", prepare=a_dead_event),
    "list_handles": Call("GET", "/api/handles?status=pending", prepare=a_handle),
    "get_handle": Call("GET", "/api/handles/{handle}", prepare=a_handle),
    "create_handle": Call(
        "POST",
        "/api/handles",
        {
            "correlation_id": "b1",
            "expected": ["Shop.Order.Created"],
            "failed_types": ["Shop.Order.Failed"],
            "expected_count": 3,
            "task_name": "orders",
            "timeout": "3600s",
        },
        201,
        "handle.create",
    ),
    "resume_handle": Call("POST", "/api/handles/{handle}/resume", None, 200, "handle.resume", a_handle),
    "list_batches": Call("GET", "/api/batches?status=running&type=location_name&owner=app", prepare=a_batch),
    "get_batch": Call("GET", "/api/batches/{batch}", prepare=a_batch),
    "list_batch_subtasks": Call("GET", "/api/batches/{batch}/subtasks", prepare=a_batch),
    "list_batch_items": Call("GET", "/api/batches/{batch}/items?outcome=all", prepare=a_batch),
    "follow_batch": Call("GET", "/api/batches/{batch}/events", prepare=an_ended_batch),
    "start_batch": Call(
        "POST",
        "/api/batches",
        {"type": "character_name", "count": 20, "style": {"mood": "grim"}, "deadline": "10m", "resume": {}},
        202,
        "batch.start",
    ),
    "pause_batch": Call("POST", "/api/batches/{batch}/pause", action="batch.pause", prepare=a_batch),
    "resume_batch": Call("POST", "/api/batches/{batch}/resume", action="batch.resume", prepare=a_paused_batch),
    "cancel_batch": Call("POST", "/api/batches/{batch}/cancel", action="batch.cancel", prepare=a_batch),
    "get_batch_switches": Call("GET", "/api/batches/switches"),
    "freeze_batches": Call("POST", "/api/batches/freeze", action="batch.freeze"),
    "degrade_batches": Call("POST", "/api/batches/degrade", action="batch.degrade"),
    "restore_batches": Call("POST", "/api/batches/restore", action="batch.restore"),
    "list_agents": Call("GET", "/api/agents/schedules", prepare=an_agent),
    "get_agent": Call("GET", "/api/agents/schedules/{agent}", prepare=an_agent),
    "list_agent_runs": Call("GET", "/api/agents/schedules/{agent}/runs", prepare=an_agent),
    "list_running_agents": Call("GET", "/api/agents/running"),
    "list_waiting_agents": Call("GET", "/api/agents/waiting", prepare=a_wish),
    "list_agent_groups": Call("GET", "/api/agents/groups", prepare=an_agent),
    "schedule_agent": Call(
        "POST",
        "/api/agents/schedules",
        {"group": "family", "prompt": "What changed?", "schedule_type": "cron", "schedule_value": "0 9 * * *"},
        201,
        "agent.schedule_task",
        a_group,
    ),
    "change_agent": Call(
        "PATCH", "/api/agents/schedules/{agent}", {"prompt": "What else?"}, 200, "agent.update_task", an_agent
    ),
    "pause_agent": Call("POST", "/api/agents/schedules/{agent}/pause", None, 200, "agent.pause_task", an_agent),
    "resume_agent": Call(
        "POST", "/api/agents/schedules/{agent}/resume", None, 200, "agent.resume_task", a_paused_agent
    ),
    "cancel_agent": Call("POST", "/api/agents/schedules/{agent}/cancel", None, 200, "agent.cancel_task", an_agent),
    "run_now_agent": Call("POST", "/api/agents/schedules/{agent}/run-now", None, 200, "agent.run_task", an_agent),
    "approve_agent": Call("POST", "/api/agents/schedules/{agent}/approve", {}, 200, "agent.approve", a_wish),
    "reject_agent": Call("POST", "/api/agents/schedules/{agent}/reject", None, 200, "agent.reject", a_wish),
    "stop_agent": Call("POST", "/api/agents/schedules/{agent}/stop", None, 204, "agent.stop", a_running_agent),
    "kill_agents": Call("PUT", "/api/agents/switches/all", {"reason": "enough"}, 200, "agent.kill"),
    "revive_agents": Call("DELETE", "/api/agents/switches/family", None, 204, "agent.revive", a_group),
    "add_agent_group": Call("PUT", "/api/agents/groups/work", {"timezone": "Asia/Tokyo"}, 201, "agent.group.add"),
    "remove_agent_group": Call("DELETE", "/api/agents/groups/family", None, 204, "agent.group.remove", a_group),
    "add_agent_token": Call(
        "POST", "/api/agents/groups/family/tokens", {"name": "chat"}, 201, "agent.token.add", a_group
    ),
}


async def perform(stage: Stage, call: Call) -> Any:
    """Prepare, and call as an admin."""
    values = await (call.prepare or nothing)(stage)
    return await stage.admin.request(call.method, call.path.format(**values), json=call.json)


async def dead_letters(stage: Stage, count: int) -> None:
    """So many tasks that ended failed."""
    for number in range(count):
        await stage.app.schedule("broken", key=f"d{number}")
    await stage.app.run_until_idle()


def check_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The answer is a problem of this kind; gives its members."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert set(problem) >= {"type", "title", "status", "detail", "code", "instance"}
    assert problem["type"] == f"urn:rota:problem:{code}"
    assert problem["instance"] == answer.request.url.raw_path.decode().partition("?")[0]
    assert problem["detail"].strip()
    return problem
