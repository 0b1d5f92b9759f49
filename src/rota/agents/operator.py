"""Scheduled agents as people and agents act on them: with a name on it, within their role, and in the audit log.

Every face (HTTP, dashboard, command line, MCP) goes through an `AgentOperator`. Whoever came with a credential that is
narrowed to a group is an agent of that group, whatever else they say; everybody else is a person with a role.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Unpack

from rota.access import Actor, NewToken, Principal, Role, Tokens
from rota.access.audit import Note
from rota.agents.groups import EVERYBODY, Group, GroupOptions, Revived, Switch
from rota.agents.policy import Caller
from rota.agents.runs.run_store import RunningNow
from rota.agents.schedules.schedule import AgentSchedule
from rota.agents.service import Agents
from rota.clock import Instant
from rota.database import Database
from rota.errors import InvalidInput, NotAllowed
from rota.part import AgentTool, ToolCaller
from rota.stores.base import Page

__all__ = ["TOOLS", "AgentOperator", "agent_principal", "scope_of"]

TOOLS: Final = (
    "schedule_task",
    "list_tasks",
    "update_task",
    "pause_task",
    "resume_task",
    "cancel_task",
    "run_task",
    "task_history",
)
"""What an agent can do with schedules; a token may be narrowed to some of it."""
_LOOKING: Final = ("list_tasks", "task_history")


def scope_of(
    group: str, tools: Sequence[str] = (), *, in_runs: bool = False, others: Sequence[AgentTool] = ()
) -> dict[str, object]:
    """What a token is narrowed to: the agents of a group, and, if named, some tools, those that `others` bring too.

    `in_runs` marks one that scheduled runs are given: it can look, and hold back, but make nothing.
    """
    known = [*TOOLS, *(tool.name for tool in others)]
    unknown = [tool for tool in tools if tool not in known]
    if unknown:
        raise InvalidInput(f"There is no tool {unknown[0][:80]!r}. Use some of: {', '.join(known)}.")
    scope: dict[str, object] = {"group": group}
    return {**scope, **({"tools": list(tools)} if tools else {}), **({"in_runs": True} if in_runs else {})}


def agent_principal(group: str, run_id: str | None = None) -> Principal:
    """The agent that a program was started for; inside a scheduled run, the run that started it."""
    if run_id is None:
        return Principal(f"agent:{group}", f"agent:{group}", Role.OPERATOR, "mcp", {"group": group})
    scope = {"group": group, "run": run_id}
    return Principal(f"run:{run_id}", f"agent:{group}", Role.OPERATOR, "mcp", scope)


class AgentOperator(Actor):
    """Acts on an installation's agents in somebody's name."""

    def __init__(self, agents: Agents, principal: Principal, database: Callable[[], Awaitable[Database]]) -> None:
        super().__init__(principal, database)
        self.agents = agents

    @property
    def group(self) -> str | None:
        """The group whose agent asks; None for people."""
        group = self.principal.scope.get("group")
        return None if group is None else str(group)

    async def caller(self) -> Caller:
        """Who asks. Whether a group is the main one is looked up, never believed."""
        if self.group is None:
            if self.principal.scope:
                raise NotAllowed("This token is narrowed to something that is no group of agents. Use another one.")
            return Caller.person(self.principal.name)
        group = await (await self.agents.groups()).get(self.group)
        scope = self.principal.scope
        run = scope.get("run")
        run_id = str(run) if run is not None else "a scheduled run" if scope.get("in_runs") else None
        depth = 0 if run_id is None else await self.agents.depth_of_run(run_id)
        return Caller.agent(group.folder, is_main=group.is_main, run_id=run_id, run_depth=depth)

    def check_tool(self, tool: str) -> None:
        """Refuse what the credential does not have, or its role does not allow."""
        if not self.has_tool(tool):
            raise NotAllowed(f"The tool {tool} is not among those that this token has.")

    def has_tool(self, tool: str) -> bool:
        needed = Role.VIEWER if self._only_looks(tool) else Role.OPERATOR
        tools = self.principal.scope.get("tools")
        is_named = tools is None or (isinstance(tools, Sequence) and tool in tools)
        return is_named and self.principal.role.allows(needed)

    def _only_looks(self, tool: str) -> bool:
        if tool in TOOLS:
            return tool in _LOOKING
        return any(one.reads for one in self.agents.tools if one.name == tool)

    async def tool_caller(self, tool: AgentTool) -> ToolCaller:
        """Whoever calls a tool of another part, if the tool is theirs to use."""
        self.check_tool(tool.name)
        caller = await self.caller()
        if self.group is None or self.agents.host is None:
            raise NotAllowed(f"The tool {tool.name} is for the agents of a group.")
        if caller.run_id is not None and not (tool.reads or tool.is_for_runs):
            raise NotAllowed(f"A scheduled run may not use {tool.name}. Ask the owner, in a conversation.")
        return ToolCaller(self.agents.host, self.group, self.principal)

    # --- queries ---

    async def list_tasks(self, *, group: str | None = None, finished: bool = False) -> list[AgentSchedule]:
        return await self.agents.list_tasks(await self._looking("list_tasks"), group=group, finished=finished)

    async def page_of_tasks(
        self, *, group: str | None = None, after: str | None = None, limit: int
    ) -> Page[AgentSchedule]:
        caller = await self._looking("list_tasks")
        return await self.agents.page_of_tasks(caller, group=group, after=after, limit=limit)

    async def get_task(self, schedule_id: str) -> AgentSchedule:
        return await self.agents.get_task(await self._looking("list_tasks"), schedule_id)

    async def task_history(
        self, schedule_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> Page[dict[str, Any]]:
        caller = await self._looking("task_history")
        return await self.agents.task_history(caller, schedule_id, limit=limit, cursor=cursor)

    async def running(self) -> list[RunningNow]:
        return await self.agents.running(await self._looking("list_tasks"))

    async def waiting(self) -> list[AgentSchedule]:
        return await self.agents.waiting(await self._looking("list_tasks"))

    async def timezone(self) -> str:
        """The zone that whoever asks is spoken to in."""
        group = None if self.group is None else await (await self.agents.groups()).find(self.group)
        return (group.timezone if group is not None else None) or self.agents.settings.timezone

    async def groups(self) -> list[Group]:
        """The groups that whoever asks may know of."""
        caller = await self._looking("list_tasks")
        return [group for group in await (await self.agents.groups()).list() if caller.may_touch(group.folder)]

    async def switches(self) -> list[Switch]:
        """The switches that are thrown, as far as they concern whoever asks."""
        caller = await self._looking("list_tasks")
        thrown = await (await self.agents.groups()).switches()
        return [one for one in thrown if one.scope == EVERYBODY or caller.may_touch(one.scope)]

    # --- schedules ---

    async def schedule_task(self, **wanted: Any) -> AgentSchedule:
        async with self._acting("schedule_task", str(wanted.get("group") or self.group or "")) as (caller, note):
            made = await self.agents.schedule_task(caller, **wanted)
            note.after = made.to_dict()
            return made

    async def update_task(self, schedule_id: str, **changes: Any) -> AgentSchedule:
        return await self._change(
            "update_task", schedule_id, lambda c: self.agents.update_task(c, schedule_id, **changes)
        )

    async def pause_task(self, schedule_id: str) -> AgentSchedule:
        return await self._change("pause_task", schedule_id, lambda c: self.agents.pause_task(c, schedule_id))

    async def resume_task(self, schedule_id: str) -> AgentSchedule:
        return await self._change("resume_task", schedule_id, lambda c: self.agents.resume_task(c, schedule_id))

    async def cancel_task(self, schedule_id: str) -> AgentSchedule:
        return await self._change("cancel_task", schedule_id, lambda c: self.agents.cancel_task(c, schedule_id))

    async def run_task(self, schedule_id: str) -> AgentSchedule:
        return await self._change("run_task", schedule_id, lambda c: self.agents.run_task(c, schedule_id))

    # --- what is for people alone ---

    async def approve(self, schedule_id: str, *, digest: str | None = None) -> AgentSchedule:
        return await self._change("approve", schedule_id, lambda c: self.agents.approve(c, schedule_id, digest=digest))

    async def reject(self, schedule_id: str) -> AgentSchedule:
        return await self._change("reject", schedule_id, lambda c: self.agents.reject(c, schedule_id))

    async def stop_run(self, schedule_id: str) -> None:
        async with self._acting("stop", schedule_id) as (caller, _):
            await self.agents.stop_run(caller, schedule_id)

    async def switch_off(self, scope: str = EVERYBODY, reason: str = "") -> Switch:
        async with self._acting("kill", scope) as (caller, note):
            switch = await self.agents.switch_off(caller, scope, reason)
            note.after = switch.to_dict()
            return switch

    async def switch_on(self, scope: str = EVERYBODY) -> Revived:
        async with self._acting("revive", scope) as (caller, note):
            revived = await self.agents.switch_on(caller, scope)
            note.after = revived.to_dict()
            return revived

    async def add_group(self, folder: str, **options: Unpack[GroupOptions]) -> Group:
        """Add a group: an admin's, because it decides what agents reach and whom they tell."""
        async with self._acting("group.add", folder, Role.ADMIN) as (_, note):
            group = await (await self.agents.groups()).add(folder, **options)
            note.after = group.to_dict()
            return group

    async def remove_group(self, folder: str) -> None:
        async with self._acting("group.remove", folder, Role.ADMIN):
            await (await self.agents.groups()).remove(folder)

    async def add_token(
        self,
        group: str,
        name: str,
        *,
        role: Role = Role.OPERATOR,
        tools: Sequence[str] = (),
        in_runs: bool = False,
        expires_at: Instant | None = None,
    ) -> NewToken:
        """Make a token that is good for the agents of one group, and for nothing else."""
        scope = scope_of(group, tools, in_runs=in_runs, others=self.agents.tools if tools else ())
        async with self._acting("token.add", group, Role.ADMIN) as (_, note):
            await (await self.agents.groups()).get(group)
            tokens = Tokens(await self.database())
            made = await tokens.add(name, role, created_by=self.principal.id, expires_at=expires_at, scope=scope)
            note.after = made.token.to_dict()
            return made

    # --- shared ---

    async def _looking(self, tool: str) -> Caller:
        self.check_tool(tool)
        return await self.caller()

    async def _change(
        self, action: str, schedule_id: str, change: Callable[[Caller], Awaitable[AgentSchedule]]
    ) -> AgentSchedule:
        async with self._acting(action, schedule_id) as (caller, note):
            note.before = await self._picture(caller, schedule_id)
            changed = await change(caller)
            note.after = _short(changed)
            return changed

    async def _picture(self, caller: Caller, schedule_id: str) -> Mapping[str, object]:
        return _short(await self.agents.get_task(caller, schedule_id))

    @asynccontextmanager
    async def _acting(
        self, action: str, target: str, role: Role = Role.OPERATOR
    ) -> AsyncGenerator[tuple[Caller, Note]]:
        """Who acts, once that is clear to be allowed; refused or not, it is in the audit log."""
        async with self.recording(f"agent.{action}", target) as note:
            self.need(role, "do this")
            if action in TOOLS:
                self.check_tool(action)
            elif self.group is not None:
                raise NotAllowed("This is for people: an agent's token is good for its group's schedules alone.")
            yield await self.caller(), note


def _short(schedule: AgentSchedule) -> Mapping[str, object]:
    """What of a schedule an action can change."""
    names = (
        "status",
        "schedule_type",
        "schedule_value",
        "timezone",
        "prompt",
        "script",
        "context_mode",
        "approval",
        "held",
        "expires_at",
        "made_by",
    )
    return {name: getattr(schedule, name) for name in names}
