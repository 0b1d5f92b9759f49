"""The tools: what a model reads about each, what it may say, and which call of the `AgentOperator` it becomes.

Descriptions speak to the model that calls. Who calls is never among the arguments: it is the server's own identity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, Literal, Protocol, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

from rota.agents.faces.mcp.tool_answers import (
    RunsAnswer,
    TaskAnswer,
    TasksAnswer,
    in_words,
    runs_answer,
    task_answer,
    tasks_answer,
)
from rota.agents.operator import AgentOperator
from rota.agents.schedules.schedule import AgentSchedule
from rota.part import AgentTool

__all__ = ["EXAMPLES", "TOOLS", "Speaking", "brought"]

Here = Context[Any, Any]
ScheduleType = Literal["cron", "interval", "once"]
ContextMode = Literal["isolated", "group"]

TaskId = Annotated[
    str, Field(min_length=1, max_length=255, description="The task_id that schedule_task and list_tasks give.")
]
Prompt = Annotated[
    str,
    Field(
        min_length=1,
        max_length=32_000,
        description="What the agent should do at each run. It remembers nothing of this conversation unless"
        " context_mode is 'group', so say everything that it needs to know.",
    ),
]
Value = Annotated[
    str,
    Field(
        min_length=1,
        max_length=255,
        description="For cron: five fields, e.g. '0 9 * * 1-5' (weekdays at 9). For interval: milliseconds, e.g."
        " '3600000', or a duration like '1h30m'. For once: a local time like '2026-03-01T15:30:00', without an offset."
        " All in the group's time zone.",
    ),
]
Script = Annotated[
    str | None,
    Field(
        max_length=32_000,
        description="A small bash script (or one with a #! line) that runs first, for at most 30 s. Its last line must"
        ' be JSON: {"wakeAgent": true, "data": {...}} wakes the agent with the data, {"wakeAgent": false} skips the'
        " run and costs nothing. Leave it out if the agent should always run.",
    ),
]
Mode = Annotated[
    ContextMode,
    Field(description="'isolated': a fresh session each time (the default). 'group': goes on in the group's chat."),
]
Expires = Annotated[
    str | None,
    Field(max_length=64, description="When it ends by itself, a local time like '2026-03-31T00:00:00'."),
]
GroupName = Annotated[
    str | None,
    Field(max_length=64, description="Only the main group may name another group's folder. Leave it out otherwise."),
]


class Speaking(Protocol):
    """A server that acts for somebody."""

    @property
    def operator(self) -> AgentOperator: ...


def _operator(context: Here) -> AgentOperator:
    return cast("Speaking", context.mcp_server).operator


async def schedule_task(
    context: Here,
    prompt: Prompt,
    schedule_type: Annotated[
        ScheduleType, Field(description="cron: by the calendar. interval: again and again. once: a single time.")
    ],
    schedule_value: Value,
    context_mode: Mode = "isolated",
    script: Script = None,
    expires: Expires = None,
    group: GroupName = None,
) -> TaskAnswer:
    """Schedule a task: an agent of this group runs with the prompt at the given times. The owner may have to approve it
    first; the answer says so, and until then nothing runs."""
    made = await _operator(context).schedule_task(
        prompt=prompt,
        schedule_type=schedule_type,
        schedule_value=schedule_value,
        context_mode=context_mode,
        script=script,
        expires=expires,
        group=group,
    )
    return task_answer(made, f"Scheduled as {made.id}. {in_words(made)}")


async def list_tasks(
    context: Here,
    group: GroupName = None,
    include_finished: Annotated[bool, Field(description="Also those that are completed or cancelled.")] = False,
) -> TasksAnswer:
    """List this group's scheduled tasks, with their next times, what came of the last run, and what waits for approval.
    Only the main group sees other groups' tasks."""
    return tasks_answer(await _operator(context).list_tasks(group=group, finished=include_finished))


async def update_task(
    context: Here,
    task_id: TaskId,
    prompt: Annotated[str | None, Field(max_length=32_000, description="The new prompt.")] = None,
    schedule_type: ScheduleType | None = None,
    schedule_value: Annotated[str | None, Field(max_length=255, description="As for schedule_task.")] = None,
    context_mode: ContextMode | None = None,
    script: Annotated[str | None, Field(max_length=32_000, description="A new script; '' takes it away.")] = None,
    expires: Expires = None,
) -> TaskAnswer:
    """Change a scheduled task: what is given is changed, what is left out stays. The owner may have to approve the
    change; until then the task goes on as it was."""
    changed = await _operator(context).update_task(
        task_id,
        prompt=prompt,
        schedule_type=schedule_type,
        schedule_value=schedule_value,
        context_mode=context_mode,
        script=script,
        expires=expires,
    )
    waits = "The change waits for the owner's approval." if changed.has_proposal else f"{task_id} is changed."
    return task_answer(changed, f"{waits} {in_words(changed)}")


async def pause_task(context: Here, task_id: TaskId) -> TaskAnswer:
    """Hold a scheduled task back until resume_task. The times that pass meanwhile are skipped."""
    return _changed(await _operator(context).pause_task(task_id), "pause", "paused")


async def resume_task(context: Here, task_id: TaskId) -> TaskAnswer:
    """Let a paused task go on with its next time. One that was paused because it failed is for the owner to resume."""
    return _changed(await _operator(context).resume_task(task_id), "resume", "resumed")


async def cancel_task(context: Here, task_id: TaskId) -> TaskAnswer:
    """End a scheduled task for good. A run that is under way is stopped, unless it is the one that asks: that one is
    its last. Its history stays. To hold it back for a while use pause_task."""
    return _changed(await _operator(context).cancel_task(task_id), "cancel", "cancelled")


async def run_task(context: Here, task_id: TaskId) -> TaskAnswer:
    """Run a scheduled task once, now, beside its normal times, which stay as they are."""
    return _changed(await _operator(context).run_task(task_id), "run", "run now")


async def task_history(
    context: Here,
    task_id: TaskId,
    limit: Annotated[int, Field(ge=1, le=50, description="How many runs.")] = 10,
    cursor: Annotated[str | None, Field(max_length=255, description="From the last answer, for older runs.")] = None,
) -> RunsAnswer:
    """What became of a scheduled task: its runs with their results, and the times that were skipped, newest first."""
    operator = _operator(context)
    page = await operator.task_history(task_id, limit=limit, cursor=cursor)
    return runs_answer(page.items, page.cursor, await operator.timezone())


def _changed(schedule: AgentSchedule, verb: str, done: str) -> TaskAnswer:
    if schedule.asks_for == verb:
        waits = f"To {verb} {schedule.id} is for the owner to decide: it waits for their approval, and nothing changed."
        return task_answer(schedule, f"{waits} {in_words(schedule)}")
    return task_answer(schedule, f"{schedule.id} is {done}. {in_words(schedule)}")


# --- as the SDK wants them -------------------------------------------------------------------------------------------


def _tool(
    function: Callable[..., Any],
    title: str,
    *,
    name: str | None = None,
    caller: str | None = None,
    reads: bool = False,
    destroys: bool = False,
    again: bool = False,
) -> Tool:
    hints = ToolAnnotations(
        title=title, read_only_hint=reads, destructive_hint=destroys, idempotent_hint=again, open_world_hint=False
    )
    tool = Tool.from_function(
        function, name=name, title=title, context_kwarg=caller, annotations=hints, structured_output=True
    )
    # An argument that does not exist is a misunderstanding, or an attempt: neither is to be passed over.
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


@cache
def brought(tool: AgentTool) -> Tool:
    """A tool that another part brings. It is called with whoever calls, in the place of the SDK's context."""
    made = _tool(tool.function, tool.title, name=tool.name, caller="caller", reads=tool.reads, again=tool.reads)

    async def call(caller: Here, **arguments: Any) -> Any:
        return await tool.function(caller=await _operator(caller).tool_caller(tool), **arguments)

    made.fn = call
    return made


TOOLS: Final[tuple[Tool, ...]] = (
    _tool(schedule_task, "Schedule a task"),
    _tool(list_tasks, "List scheduled tasks", reads=True, again=True),
    _tool(update_task, "Change a scheduled task", destroys=True, again=True),
    _tool(pause_task, "Pause a scheduled task", again=True),
    _tool(resume_task, "Resume a scheduled task", again=True),
    _tool(cancel_task, "Cancel a scheduled task", destroys=True, again=True),
    _tool(run_task, "Run a scheduled task now"),
    _tool(task_history, "Show what became of a task", reads=True, again=True),
)

_BY_ID: Final = '{"task_id": "task-1767603600000-1a2b3c"}'
EXAMPLES: Final = {
    "schedule_task": '{"prompt": "Tell me what changed today.", "schedule_type": "cron",'
    ' "schedule_value": "0 9 * * 1-5"}',
    "list_tasks": "{}",
    "update_task": '{"task_id": "task-1767603600000-1a2b3c", "schedule_value": "0 10 * * 1-5"}',
    "task_history": '{"task_id": "task-1767603600000-1a2b3c", "limit": 5}',
    **dict.fromkeys(("pause_task", "resume_task", "cancel_task", "run_task"), _BY_ID),
}
"""A good call of each, for whoever got one wrong."""
