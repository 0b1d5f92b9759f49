"""The schedules of agents where they lie: the task, where it comes from, the list in its group's folder, its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from rota.agents.group_folders import folder_path, uid_of, write_file
from rota.agents.groups import Group, Groups
from rota.agents.notices import Channels, Notice, NoticeKind
from rota.agents.policy import Caller
from rota.agents.schedules.agent_task import AGENT, Origin, Proposal
from rota.agents.schedules.listing import SNAPSHOT, Zones, snapshot_of, tasks_of
from rota.agents.schedules.origins import Origins
from rota.agents.settings import AgentSettings
from rota.core.outcome import Answer, Reply, Scheduled, ScheduleOutcome
from rota.core.task import Change, Identity, NewTask, Task, Transition
from rota.database import Database
from rota.errors import (
    IllegalTransition,
    InvalidInput,
    LimitExceeded,
    NotAllowed,
    RotaError,
    StoreError,
    UnknownTask,
)
from rota.logs import get_logger
from rota.stores.base import Store
from rota.webhooks import Webhooks

__all__ = ["ScheduleStore", "answered", "decided_already"]

MAX_OF_PEOPLE: Final = 1_000
"""Live schedules of a group, however they were made."""

_log = get_logger("rota.agents")


class ScheduleStore:
    """The schedules of one installation, with all that belongs to them."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        database: Callable[[], Awaitable[Database]],
        settings: AgentSettings,
        channels: Channels,
        webhooks: Webhooks | None,
    ) -> None:
        self.store = store
        self.database = database
        self._settings = settings
        self._channels = channels
        self._webhooks = webhooks

    async def groups(self) -> Groups:
        """The groups that they are for."""
        return Groups(await self.database(), self._webhooks)

    async def origins(self) -> Origins:
        """Where they come from and how they fare."""
        return Origins(await self.database())

    async def zones(self) -> Zones:
        """The zone of each group."""
        groups = await (await self.groups()).list()
        return Zones({group.folder: group.timezone for group in groups}, self._settings.timezone)

    async def find(
        self, caller: Caller, schedule_id: str, *, finished: bool = False
    ) -> tuple[Task | None, Origin | None]:
        """The schedule, if it is the caller's to see. Somebody else's looks like none at all."""
        store, origins = await self.store(), await self.origins()
        (task,) = await store.get([Identity(AGENT, schedule_id)])
        origin = (await origins.get([schedule_id])).get(schedule_id)
        folder = task.owner if task is not None else origin.folder if origin is not None else None
        is_there = task is not None or (origin is not None and (finished or origin.proposal is not None))
        if not is_there or not caller.may_touch(folder or ""):
            raise UnknownTask(f"There is no schedule {schedule_id[:80]!r} here. Call list_tasks to see the ids.")
        return task, origin

    async def put(self, origin: Origin, proposal: Proposal, caller: Caller, *, spent: int = 0) -> Task:
        """Make the task, within what is left of the group's quota; doing it again changes nothing."""
        limit = MAX_OF_PEOPLE if caller.is_person else max(0, self._settings.rules.max_schedules - spent)
        new = NewTask(
            task_type=AGENT,
            key=origin.id,
            trigger=proposal.trigger,
            payload=proposal.payload,
            owner=origin.folder,
            owner_limit=limit,
            serial=origin.folder,
            expires_at=proposal.expires_at,
        )
        (scheduled,) = await (await self.store()).schedule([new])
        return _accepted(scheduled, origin, limit, spent)

    async def change(self, schedule_id: str, proposal: Proposal) -> Task:
        """Change the task; a trigger that is the same keeps its grid."""
        store = await self.store()
        (current,) = await store.get([Identity(AGENT, schedule_id)])
        is_same = current is not None and current.trigger == proposal.trigger
        change = Change(
            task_type=AGENT,
            key=schedule_id,
            payload=proposal.payload,
            trigger=msgspec.UNSET if is_same else proposal.trigger,
            expires_at=proposal.expires_at,
        )
        (reply,) = await store.update([change])
        return answered(Transition.UPDATE, reply, schedule_id)

    async def end_after_run(self, schedule_id: str) -> None:
        """Let the run that is under way be the last: the schedule ends now, and nothing fires after that."""
        store = await self.store()
        change = Change(task_type=AGENT, key=schedule_id, expires_at=await store.now())
        (reply,) = await store.update([change])
        task = answered(Transition.UPDATE, reply, schedule_id)
        await self.refresh(task.owner or "")

    async def tell(self, kind: NoticeKind, group: Group | None, schedule_id: str, text: str) -> None:
        """Tell the owner; nothing fails for it."""
        folder = group.folder if group is not None else ""
        try:
            now = await (await self.store()).now()
            notice = Notice(kind=kind, group=folder, schedule_id=schedule_id, text=text, at=now)
            await self._channels.tell(group, notice)
        except StoreError as error:
            # What it tells of is done, and whoever did it gets the answer.
            _log.warning("agent notice not taken in", schedule=schedule_id, error=str(error))

    async def refresh(self, folder: str) -> None:
        """Bring `current_tasks.json` up to date where it lies: the group's own, and main's, which has all."""
        try:
            for group in await (await self.groups()).list():
                if group.folder == folder or group.is_main:
                    await self._write_snapshot(group)
        except (InvalidInput, OSError, StoreError) as error:
            # The change itself is made, and must not be made again; the file is written anew before the next run.
            _log.warning("agent snapshot not written", group=folder, error=str(error))

    async def _write_snapshot(self, group: Group) -> None:
        path = folder_path(self._settings.groups_dir, group.folder)
        if not (path / SNAPSHOT).exists():
            return  # it has not run here yet: it gets one before its first run
        whose = None if group.is_main else group.folder
        tasks = await tasks_of(await self.store(), whose)
        waiting = await (await self.origins()).waiting(whose)
        content = snapshot_of(tasks, waiting, await self.zones(), group)
        uid = uid_of(group.number, self._settings.uid_base)
        await asyncio.to_thread(write_file, path, SNAPSHOT, content, uid=uid)


def decided_already(schedule_id: str) -> IllegalTransition:
    """What is said to whoever comes too late to decide."""
    return IllegalTransition(f"{schedule_id} was decided on already and waits no more. Look at it again.")


def _accepted(scheduled: Scheduled, origin: Origin, limit: int, spent: int) -> Task:
    over = f" (and {spent} that are over, whose places are free again in a few minutes)" if spent else ""
    refusals: dict[ScheduleOutcome, RotaError] = {
        ScheduleOutcome.QUOTA: LimitExceeded(
            f"The group {origin.folder!r} has {limit} live schedules{over}, which is its limit. Cancel one first:"
            " list_tasks shows them."
        ),
        ScheduleOutcome.FULL: LimitExceeded("Too many agents are waiting already (max_pending). Try again later."),
        ScheduleOutcome.DISABLED: NotAllowed("Scheduled agents are switched off here. Ask the owner."),
    }
    if scheduled.outcome in refusals:
        raise refusals[scheduled.outcome]
    assert scheduled.task is not None, f"{origin.id} was accepted but is not there"
    return scheduled.task


def answered(transition: Transition, reply: Reply, schedule_id: str) -> Task:
    """The task after a transition that the store has let happen; else the reason as an error."""
    if reply.answer is Answer.REFUSED or reply.task is None:
        status = "gone" if reply.task is None else reply.task.status.value
        raise IllegalTransition(f"{schedule_id} is {status}, so '{transition.value}' is not possible. Nothing changed.")
    return reply.task
