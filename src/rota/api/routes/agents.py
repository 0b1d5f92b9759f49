"""Scheduled agents: for people by their role, and for the agents of a group by a token that is narrowed to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request

from rota.access import Role
from rota.agents import AgentSchedule, ChannelSettings, agents_of
from rota.agents.api_models import (
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
from rota.agents.desk import Desk
from rota.api.auth import Need, principal_of, service_of
from rota.api.models import PageModel
from rota.api.paging import Cursor
from rota.api.paths import KeyInPath
from rota.api.routing import ApiRoute, routes_for

__all__ = ["acting", "deciding", "governing", "router"]

PREFIX: Final = "/api/agents"


def _for_agents(role: Role) -> APIRouter:
    """Routes that a group's own agents may use too; what they see and may do there, the desk decides."""
    needs = [Depends(Need(role, for_agents=True))]
    return APIRouter(prefix=PREFIX, tags=["agents"], dependencies=needs, route_class=ApiRoute)


router: Final = _for_agents(Role.VIEWER)
acting: Final = _for_agents(Role.OPERATOR)
deciding: Final = routes_for(Role.OPERATOR, tag="agents", prefix=PREFIX)
governing: Final = routes_for(Role.ADMIN, tag="agents", prefix=PREFIX)


async def desk_of(request: Request) -> Desk:
    """Acts in the name of whoever asks; the route has made sure that somebody does."""
    principal = await principal_of(request)
    assert principal is not None, "the route needs a role"
    app = service_of(request).app
    return Desk(agents_of(app), principal, app.database)


At = Annotated[Desk, Depends(desk_of)]
FolderInPath = Annotated[
    str, Path(description="The group's folder.", pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)
]
ScopeInPath = Annotated[
    str, Path(description="A group's folder, or `all`.", pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)
]
GroupQuery = Annotated[str | None, Query(pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]


# --- looking ---------------------------------------------------------------------------------------------------------


@router.get("/schedules", operation_id="list_agents", response_model=AgentSchedulesModel)
async def list_agents(desk: At, group: GroupQuery = None, finished: bool = False) -> dict[str, Any]:
    """The scheduled agents, and after them what waits for approval."""
    return {"items": [one.to_dict() for one in await desk.list_tasks(group=group, finished=finished)]}


@router.get("/schedules/{id}", operation_id="get_agent", response_model=AgentScheduleModel)
async def get_agent(desk: At, id: KeyInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
    """One scheduled agent."""
    return (await desk.get_task(id)).to_dict()


@router.get("/schedules/{id}/runs", operation_id="list_agent_runs", response_model=PageModel[AgentRunModel])
async def list_agent_runs(
    desk: At,
    id: KeyInPath,  # noqa: A002 - the word of the address
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> dict[str, Any]:
    """Its runs, and the fires that were not run, newest first."""
    page = await desk.task_history(id, limit=limit, cursor=cursor)
    return {"items": page.items, "cursor": page.cursor}


@router.get("/running", operation_id="list_running_agents", response_model=AgentRunningsModel)
async def list_running_agents(desk: At) -> dict[str, Any]:
    """What runs now, with the last of its output."""
    return {"items": [one.to_dict() for one in await desk.running()]}


@router.get("/waiting", operation_id="list_waiting_agents", response_model=AgentSchedulesModel)
async def list_waiting_agents(desk: At) -> dict[str, Any]:
    """What waits for a person's approval, oldest first."""
    return {"items": [one.to_dict() for one in await desk.waiting()]}


@router.get("/groups", operation_id="list_agent_groups", response_model=GroupsModel)
async def list_agent_groups(desk: At) -> dict[str, Any]:
    """The groups, and the switches that stop them."""
    groups, switches = await desk.groups(), await desk.switches()
    return {"items": [one.to_dict() for one in groups], "switches": [one.to_dict() for one in switches]}


# --- acting ----------------------------------------------------------------------------------------------------------


@acting.post("/schedules", operation_id="schedule_agent", response_model=AgentScheduleModel, status_code=201)
async def schedule_agent(desk: At, request: ScheduleAgentRequest) -> dict[str, Any]:
    """Schedule an agent. What an agent asks for may have to be approved first; its status says so."""
    return (await desk.schedule_task(**request.model_dump())).to_dict()


@acting.patch("/schedules/{id}", operation_id="change_agent", response_model=AgentScheduleModel)
async def change_agent(
    desk: At,
    id: KeyInPath,  # noqa: A002 - the word of the address
    request: ChangeAgentRequest,
) -> dict[str, Any]:
    """Change what is given; the rest stays."""
    return (await desk.update_task(id, **request.model_dump(exclude_unset=True))).to_dict()


def _offer(word: str, act: Callable[[Desk, str], Awaitable[AgentSchedule]], words: str) -> None:
    """A route for something that is done to one schedule."""

    async def carry_out(desk: At, id: KeyInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
        return (await act(desk, id)).to_dict()

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


_offer("pause", Desk.pause_task, "Hold it back until it is resumed.")
_offer("resume", Desk.resume_task, "Go on with the first fire that lies ahead.")
_offer("cancel", Desk.cancel_task, "End it; its history stays.")
_offer("run-now", Desk.run_task, "Run it once, now; its series is not shifted.")
_offer("reject", Desk.reject, "Refuse what an agent has asked for.")


# --- for people ------------------------------------------------------------------------------------------------------


@deciding.post("/schedules/{id}/approve", operation_id="approve_agent", response_model=AgentScheduleModel)
async def approve_agent(
    desk: At,
    id: KeyInPath,  # noqa: A002 - the word of the address
    request: ApproveRequest,
) -> dict[str, Any]:
    """Agree to what an agent has asked for; with the digest, only to what was shown."""
    return (await desk.approve(id, digest=request.digest)).to_dict()


@deciding.post("/schedules/{id}/stop", operation_id="stop_agent", status_code=204)
async def stop_agent(desk: At, id: KeyInPath) -> None:  # noqa: A002 - the word of the address
    """End the run that is under way, within seconds; the schedule goes on."""
    await desk.stop_run(id)


@deciding.put("/switches/{scope}", operation_id="kill_agents", response_model=SwitchModel)
async def kill_agents(desk: At, scope: ScopeInPath, request: KillRequest) -> dict[str, Any]:
    """Throw the kill switch of a group, or of `all`: what runs is ended, what is due is skipped."""
    return (await desk.switch_off(_scope(scope), request.reason)).to_dict()


@deciding.delete("/switches/{scope}", operation_id="revive_agents", status_code=204)
async def revive_agents(desk: At, scope: ScopeInPath) -> None:
    """Let the group, or `all`, go on."""
    await desk.switch_on(_scope(scope))


def _scope(word: str) -> str:
    return "*" if word == "all" else word


@governing.put("/groups/{folder}", operation_id="add_agent_group", response_model=GroupModel, status_code=201)
async def add_agent_group(desk: At, folder: FolderInPath, request: GroupRequest) -> dict[str, Any]:
    """Add a group of agents, with a folder of its own."""
    given = request.model_dump(exclude={"channels"})
    channels = [ChannelSettings(**channel.model_dump()) for channel in request.channels]
    return (await desk.add_group(folder, **given, channels=channels)).to_dict()


@governing.delete("/groups/{folder}", operation_id="remove_agent_group", status_code=204)
async def remove_agent_group(desk: At, folder: FolderInPath) -> None:
    """Forget a group. Its folder stays; its schedules are paused when they are due next."""
    await desk.remove_group(folder)


@governing.post(
    "/groups/{folder}/tokens", operation_id="add_agent_token", response_model=AgentTokenModel, status_code=201
)
async def add_agent_token(desk: At, folder: FolderInPath, request: AgentTokenRequest) -> dict[str, Any]:
    """Make a token for a group's agents: for /mcp and these routes, within the group."""
    role = Role.VIEWER if request.look_only else Role.OPERATOR
    made = await desk.add_token(folder, request.name, role=role, tools=request.tools, in_runs=request.in_runs)
    return {"id": made.token.id, "group": folder, "role": made.token.role, "secret": made.secret}
