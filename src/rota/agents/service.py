"""Everything that people and agents can do with scheduled agents: what the MCP server, the API and the CLI call.

Who asks is a `Caller`, made by the channel that has verified it. A group sees and changes its own schedules, main and
people see all, and only people approve, throw switches and resume what Rota has held.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from rota.access import Tokens
from rota.agents.groups import EVERYBODY, Group, Groups, Revived, Switch
from rota.agents.notices import Channels, NoticeSender
from rota.agents.policy import (
    Caller,
    check_interval,
    check_may_create,
    check_not_too_near,
    check_prompt,
    depth_of,
    expiry_of,
    needs_approval,
    needs_consent,
)
from rota.agents.runs.handler import AgentHandler
from rota.agents.runs.run_store import RunningNow, RunStore
from rota.agents.runs.run_tokens import MAKER, McpAccess
from rota.agents.schedules.agent_task import AGENT, AgentPayload, Origin, ProposalKind, held_of, payload_of, taken_over
from rota.agents.schedules.approvals import EVENTS, Approvals
from rota.agents.schedules.listing import live_page_of, schedules_of
from rota.agents.schedules.schedule import AgentSchedule
from rota.agents.schedules.schedule_store import ScheduleStore, answered, decided_already
from rota.agents.schedules.validation import (
    changed_payload,
    check_reaches,
    checked_script,
    context_mode_of,
    follows_code,
    instant_of,
    made_by_code,
    new_trigger,
    proposal_of,
    rewrites,
    sooner,
    standing_of,
)
from rota.agents.settings import AgentSettings
from rota.clock import DAY, Instant, isoformat
from rota.core.lifecycle import goes_to
from rota.core.task import Identity, RunRecord, Task, TaskStatus, Transition
from rota.database import Database
from rota.errors import IllegalTransition, InvalidInput, LimitExceeded, NotAllowed
from rota.logs import get_logger
from rota.part import AgentTool, PartHost
from rota.stores.base import Page, RunQuery, Store
from rota.triggers import AnyTrigger, decode_trigger, encode_trigger, parse_trigger
from rota.webhooks import Webhooks

__all__ = ["Agents"]

KEPT_MS: Final = 30 * DAY
"""How long the origin and the results of a schedule are kept after its last run, once its task is gone."""

_log = get_logger("rota.agents")


class Agents:
    """The agents of one installation.

    `store` and `database` give the open ones, as `Rota.store` and `Rota.database` do.
    """

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        database: Callable[[], Awaitable[Database]],
        settings: AgentSettings | None = None,
        *,
        webhooks: Webhooks | None = None,
        host: PartHost | None = None,
    ) -> None:
        self.settings = settings or AgentSettings()
        self.host = host
        """Where they are installed; None: nowhere, and no other part brings tools."""
        channels = Channels(self.settings.groups_dir / ".notices", store)
        self._schedules = ScheduleStore(store, database, self.settings, channels, webhooks)
        self._approvals = Approvals(self._schedules)
        self.handler = AgentHandler(store, database, self.settings, channels)
        self.notice_sender = NoticeSender(store, database, webhooks or Webhooks())

    # --- where they run ---

    async def _runs(self) -> RunStore:
        return RunStore(await self._schedules.database())

    def give_mcp_access(self, access: McpAccess) -> None:
        """Give runs this way to the MCP server, which lies above."""
        self.handler.mcp_access = access

    @property
    def tools(self) -> list[AgentTool]:
        """What agents can do beside their schedules: the tools that other parts bring."""
        return [] if self.host is None else [tool for part in self.host.parts.values() for tool in part.tools()]

    async def now(self) -> Instant:
        """What time it is at the store, which decides."""
        return await (await self._schedules.store()).now()

    async def groups(self) -> Groups:
        """The groups, for those who may administer them."""
        return await self._schedules.groups()

    # --- schedules ---

    async def schedule_task(
        self,
        caller: Caller,
        *,
        prompt: str,
        schedule_type: str,
        schedule_value: str | int,
        context_mode: str = "isolated",
        script: str | None = None,
        group: str | None = None,
        timezone: str | None = None,
        expires: str | None = None,
    ) -> AgentSchedule:
        """Make a schedule for the caller's own group; main and people may name another one.

        If a person has to agree first it is kept as a proposal, and nothing is scheduled until then.
        """
        rules = self.settings.rules
        check_may_create(caller, rules)
        target = await self._target(caller, group)
        store, origins = await self._schedules.store(), await self._schedules.origins()
        now = await store.now()
        zone_name = timezone or target.timezone or self.settings.timezone
        trigger = parse_trigger(schedule_type, schedule_value, timezone=zone_name, now=now)
        check_interval(trigger, caller, rules, now)
        payload = AgentPayload(
            group_folder=target.folder,
            chat_jid=target.chat_jid,
            prompt=check_prompt(prompt, rules),
            context_mode=context_mode_of(context_mode),
            script=checked_script(script),
            timezone=timezone,
        )
        expires_at = expiry_of(instant_of(expires, zone_name, now), caller, rules, now)
        check_reaches(trigger, expires_at)
        proposal = proposal_of("create", payload, trigger, expires_at, caller)
        waits = needs_approval(caller, rules) or needs_consent(caller, rules, target.folder, is_of_people=False)
        origin = Origin(
            id=f"task-{now}-{secrets.token_hex(3)}",
            folder=target.folder,
            made_by=caller.name,
            made_in_run=caller.run_id,
            depth=depth_of(caller),
            approval="waiting" if waits else "none",
            proposal=proposal if waits else None,
            digest=proposal.digest,
        )
        spent = 0 if waits or caller.is_person else await self._check_pace(target.folder, trigger, now)
        origin = await origins.add(origin, max_waiting=rules.max_waiting)
        if waits:
            gate = "" if payload.script is None else ", with a script"
            text = f"{caller.name} wants to schedule{gate}: {prompt}"
            await self._schedules.tell("approval_wanted", target, origin.id, text)
            await self._schedules.refresh(target.folder)
            return AgentSchedule.of_proposal(origin, zone_name)
        try:
            task = await self._schedules.put(origin, proposal, caller, spent=spent)
        except (LimitExceeded, NotAllowed):
            await origins.forget([origin.id])  # what was refused leaves nothing behind
            raise
        await self._schedules.refresh(target.folder)
        return AgentSchedule.of_task(task, origin, zone_name)

    async def list_tasks(
        self, caller: Caller, *, group: str | None = None, finished: bool = False
    ) -> list[AgentSchedule]:
        """The caller's schedules: its own group's, or for main and people those of all or of one."""
        return await schedules_of(
            await self._schedules.store(),
            await self._schedules.origins(),
            await self._schedules.zones(),
            _seen_by(caller, group),
            with_finished=finished,
        )

    async def page_of_tasks(
        self, caller: Caller, *, group: str | None = None, after: str | None = None, limit: int
    ) -> Page[AgentSchedule]:
        """The same page by page, by id: what is scheduled and not over. The cursor is the next page's `after`."""
        return await live_page_of(
            await self._schedules.store(),
            await self._schedules.origins(),
            await self._schedules.zones(),
            _seen_by(caller, group),
            after=after,
            limit=limit,
        )

    async def get_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """One schedule, or a proposal of one."""
        task, origin = await self._schedules.find(caller, schedule_id)
        zones = await self._schedules.zones()
        if task is not None:
            return AgentSchedule.of_task(task, origin, zones.of(task.owner or ""))
        assert origin is not None, "one of the two was found"
        return AgentSchedule.of_proposal(origin, zones.of(origin.folder))

    async def pause_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Hold it back until it is resumed. A run may hold back what is its group's; the rest waits for a person."""
        if (asked := await self._consent("pause", caller, schedule_id, is_of_people=False)) is not None:
            return asked
        return await self._apply(Transition.PAUSE, caller, schedule_id)

    async def resume_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Go on with the first fire that lies ahead. What Rota itself has held only a person resumes, and what a run
        asks to have resumed waits for a person: one may have paused it."""
        task, origin = await self._schedules.find(caller, schedule_id)
        _check_may_free(caller, schedule_id, task, origin)
        if (asked := await self._consent("resume", caller, schedule_id, is_of_people=True)) is not None:
            return asked
        await self._apply(Transition.RESUME, caller, schedule_id)
        if origin is not None and origin.held is not None:
            await (await self._schedules.origins()).set(schedule_id, held=None, failures=0)
        return await self.get_task(caller, schedule_id)

    async def cancel_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """End it; its history stays. A proposal is withdrawn.

        A run that ends its own schedule, because what it waited for has come, is not stopped: it is the last one. If
        it would end what people have made, or another group's, that waits for a person.
        """
        task, origin = await self._schedules.find(caller, schedule_id)
        origins = await self._schedules.origins()
        if task is None:
            assert origin is not None, "one of the two was found"
            if needs_consent(caller, self.settings.rules, origin.folder, is_of_people=False):
                raise NotAllowed(
                    f"{schedule_id} is a proposal of another group, and waits for the owner. Leave it to them."
                )
            withdrawn = await origins.decide(origin, "rejected", caller.name, origin.digest)
            if withdrawn is None:
                raise decided_already(schedule_id)
            await self._schedules.refresh(origin.folder)
            return AgentSchedule.of_proposal(withdrawn, (await self._schedules.zones()).of(origin.folder))
        if caller.is_run_of(schedule_id) and task.status is TaskStatus.RUNNING:
            await self._schedules.end_after_run(schedule_id)
            return await self.get_task(caller, schedule_id)
        is_of_people = (origin is None or origin.depth == 0) and not caller.is_run_of(schedule_id)
        if (asked := await self._consent("cancel", caller, schedule_id, is_of_people=is_of_people)) is not None:
            return asked
        return await self._apply(Transition.CANCEL, caller, schedule_id)

    async def run_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Run it once, now; its series is not shifted, and a paused one stays paused. An agent may do so as often as
        it may schedule, and what is paused only after it was resumed."""
        check_may_create(caller, self.settings.rules)
        task, origin = await self._schedules.find(caller, schedule_id)
        _check_may_free(caller, schedule_id, task, origin)
        now = await self.now()
        if task is not None:
            _check_can_run(caller, task, now)
            await self._check_not_switched_off(caller, task)
        self._check_rested(caller, origin, now)
        if (asked := await self._consent("run", caller, schedule_id, is_of_people=False)) is not None:
            return asked
        return await self._apply(Transition.RUN_NOW, caller, schedule_id)

    async def update_task(
        self,
        caller: Caller,
        schedule_id: str,
        *,
        prompt: str | None = None,
        schedule_type: str | None = None,
        schedule_value: str | int | None = None,
        context_mode: str | None = None,
        script: str | None = None,
        timezone: str | None = None,
        expires: str | None = None,
    ) -> AgentSchedule:
        """Change what is given and leave the rest; an empty script takes the gate away, an empty `expires` the end.

        If a person has to agree, the schedule goes on as it is until they do.
        """
        rules = self.settings.rules
        check_may_create(caller, rules)
        given = (prompt, schedule_type, schedule_value, context_mode, script, timezone, expires)
        if all(one is None for one in given):
            raise InvalidInput("Nothing was given that is to be changed. Give a prompt, for example, or a new time.")
        task, origin = await self._schedules.find(caller, schedule_id)
        if task is None or not task.status.is_live or task.trigger is None:
            raise IllegalTransition(f"{schedule_id} is not scheduled, so it cannot be changed. Make a new one.")
        store, origins = await self._schedules.store(), await self._schedules.origins()
        now = await store.now()
        old = payload_of(task.payload)
        zone_name = timezone or old.timezone or (await self._schedules.zones()).of(old.group_folder)
        payload = changed_payload(old, self.settings, prompt, context_mode, script, timezone)
        trigger = new_trigger(task.trigger, schedule_type, schedule_value, zone_name, now, rezone=timezone is not None)
        check_interval(trigger, caller, rules, now)
        if encode_trigger(trigger) != task.trigger:
            self._check_rested(caller, origin, trigger.next_after(now))
        if origin is None:
            origin = await origins.add(made_by_code(task, old))
        takes_over = rewrites(caller, origin, old, payload)
        expires_at, made_at = task.expires_at, now if takes_over else origin.created_at
        if expires is not None:
            expires_at = expiry_of(instant_of(expires or None, zone_name, now), caller, rules, made_at)
        elif takes_over:
            expires_at = sooner(expires_at, expiry_of(None, caller, rules, made_at))
        check_reaches(trigger, expires_at)
        proposal = proposal_of("update", payload, trigger, expires_at, caller, based_on=task.version, origin=origin)
        if takes_over:
            proposal = msgspec.structs.replace(proposal, maker=caller.name, depth=depth_of(caller))
        is_of_people = origin.depth == 0
        if needs_approval(caller, rules) or needs_consent(caller, rules, old.group_folder, is_of_people=is_of_people):
            origin = await origins.propose(schedule_id, old.group_folder, proposal, max_waiting=rules.max_waiting)
            group = await (await self.groups()).find(old.group_folder)
            asked = AgentSchedule.of_task(task, origin, zone_name)
            what = "" if asked.wanted is None else ", ".join(asked.wanted.changes).replace("_", " ")
            text = f"{caller.name} wants to change its {what or 'record'}."
            await self._schedules.tell("approval_wanted", group, schedule_id, text)
            return asked
        task = await self._schedules.change(schedule_id, proposal)
        await origins.set(schedule_id, digest=proposal.digest, **taken_over(proposal, now))
        await self._schedules.refresh(old.group_folder)
        return await self.get_task(caller, task.key)

    async def is_kept(self, schedule_id: str) -> bool:
        """Whether what a schedule does is agreed to and written down here, so that it is changed here and nowhere
        else. What the program's own code has made is not."""
        origin = (await (await self._schedules.origins()).get([schedule_id])).get(schedule_id)
        return origin is not None and not follows_code(origin)

    async def check_not_kept(self, schedule_id: str) -> None:
        """Refuse another way to change a schedule that is kept here: its next run would find that nobody agreed."""
        if await self.is_kept(schedule_id):
            raise InvalidInput(
                f"{schedule_id} is a scheduled agent: what it does is agreed to, and checked before each run. Change it"
                f" as one, with `rota agent update {schedule_id}`, PATCH /api/agents/schedules/{schedule_id} or"
                " `update_task` of the agents in code."
            )

    async def task_history(
        self, caller: Caller, schedule_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> Page[dict[str, Any]]:
        """Its runs, and the fires that were not run, newest first; whole results where they are still kept.

        Also of a schedule that is over: its runs are kept longer than its task.
        """
        await self._schedules.find(caller, schedule_id, finished=True)
        store = await self._schedules.store()
        page = await store.runs(RunQuery(task_type=AGENT, key=schedule_id, limit=limit, cursor=cursor))
        whole = {result.token: result for result in await (await self._runs()).results(schedule_id)}
        rows: list[dict[str, Any]] = []
        for run in page.items:
            kept = whole.get(run.token)
            rows.append({**_shown(run), "whole_result": None if kept is None else kept.result})
        return Page(rows, page.cursor)

    async def depth_of_run(self, run_id: str) -> int:
        """How far the schedule of a run is from a person; at least 1, whatever is known of it."""
        schedule_id = run_id.rpartition("-")[0]
        origin = (await (await self._schedules.origins()).get([schedule_id])).get(schedule_id)
        return max(1, origin.depth if origin is not None else 1)

    # --- approval ---

    async def waiting(self, caller: Caller) -> list[AgentSchedule]:
        """What waits for a person's decision, oldest first."""
        return await self._approvals.waiting(caller)

    async def approve(self, caller: Caller, schedule_id: str, *, digest: str | None = None) -> AgentSchedule:
        """Agree: the schedule counts from now on. With `digest`, only if it still is what the person has seen."""
        await self._approvals.approve(caller, schedule_id, digest=digest)
        return await self.get_task(caller, schedule_id)

    async def reject(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Refuse: a new schedule never counts, a changed one stays as it was."""
        await self._approvals.reject(caller, schedule_id)
        return await self.get_task(caller, schedule_id)

    # --- stopping ---

    async def running(self, caller: Caller) -> list[RunningNow]:
        """What runs now, with its live output."""
        rows = await (await self._runs()).running(None if caller.sees_all else caller.group)
        tasks = await (await self._schedules.store()).get([Identity(AGENT, row.id) for row in rows])
        # A row whose instance has died is older than the task's token, or its task runs no more.
        return [row for row, task in zip(rows, tasks, strict=True) if _is_run_of(task, row.token)]

    async def stop_run(self, caller: Caller, schedule_id: str) -> None:
        """End the run that is under way, within seconds; the schedule goes on."""
        task, _ = await self._schedules.find(caller, schedule_id)
        token = 0 if task is None else task.token
        runs = await self._runs()
        if not (_is_run_of(task, token) and await runs.ask_to_stop(schedule_id, token, caller.name)):
            raise IllegalTransition(f"{schedule_id} does not run now, so there is nothing to stop.")

    async def switch_off(self, caller: Caller, scope: str = EVERYBODY, reason: str = "") -> Switch:
        """Throw the kill switch of a group, or of all: what runs is ended, what is due is skipped."""
        self._check_person(caller)
        return await (await self.groups()).switch_off(scope, caller.name, reason)

    async def switch_on(self, caller: Caller, scope: str = EVERYBODY) -> Revived:
        """Take the switch of a group, or that of all, back; what was done by it, and what still stops them."""
        self._check_person(caller)
        groups = await self.groups()
        switch = await groups.switch_on(scope)
        still = [one for one in await groups.switches() if scope == EVERYBODY or one.scope == EVERYBODY]
        kept = [] if switch is None else await self._kept_by(caller, switch)
        return Revived(scope=scope, was_on=switch is not None, still=tuple(still), kept=tuple(kept))

    async def _kept_by(self, caller: Caller, switch: Switch) -> list[str]:
        """The one-time schedules that a switch has paused instead of letting their only fire pass."""
        group = None if switch.scope == EVERYBODY else switch.scope
        found = await self.list_tasks(caller, group=group)
        return [one.id for one in found if one.status == "paused" and one.held == switch.words]

    def _check_person(self, caller: Caller) -> None:
        if not caller.is_person:
            raise NotAllowed("Only a person may use a kill switch. Ask the owner.")

    # --- tidying ---

    async def prune(self) -> int:
        """Forget schedules that were over long ago and are in no store any more; how many those were."""
        store, origins = await self._schedules.store(), await self._schedules.origins()
        before = await store.now() - KEPT_MS
        count, last = 0, ""
        while page := await origins.old(before, last):
            last = page[-1]
            tasks = await store.get([Identity(AGENT, schedule_id) for schedule_id in page])
            gone = [schedule_id for schedule_id, task in zip(page, tasks, strict=True) if task is None]
            if gone:
                await origins.forget(gone)
            count += len(gone)
        await Tokens(await self._schedules.database()).remove_expired(MAKER)
        return count

    # --- inside ---

    async def _target(self, caller: Caller, group: str | None) -> Group:
        """The group that a new schedule is for."""
        folder = group or caller.group
        if folder is None:
            raise InvalidInput("Say for which group: group='main', for example. `rota agent group ls` lists them.")
        if not caller.may_touch(folder):
            raise NotAllowed(f"You may schedule for your own group {caller.group!r} only. Leave 'group' out.")
        return await (await self.groups()).get(folder)

    def _check_rested(self, caller: Caller, origin: Origin | None, at: Instant | None) -> None:
        """Neither "run now" nor a new time is a way for an agent around the shortest interval."""
        least = self.settings.rules.min_interval_ms
        last = origin.last_run_at if origin is not None else None
        if origin is None or last is None or at is None or caller.is_person or at - last >= least:
            return
        raise LimitExceeded(f"{origin.id} ran at {isoformat(last)}. Try again after {isoformat(last + least)}.")

    async def _check_pace(self, folder: str, trigger: AnyTrigger, now: Instant) -> int:
        """Single times, or series that are cancelled and made anew, are no way around the shortest interval: what is
        to begin within it may not lie that near to another one that was just made. How many of the quota's places
        are spent: what an agent has made keeps its place for the shortest interval, also if it is over."""
        least = self.settings.rules.min_interval_ms
        made = await (await self._schedules.origins()).made_by_agents(folder, now - least)
        tasks = await (await self._schedules.store()).get([Identity(AGENT, one.id) for one in made])
        check_not_too_near(trigger, [_begins(*one) for one in zip(made, tasks, strict=True)], least, now)
        # One without a task is being made just now, or was refused: it has its place when it is there.
        return sum(task is not None and not task.status.is_live for task in tasks)

    async def _consent(
        self, kind: ProposalKind, caller: Caller, schedule_id: str, *, is_of_people: bool
    ) -> AgentSchedule | None:
        """Write down that a run asks for this, if a person has to agree to it first; None if nobody has to."""
        task, origin = await self._schedules.find(caller, schedule_id)
        folder = "" if task is None else task.owner or ""
        rules = self.settings.rules
        if task is None or not needs_consent(caller, rules, folder, is_of_people=is_of_people):
            return None
        if goes_to(EVENTS[kind], task) is None or task.trigger is None:
            raise IllegalTransition(f"{schedule_id} is {task.status.value}, so '{kind}' is not possible.")
        origins = await self._schedules.origins()
        origin = origin or await origins.add(made_by_code(task, payload_of(task.payload)))
        if origin.approval == "waiting" and (origin.proposal is None or origin.proposal.kind != kind):
            raise IllegalTransition(f"Something else of {schedule_id} waits for the owner already. Leave it to them.")
        trigger = decode_trigger(task.trigger)
        proposal = proposal_of(
            kind, payload_of(task.payload), trigger, task.expires_at, caller, based_on=task.version, origin=origin
        )
        origin = await origins.propose(schedule_id, folder, proposal, max_waiting=rules.max_waiting)
        group = await (await self.groups()).find(folder)
        await self._schedules.tell(
            "approval_wanted", group, schedule_id, f"{caller.name} wants to {kind} it, in a run."
        )
        return await self.get_task(caller, schedule_id)

    async def _check_not_switched_off(self, caller: Caller, task: Task) -> None:
        """A fire of a group that is switched off is skipped: whoever asks for one now is told before, not after."""
        switch = await (await self.groups()).switch_over(task.owner or "")
        if switch is None:
            return
        way = f"`{switch.way_back}` lets it go on" if caller.is_person else "Only the owner can let it go on"
        raise IllegalTransition(f"{switch.words} {task.key} would be skipped, so nothing was started. {way}.")

    async def _apply(self, transition: Transition, caller: Caller, schedule_id: str) -> AgentSchedule:
        task, origin = await self._schedules.find(caller, schedule_id)
        if task is None:
            if origin is not None and origin.approval == "rejected":
                raise decided_already(schedule_id)
            raise IllegalTransition(
                f"{schedule_id} waits for approval. It can only be approved, rejected or cancelled."
            )
        (reply,) = await (await self._schedules.store()).apply(transition, [task.identity])
        answered(transition, reply, schedule_id)
        if origin is not None and origin.proposal is not None and EVENTS.get(origin.proposal.kind) is transition:
            # What a run has asked for is done now: nobody has to decide on it any more.
            await (await self._schedules.origins()).decide(origin, standing_of(origin), caller.name, origin.digest)
        await self._schedules.refresh(task.owner or "")
        return await self.get_task(caller, schedule_id)


def _begins(origin: Origin, task: Task | None) -> Instant:
    """When the first fire of a schedule was due; of one that nobody knows any more, when it was made."""
    first = None if task is None or task.trigger is None else decode_trigger(task.trigger).next_after(origin.created_at)
    return origin.created_at if first is None else first


def _check_can_run(caller: Caller, task: Task, now: Instant) -> None:
    """Refuse what would be said to be due and never run."""
    if task.expires_at is not None and task.expires_at <= now:
        raise IllegalTransition(
            f"{task.key} has expired at {isoformat(task.expires_at)}: it runs no more. Make a new one."
        )
    if caller.is_person:
        return
    if not task.status.is_live:
        raise IllegalTransition(f"{task.key} is {task.status.value}. Make a new one with schedule_task.")
    if task.status is TaskStatus.PAUSED:
        raise IllegalTransition(
            f"{task.key} is paused, so it does not run. Let it go on with resume_task, then run it."
        )


def _check_may_free(caller: Caller, schedule_id: str, task: Task | None, origin: Origin | None) -> None:
    """What Rota itself has held, only a person lets run again."""
    held = held_of(task, origin)
    if held is not None and not caller.is_person:
        raise NotAllowed(f"{schedule_id} was paused by Rota: {held} Ask the owner to resume it.")


def _is_run_of(task: Task | None, token: int) -> bool:
    """Whether the run with this token is under way."""
    return task is not None and task.status is TaskStatus.RUNNING and task.token == token


def _shown(run: RunRecord) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "status": run.status.value,
        "reason": run.reason,
        "fire_at": isoformat(run.fire_at),
        "last_fire_at": isoformat(run.last_fire_at),
        "fires": run.fires,
        "started_at": isoformat(run.started_at),
        "duration_ms": run.duration_ms,
        "attempt": run.attempt,
        "result": run.result,
        "error": run.error,
        "instance": run.instance,
        "token": run.token,
    }


def _seen_by(caller: Caller, group: str | None) -> str | None:
    """The group whose schedules are shown to whoever asks, for this one; None: those of all."""
    if group is not None and not caller.may_touch(group):
        raise NotAllowed(f"The schedules of the group {group[:80]!r} are not yours to see. Leave 'group' out.")
    return group if caller.sees_all else caller.group
