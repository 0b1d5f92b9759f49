"""Everything that people and agents can do with scheduled agents: what the MCP server, the API and the CLI call.

Who asks is a `Caller`, made by the channel that has verified it. A group sees and changes its own schedules, main and
people see all, and only people approve, throw switches and resume what Rota has held.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast, get_args

import msgspec

from rota.agents.channels import Channels, Notice, NoticeKind
from rota.agents.folders import folder_path
from rota.agents.gate import MAX_SCRIPT
from rota.agents.groups import EVERYBODY, Group, Groups, Switch
from rota.agents.guard import (
    Caller,
    check_interval,
    check_may_create,
    check_prompt,
    depth_of,
    digest_of,
    expiry_of,
    needs_approval,
)
from rota.agents.handler import AgentHandler
from rota.agents.ledger import Ledger, Proposal, Provenance, RunningNow
from rota.agents.listing import Zones, proposed, schedules_of
from rota.agents.record import AGENT, AgentPayload, AgentSchedule, ContextMode, payload_of, value_of
from rota.agents.runners.choose import Chosen
from rota.agents.runners.command import CommandRunner
from rota.agents.settings import AgentSettings
from rota.agents.snapshot import SNAPSHOT, write_snapshot
from rota.clock import DAY, Instant, isoformat
from rota.core.outcome import Answer, Reply, Scheduled, ScheduleOutcome
from rota.core.task import Change, Event, Identity, NewTask, RunRecord, Task
from rota.database import Database
from rota.errors import IllegalTransition, InvalidInput, LimitExceeded, NotAllowed, RotaError, UnknownTask
from rota.logs import get_logger
from rota.stores.base import Page, RunQuery, Store
from rota.triggers import AnyTrigger, Once, decode_trigger, encode_trigger, parse_trigger
from rota.webhooks import Webhooks

__all__ = ["Agents"]

MAX_OF_PEOPLE: Final = 1_000
"""Live schedules of a group, however they were made."""

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
    ) -> None:
        self.settings = settings or AgentSettings()
        self._store = store
        self._database = database
        self._channels = Channels(self.settings.groups_dir / ".notices", webhooks)
        self._webhooks = webhooks
        self._chosen: Chosen | None = None
        self._choosing = asyncio.Lock()
        self.handler = AgentHandler(store, database, self.settings, self._channels, self._runner)

    # --- where they run ---

    async def isolation(self) -> Chosen:
        """The isolation of every run, found out once and said in the log."""
        async with self._choosing:
            if self._chosen is None:
                self._chosen = await asyncio.to_thread(self.settings.choose)
                _log.info(self._chosen.words)
            return self._chosen

    async def _runner(self) -> CommandRunner:
        return self.settings.runner(await self.isolation())

    async def now(self) -> Instant:
        """What time it is at the store, which decides."""
        return await (await self._store()).now()

    async def groups(self) -> Groups:
        """The groups, for those who may administer them."""
        return Groups(await self._database(), self._webhooks)

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
        store, ledger = await self._store(), await self._ledger()
        now = await store.now()
        zone_name = timezone or target.timezone or self.settings.timezone
        trigger = parse_trigger(schedule_type, schedule_value, timezone=zone_name, now=now)
        check_interval(trigger, caller, rules, now)
        payload = AgentPayload(
            group_folder=target.folder,
            chat_jid=target.chat_jid,
            prompt=check_prompt(prompt, rules),
            context_mode=_context_mode(context_mode),
            script=_checked_script(script),
            timezone=timezone,
        )
        expires_at = expiry_of(_instant(expires, zone_name, now), caller, rules, now)
        _check_reaches(trigger, expires_at)
        proposal = _proposal("create", payload, trigger, expires_at, caller)
        waits = needs_approval(caller, rules)
        origin = Provenance(
            id=f"task-{now}-{secrets.token_hex(3)}",
            folder=target.folder,
            made_by=caller.name,
            made_in_run=caller.run_id,
            depth=depth_of(caller),
            approval="waiting" if waits else "none",
            proposal=proposal if waits else None,
            digest=proposal.digest,
        )
        origin = await ledger.add(origin, max_waiting=rules.max_waiting)
        if waits:
            await self._tell("approval_wanted", target, origin.id, f"{caller.name} wants to schedule: {prompt}", now)
            await self._refresh(target.folder)
            return proposed(origin, zone_name)
        task = await self._put(store, origin, proposal, caller)
        await self._refresh(target.folder)
        return AgentSchedule.of_task(task, origin, zone_name)

    async def list_tasks(
        self, caller: Caller, *, group: str | None = None, finished: bool = False
    ) -> list[AgentSchedule]:
        """The caller's schedules: its own group's, or for main and people those of all or of one."""
        if group is not None and not caller.may_touch(group):
            raise NotAllowed(f"The schedules of the group {group[:80]!r} are not yours to see. Leave 'group' out.")
        whose = group if caller.sees_all else caller.group
        return await schedules_of(
            await self._store(), await self._ledger(), await self._zones(), whose, with_finished=finished
        )

    async def get_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """One schedule, or a proposal of one."""
        task, origin = await self._find(caller, schedule_id)
        zones = await self._zones()
        if task is not None:
            return AgentSchedule.of_task(task, origin, zones.of(task.owner or ""))
        assert origin is not None, "one of the two was found"
        return proposed(origin, zones.of(origin.folder))

    async def pause_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Hold it back until it is resumed."""
        return await self._ask(Event.PAUSE, caller, schedule_id)

    async def resume_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Go on with the first fire that lies ahead. What Rota itself has held only a person resumes."""
        _, origin = await self._find(caller, schedule_id)
        if origin is not None and origin.held is not None:
            if not caller.is_person:
                raise NotAllowed(f"{schedule_id} was paused by Rota: {origin.held} Ask the owner to resume it.")
            await (await self._ledger()).set(schedule_id, held=None, failures=0)
        return await self._ask(Event.RESUME, caller, schedule_id)

    async def cancel_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """End it; its history stays. A proposal is withdrawn."""
        task, origin = await self._find(caller, schedule_id)
        ledger = await self._ledger()
        if task is None:
            assert origin is not None, "one of the two was found"
            origin = await ledger.decide(schedule_id, "rejected", caller.name, origin.digest)
            await self._refresh(origin.folder)
            return proposed(origin, (await self._zones()).of(origin.folder))
        return await self._ask(Event.CANCEL, caller, schedule_id)

    async def run_task(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Run it once, now; its series is not shifted. An agent may do so as often as it may schedule."""
        check_may_create(caller, self.settings.rules)
        _, origin = await self._find(caller, schedule_id)
        now = await (await self._store()).now()
        least = self.settings.rules.min_interval_ms
        last = origin.last_run_at if origin is not None else None
        if not caller.is_person and last is not None and now - last < least:
            raise LimitExceeded(f"{schedule_id} ran at {isoformat(last)}. Try again after {isoformat(last + least)}.")
        return await self._ask(Event.RUN_NOW, caller, schedule_id)

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
        expires: str | None = None,
    ) -> AgentSchedule:
        """Change what is given and leave the rest; an empty script takes the gate away.

        If a person has to agree, the schedule goes on as it is until they do.
        """
        rules = self.settings.rules
        check_may_create(caller, rules)
        task, origin = await self._find(caller, schedule_id)
        if task is None or not task.status.is_live or task.trigger is None:
            raise IllegalTransition(f"{schedule_id} is not scheduled, so it cannot be changed. Make a new one.")
        store, ledger = await self._store(), await self._ledger()
        now = await store.now()
        old = payload_of(task.payload)
        zone_name = old.timezone or (await self._zones()).of(old.group_folder)
        payload = _changed(old, self.settings, prompt, context_mode, script)
        trigger = _new_trigger(task.trigger, schedule_type, schedule_value, zone_name, now)
        check_interval(trigger, caller, rules, now)
        made_at = origin.created_at if origin is not None else task.created_at
        wanted = _instant(expires, zone_name, now)
        expires_at = task.expires_at if wanted is None else expiry_of(wanted, caller, rules, made_at)
        proposal = _proposal("update", payload, trigger, expires_at, caller)
        if origin is None:
            origin = await ledger.add(_code_made(task, old))
        if needs_approval(caller, rules):
            origin = await ledger.propose(schedule_id, old.group_folder, proposal, max_waiting=rules.max_waiting)
            group = await (await self.groups()).find(old.group_folder)
            await self._tell("approval_wanted", group, schedule_id, f"{caller.name} wants to change it.", now)
            return AgentSchedule.of_task(task, origin, zone_name)
        task = await self._change(store, schedule_id, proposal)
        await ledger.set(schedule_id, digest=proposal.digest)
        await self._refresh(old.group_folder)
        return await self.get_task(caller, task.key)

    async def task_history(
        self, caller: Caller, schedule_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> Page[dict[str, Any]]:
        """Its runs, and the fires that were not run, newest first; whole results where they are still kept.

        Also of a schedule that is over: its runs are kept longer than its task.
        """
        await self._find(caller, schedule_id, finished=True)
        store, ledger = await self._store(), await self._ledger()
        page = await store.runs(RunQuery(task_type=AGENT, key=schedule_id, limit=limit, cursor=cursor))
        whole = {result.token: result for result in await ledger.results(schedule_id)}
        rows: list[dict[str, Any]] = []
        for run in page.items:
            kept = whole.get(run.token)
            rows.append({**_shown(run), "whole_result": None if kept is None else kept.result})
        return Page(rows, page.cursor)

    async def depth_of_run(self, run_id: str) -> int:
        """How far the schedule of a run is from a person; at least 1, whatever is known of it."""
        schedule_id = run_id.rpartition("-")[0]
        origin = (await (await self._ledger()).get([schedule_id])).get(schedule_id)
        return max(1, origin.depth if origin is not None else 1)

    # --- approval ---

    async def waiting(self, caller: Caller) -> list[AgentSchedule]:
        """What waits for a person's decision, oldest first."""
        ledger, zones = await self._ledger(), await self._zones()
        whose = None if caller.sees_all else caller.group
        return [proposed(one, zones.of(one.folder)) for one in await ledger.waiting(whose) if one.proposal is not None]

    async def approve(self, caller: Caller, schedule_id: str, *, digest: str | None = None) -> AgentSchedule:
        """Agree: the schedule counts from now on. With `digest`, only if it still is what the person has seen."""
        origin = await self._undecided(caller, schedule_id)
        assert origin.proposal is not None, "what is undecided proposes something"
        if digest is not None and digest != origin.proposal.digest:
            raise IllegalTransition(f"{schedule_id} was changed since you looked at it. Look again, then decide.")
        store, ledger = await self._store(), await self._ledger()
        _check_not_over(schedule_id, origin.proposal, await store.now())
        if origin.proposal.kind == "create":
            await self._put(store, origin, origin.proposal, caller)
        else:
            await self._change(store, schedule_id, origin.proposal)
        await ledger.decide(schedule_id, "approved", caller.name, origin.proposal.digest)
        return await self._decided(caller, schedule_id, "approved")

    async def reject(self, caller: Caller, schedule_id: str) -> AgentSchedule:
        """Refuse: a new schedule never counts, a changed one stays as it was."""
        origin = await self._undecided(caller, schedule_id)
        assert origin.proposal is not None, "what is undecided proposes something"
        state = "rejected" if origin.proposal.kind == "create" else "approved"
        await (await self._ledger()).decide(schedule_id, state, caller.name, origin.digest)
        return await self._decided(caller, schedule_id, "rejected")

    async def _undecided(self, caller: Caller, schedule_id: str) -> Provenance:
        if not caller.is_person:
            raise NotAllowed("Only a person may approve or reject schedules. Ask the owner.")
        _, origin = await self._find(caller, schedule_id)
        if origin is None or origin.approval != "waiting":
            raise IllegalTransition(f"{schedule_id} does not wait for approval. Nothing changed.")
        return origin

    async def _decided(self, caller: Caller, schedule_id: str, what: str) -> AgentSchedule:
        found = await self.get_task(caller, schedule_id)
        group = await (await self.groups()).find(found.group_folder)
        now = await (await self._store()).now()
        await self._tell("decided", group, schedule_id, f"{caller.name} has {what} it.", now)
        await self._refresh(found.group_folder)
        return found

    # --- stopping ---

    async def running(self, caller: Caller) -> list[RunningNow]:
        """What runs now, with its live output."""
        rows = await (await self._ledger()).running(None if caller.sees_all else caller.group)
        tasks = await (await self._store()).get([Identity(AGENT, row.id) for row in rows])
        # A row whose instance has died is older than the task's token.
        return [row for row, task in zip(rows, tasks, strict=True) if task is not None and task.token == row.token]

    async def stop_run(self, caller: Caller, schedule_id: str) -> None:
        """End the run that is under way, within seconds; the schedule goes on."""
        await self._find(caller, schedule_id)
        if not await (await self._ledger()).ask_to_stop(schedule_id, caller.name):
            raise IllegalTransition(f"{schedule_id} does not run now, so there is nothing to stop.")

    async def switch_off(self, caller: Caller, scope: str = EVERYBODY, reason: str = "") -> Switch:
        """Throw the kill switch of a group, or of all: what runs is ended, what is due is skipped."""
        self._check_person(caller)
        return await (await self.groups()).switch_off(scope, caller.name, reason)

    async def switch_on(self, caller: Caller, scope: str = EVERYBODY) -> None:
        """Let the group, or all, go on."""
        self._check_person(caller)
        await (await self.groups()).switch_on(scope)

    def _check_person(self, caller: Caller) -> None:
        if not caller.is_person:
            raise NotAllowed("Only a person may use a kill switch. Ask the owner.")

    # --- tidying ---

    async def prune(self) -> int:
        """Forget schedules that were over long ago and are in no store any more; how many those were."""
        store, ledger = await self._store(), await self._ledger()
        before = await store.now() - KEPT_MS
        count, last = 0, ""
        while page := await ledger.old(before, last):
            last = page[-1]
            tasks = await store.get([Identity(AGENT, schedule_id) for schedule_id in page])
            gone = [schedule_id for schedule_id, task in zip(page, tasks, strict=True) if task is None]
            if gone:
                await ledger.forget(gone)
            count += len(gone)
        return count

    async def _refresh(self, folder: str) -> None:
        """Bring `current_tasks.json` up to date where it lies: the group's own, and main's, which has all."""
        for group in await (await self.groups()).list():
            if group.folder == folder or group.is_main:
                try:
                    await self._write_snapshot(group)
                except (InvalidInput, OSError) as error:
                    # The change itself is made; the file is written anew before the next run.
                    _log.warning("agent snapshot not written", group=group.folder, error=str(error))

    async def _write_snapshot(self, group: Group) -> None:
        path = folder_path(self.settings.groups_dir, group.folder)
        if not (path / SNAPSHOT).exists():
            return  # it has not run here yet: it gets one before its first run
        whose = None if group.is_main else group.folder
        schedules = await schedules_of(await self._store(), await self._ledger(), await self._zones(), whose)
        uid = self.settings.uid_of(group.number)
        await asyncio.to_thread(write_snapshot, path, schedules, group.folder, is_main=group.is_main, uid=uid)

    # --- inside ---

    async def _ledger(self) -> Ledger:
        return Ledger(await self._database())

    async def _zones(self) -> Zones:
        groups = await (await self.groups()).list()
        return Zones({group.folder: group.timezone for group in groups}, self.settings.timezone)

    async def _target(self, caller: Caller, group: str | None) -> Group:
        """The group that a new schedule is for."""
        folder = group or caller.group
        if folder is None:
            raise InvalidInput("Say for which group: group='main', for example. `rota agent group ls` lists them.")
        if not caller.may_touch(folder):
            raise NotAllowed(f"You may schedule for your own group {caller.group!r} only. Leave 'group' out.")
        return await (await self.groups()).get(folder)

    async def _find(
        self, caller: Caller, schedule_id: str, *, finished: bool = False
    ) -> tuple[Task | None, Provenance | None]:
        """The schedule, if it is the caller's to see. Somebody else's looks like none at all."""
        store, ledger = await self._store(), await self._ledger()
        (task,) = await store.get([Identity(AGENT, schedule_id)])
        origin = (await ledger.get([schedule_id])).get(schedule_id)
        folder = task.owner if task is not None else origin.folder if origin is not None else None
        is_there = task is not None or (origin is not None and (finished or origin.proposal is not None))
        if not is_there or not caller.may_touch(folder or ""):
            raise UnknownTask(f"There is no schedule {schedule_id[:80]!r} here. Call list_tasks to see the ids.")
        return task, origin

    async def _ask(self, event: Event, caller: Caller, schedule_id: str) -> AgentSchedule:
        task, _ = await self._find(caller, schedule_id)
        if task is None:
            raise IllegalTransition(
                f"{schedule_id} waits for approval. It can only be approved, rejected or cancelled."
            )
        (reply,) = await (await self._store()).ask(event, [task.identity])
        _answered(event, reply, schedule_id)
        await self._refresh(task.owner or "")
        return await self.get_task(caller, schedule_id)

    async def _put(self, store: Store, origin: Provenance, proposal: Proposal, caller: Caller) -> Task:
        """Make the task, within the group's quota; doing it again changes nothing."""
        limit = MAX_OF_PEOPLE if caller.is_person else self.settings.rules.max_schedules
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
        (scheduled,) = await store.schedule([new])
        return _accepted(scheduled, origin, limit)

    async def _change(self, store: Store, schedule_id: str, proposal: Proposal) -> Task:
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
        return _answered(Event.UPDATE, reply, schedule_id)

    async def _tell(self, kind: NoticeKind, group: Group | None, schedule_id: str, text: str, now: Instant) -> None:
        folder = group.folder if group is not None else ""
        notice = Notice(kind=kind, group=folder, schedule_id=schedule_id, text=text, at=now)
        await self._channels.tell(group, notice)


# --- what is asked for, checked --------------------------------------------------------------------------------------


def _context_mode(mode: str) -> ContextMode:
    if mode not in get_args(ContextMode):
        raise InvalidInput(f"The context_mode {mode[:40]!r} is unknown. Use 'isolated' (its own session) or 'group'.")
    return cast("ContextMode", mode)


def _checked_script(script: str | None) -> str | None:
    if not script:
        return None
    if len(script) > MAX_SCRIPT:
        raise LimitExceeded(f"The script has {len(script):,} characters; {MAX_SCRIPT:,} is the most.")
    return script


def _instant(text: str | None, timezone: str, now: Instant) -> Instant | None:
    if text is None:
        return None
    trigger = parse_trigger("once", text, timezone=timezone, now=now)
    assert isinstance(trigger, Once)
    return trigger.at


def _check_reaches(trigger: AnyTrigger, expires_at: Instant | None) -> None:
    if isinstance(trigger, Once) and expires_at is not None and trigger.at > expires_at:
        raise LimitExceeded(f"It would run after it has expired, at {isoformat(expires_at)}. Use an earlier time.")


def _check_not_over(schedule_id: str, proposal: Proposal, now: Instant) -> None:
    """What waited too long must not fire at once because somebody agrees in the end."""
    trigger = decode_trigger(proposal.trigger)
    ends = [at for at in (proposal.expires_at, trigger.at if isinstance(trigger, Once) else None) if at is not None]
    if ends and min(ends) <= now:
        raise IllegalTransition(
            f"{schedule_id} was meant for {isoformat(min(ends))}, which is over. Reject it, and have it asked for anew."
        )


def _changed(
    old: AgentPayload, settings: AgentSettings, prompt: str | None, context_mode: str | None, script: str | None
) -> AgentPayload:
    return msgspec.structs.replace(
        old,
        prompt=old.prompt if prompt is None else check_prompt(prompt, settings.rules),
        context_mode=old.context_mode if context_mode is None else _context_mode(context_mode),
        script=old.script if script is None else _checked_script(script),
    )


def _new_trigger(
    stored: str, schedule_type: str | None, schedule_value: str | int | None, timezone: str, now: Instant
) -> AnyTrigger:
    """The trigger as it is, or the new one; a value alone is of the type that it had."""
    old = decode_trigger(stored)
    if schedule_value is None:
        if schedule_type is not None and schedule_type != old.kind:
            raise InvalidInput(
                "The schedule_type was given without a schedule_value. Give both, e.g. 'cron', '0 9 * * *'."
            )
        return old
    if schedule_type in (None, old.kind) and str(schedule_value) == value_of(old, timezone):
        return old  # an equal interval keeps its grid
    return parse_trigger(schedule_type or old.kind, schedule_value, timezone=timezone, now=now)


def _proposal(
    kind: Any, payload: AgentPayload, trigger: AnyTrigger, expires_at: Instant | None, caller: Caller
) -> Proposal:
    return Proposal(
        kind=kind,
        payload=msgspec.json.encode(payload).decode(),
        trigger=encode_trigger(trigger),
        expires_at=expires_at,
        digest=digest_of(payload.group_folder, payload.prompt, payload.script, payload.context_mode),
        by=caller.name,
    )


def _code_made(task: Task, payload: AgentPayload) -> Provenance:
    digest = digest_of(payload.group_folder, payload.prompt, payload.script, payload.context_mode)
    return Provenance(id=task.key, folder=payload.group_folder, made_by="code", digest=digest)


# --- from the store's codes to errors --------------------------------------------------------------------------------


def _accepted(scheduled: Scheduled, origin: Provenance, limit: int) -> Task:
    refusals: dict[ScheduleOutcome, RotaError] = {
        ScheduleOutcome.QUOTA: LimitExceeded(
            f"The group {origin.folder!r} has {limit} live schedules, which is its limit. Cancel one first: list_tasks"
            " shows them."
        ),
        ScheduleOutcome.FULL: LimitExceeded("Too many agents are waiting already (max_pending). Try again later."),
        ScheduleOutcome.DISABLED: NotAllowed("Scheduled agents are switched off here. Ask the owner."),
    }
    if scheduled.outcome in refusals:
        raise refusals[scheduled.outcome]
    assert scheduled.task is not None, f"{origin.id} was accepted but is not there"
    return scheduled.task


def _answered(event: Event, reply: Reply, schedule_id: str) -> Task:
    if reply.answer is Answer.REFUSED or reply.task is None:
        status = "gone" if reply.task is None else reply.task.status.value
        raise IllegalTransition(f"{schedule_id} is {status}, so '{event.value}' is not possible. Nothing changed.")
    return reply.task


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
