"""Scheduled agents: for people by their role, and for the agents of a group by a token that is narrowed to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query

from rota.access import Role
from rota.agents import AgentSchedule, ChannelSettings, agents_of
from rota.agents.faces.models import (
    AgentRunModel,
    AgentRunningsModel,
    AgentScheduleModel,
    AgentSchedulesModel,
    AgentTokenModel,
    AgentTokenRequest,
    ApproveRequest,
    ChangeAgentRequest,
    GroupModel,
    GroupRequest,
    GroupsModel,
    KillRequest,
    ScheduleAgentRequest,
    SwitchModel,
)
from rota.agents.operator import AgentOperator
from rota.api.auth import Calling, Viewing
from rota.api.models import PageModel
from rota.api.paging import Cursor
from rota.api.paths import KeyInPath
from rota.api.routing import routes_for

__all__ = ["acting", "deciding", "governing", "router"]

PREFIX: Final = "/api/agents"


# A group's own agents may use these too; what they see and may do there, the operator decides.
router: Final = routes_for(Role.VIEWER, tag="agents", prefix=PREFIX, for_agents=True)
acting: Final = routes_for(Role.OPERATOR, tag="agents", prefix=PREFIX, for_agents=True)
deciding: Final = routes_for(Role.OPERATOR, tag="agents", prefix=PREFIX)
governing: Final = routes_for(Role.ADMIN, tag="agents", prefix=PREFIX)


async def operator_of(service: Viewing, principal: Calling) -> AgentOperator:
    """Acts in the name of whoever was let in."""
    return AgentOperator(agents_of(service.app), principal, service.app.database)


At = Annotated[AgentOperator, Depends(operator_of)]
FolderInPath = Annotated[
    str, Path(description="The group's folder.", pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)
]
ScopeInPath = Annotated[
    str, Path(description="A group's folder, or `all`.", pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)
]
GroupQuery = Annotated[
    str | None, Query(pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64, description="Only those of this group.")
]
Finished = Annotated[bool, Query(description="Those that are over, too.")]


# --- queries ---------------------------------------------------------------------------------------------------------


@router.get("/schedules", operation_id="list_agents", response_model=AgentSchedulesModel)
async def list_agents(operator: At, group: GroupQuery = None, finished: Finished = False) -> dict[str, Any]:
    """The scheduled agents, and after them what waits for approval."""
    return {"items": [one.to_dict() for one in await operator.list_tasks(group=group, finished=finished)]}


@router.get("/schedules/{id}", operation_id="get_agent", response_model=AgentScheduleModel)
async def get_agent(operator: At, id: KeyInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
    """One scheduled agent."""
    return (await operator.get_task(id)).to_dict()


@router.get("/schedules/{id}/runs", operation_id="list_agent_runs", response_model=PageModel[AgentRunModel])
async def list_agent_runs(
    operator: At,
    id: KeyInPath,  # noqa: A002 - the word of the address
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=200, description="At most so many.")] = 20,
) -> dict[str, Any]:
    """Its runs, and the fires that were not run, newest first."""
    page = await operator.task_history(id, limit=limit, cursor=cursor)
    return {"items": page.items, "cursor": page.cursor}


@router.get("/running", operation_id="list_running_agents", response_model=AgentRunningsModel)
async def list_running_agents(operator: At) -> dict[str, Any]:
    """What runs now, with the last of its output."""
    return {"items": [one.to_dict() for one in await operator.running()]}


@router.get("/waiting", operation_id="list_waiting_agents", response_model=AgentSchedulesModel)
async def list_waiting_agents(operator: At) -> dict[str, Any]:
    """What waits for a person's approval, oldest first."""
    return {"items": [one.to_dict() for one in await operator.waiting()]}


@router.get("/groups", operation_id="list_agent_groups", response_model=GroupsModel)
async def list_agent_groups(operator: At) -> dict[str, Any]:
    """The groups, and the switches that stop them."""
    groups, switches = await operator.groups(), await operator.switches()
    return {"items": [one.to_dict() for one in groups], "switches": [one.to_dict() for one in switches]}


# --- acting ----------------------------------------------------------------------------------------------------------


@acting.post("/schedules", operation_id="schedule_agent", response_model=AgentScheduleModel, status_code=201)
async def schedule_agent(operator: At, request: ScheduleAgentRequest) -> dict[str, Any]:
    """Schedule an agent. What an agent asks for may have to be approved first; its status says so."""
    return (await operator.schedule_task(**request.model_dump())).to_dict()


@acting.patch("/schedules/{id}", operation_id="change_agent", response_model=AgentScheduleModel)
async def change_agent(
    operator: At,
    id: KeyInPath,  # noqa: A002 - the word of the address
    request: ChangeAgentRequest,
) -> dict[str, Any]:
    """Change what is given; the rest stays."""
    return (await operator.update_task(id, **request.model_dump(exclude_unset=True))).to_dict()


def _offer(word: str, act: Callable[[AgentOperator, str], Awaitable[AgentSchedule]], words: str) -> None:
    """A route for something that is done to one schedule."""

    async def carry_out(operator: At, id: KeyInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
        return (await act(operator, id)).to_dict()

    carry_out.__doc__ = words
    where = deciding if word == "reject" else acting
    where.add_api_route(
        f"/schedules/{{id}}/{word}",
        carry_out,
        methods=["POST"],
        operation_id=f"{word.replace('-', '_')}_agent",
        response_model=AgentScheduleModel,
        summary=f"{word} agent".capitalize(),
    )


_offer("pause", AgentOperator.pause_task, "Hold it back until it is resumed.")
_offer("resume", AgentOperator.resume_task, "Go on with the first fire that lies ahead.")
_offer("cancel", AgentOperator.cancel_task, "End it; its history stays.")
_offer("run-now", AgentOperator.run_task, "Run it once, now; its series is not shifted.")
_offer("reject", AgentOperator.reject, "Refuse what an agent has asked for.")


# --- for people ------------------------------------------------------------------------------------------------------


@deciding.post("/schedules/{id}/approve", operation_id="approve_agent", response_model=AgentScheduleModel)
async def approve_agent(
    operator: At,
    id: KeyInPath,  # noqa: A002 - the word of the address
    request: ApproveRequest,
) -> dict[str, Any]:
    """Agree to what an agent has asked for; with the digest, only to what was shown."""
    return (await operator.approve(id, digest=request.digest)).to_dict()


@deciding.post("/schedules/{id}/stop", operation_id="stop_agent", status_code=204)
async def stop_agent(operator: At, id: KeyInPath) -> None:  # noqa: A002 - the word of the address
    """End the run that is under way, within seconds; the schedule goes on."""
    await operator.stop_run(id)


@deciding.put("/switches/{scope}", operation_id="kill_agents", response_model=SwitchModel)
async def kill_agents(operator: At, scope: ScopeInPath, request: KillRequest) -> dict[str, Any]:
    """Throw the kill switch of a group, or of `all`: what runs is ended, what is due is skipped."""
    return (await operator.switch_off(_scope(scope), request.reason)).to_dict()


@deciding.delete("/switches/{scope}", operation_id="revive_agents", status_code=204)
async def revive_agents(operator: At, scope: ScopeInPath) -> None:
    """Let the group, or `all`, go on."""
    await operator.switch_on(_scope(scope))


def _scope(word: str) -> str:
    return "*" if word == "all" else word


@governing.put("/groups/{folder}", operation_id="add_agent_group", response_model=GroupModel, status_code=201)
async def add_agent_group(operator: At, folder: FolderInPath, request: GroupRequest) -> dict[str, Any]:
    """Add a group of agents, with a folder of its own."""
    given = request.model_dump(exclude={"channels"})
    channels = [ChannelSettings(**channel.model_dump()) for channel in request.channels]
    return (await operator.add_group(folder, **given, channels=channels)).to_dict()


@governing.delete("/groups/{folder}", operation_id="remove_agent_group", status_code=204)
async def remove_agent_group(operator: At, folder: FolderInPath) -> None:
    """Forget a group. Its folder stays; its schedules are paused when they are due next."""
    await operator.remove_group(folder)


@governing.post(
    "/groups/{folder}/tokens", operation_id="add_agent_token", response_model=AgentTokenModel, status_code=201
)
async def add_agent_token(operator: At, folder: FolderInPath, request: AgentTokenRequest) -> dict[str, Any]:
    """Make a token for a group's agents: for /mcp and these routes, within the group."""
    role = Role.VIEWER if request.look_only else Role.OPERATOR
    made = await operator.add_token(folder, request.name, role=role, tools=request.tools, in_runs=request.in_runs)
    return {"id": made.token.id, "group": folder, "role": made.token.role, "secret": made.secret}
