"""One run of a scheduled agent, as a sentence of steps: look again, prepare, begin, work watched, conclude.

Between the claim and here a person may have paused, changed or cancelled the schedule, removed the group or thrown a
switch. So everything is looked at again, and what does not fit any more leaves its row and tells the owner.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import msgspec

from rota.agents.group_folders import prepare_folder, uid_of
from rota.agents.groups import Group, Groups, unknown_group
from rota.agents.isolation.base import AgentInput, RunEnvironment, RunnerResult, RunRequest
from rota.agents.isolation.command import CommandRunner
from rota.agents.notices import Channels, Notice, NoticeKind
from rota.agents.runs.file_work import FileWork
from rota.agents.runs.gate import GateDecision, ask_gate
from rota.agents.runs.run_store import (
    FinishedRun,
    RunContext,
    RunEnd,
    RunOutput,
    RunStart,
    RunStore,
    StopCheck,
    cut,
    summary_of,
)
from rota.agents.runs.run_tokens import McpAccess, with_run_token
from rota.agents.schedules.agent_task import AgentPayload, Origin, content_digest, payload_of, was_agreed_before_times
from rota.agents.schedules.listing import SNAPSHOT, FoundTogether, Zones, snapshot_of, tasks_of
from rota.agents.schedules.origins import Origins
from rota.agents.schedules.validation import follows_code
from rota.agents.settings import AgentSettings
from rota.clock import Instant
from rota.core.task import Task, Want
from rota.database import Database
from rota.errors import InvalidInput, LeaseLost, RotaError, RunnerUnavailable, StoreUnavailable
from rota.logs import get_logger
from rota.runtime.run import Run
from rota.runtime.signals import Discard, Retry, Snooze
from rota.stores.base import MAX_PROGRESS_BYTES, Store

__all__ = ["AgentFailed", "AgentHandler"]

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at whether a run is to be stopped."""
LINES_SHOWN: Final = 200
"""Lines of live output that are kept."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0

_Given = ParamSpec("_Given")
_Written = TypeVar("_Written")

_log = get_logger("rota.agents")


class AgentFailed(Retry):
    """The run failed, with a reason class and words of its own."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(reason=reason)
        self.args = (words,)


@dataclass(frozen=True)
class _Job:
    """Everything that one run needs."""

    stores: _Stores
    runner: CommandRunner
    task: Task
    payload: AgentPayload
    group: Group
    session: str | None
    environment: RunEnvironment
    start: RunStart


@dataclass(frozen=True)
class _Stores:
    """The stores of tasks and of runs, as they are open now."""

    store: Store
    tasks: FoundTogether
    database: Database
    runs: RunStore


class AgentHandler:
    """The handler of the task type `agent`."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        database: Callable[[], Awaitable[Database]],
        settings: AgentSettings,
        channels: Channels,
    ) -> None:
        self._store = store
        self._database = database
        self._settings = settings
        self._visible = settings.visible()
        self._channels = channels
        self._chosen: CommandRunner | None = None
        self._choosing = asyncio.Lock()
        self.mcp_access: McpAccess = nullcontext
        """How a run reaches the MCP server without a network; by itself not at all."""
        self._stores: _Stores | None = None
        self._files = FileWork()

    async def run_agent(self, run: Run) -> str:
        """Run the agent of this schedule; the summary of its result."""
        stores = await self._open()
        try:
            job = await self._prepare(stores, run)
        except (RotaError, OSError) as error:
            if isinstance(error, StoreUnavailable | LeaseLost):
                raise
            await self._hold(stores, run.task, str(error), last_result=summary_of(None, str(error)))
            raise AgentFailed("error", str(error)) from error
        await self._begin(job)
        result = await self._work_watched(run, job)
        return await self._conclude(job, result)

    async def runner(self) -> CommandRunner:
        """What runs agents here. Their isolation is found out once and said in the log."""
        async with self._choosing:
            if self._chosen is None:
                chosen = await asyncio.to_thread(self._settings.choose)
                _log.info(chosen.words)
                self._chosen = self._settings.runner(chosen)
            return self._chosen

    def forget_stores(self) -> None:
        """Before a worker begins: what is open then stays open as long as it works, so its first run alone asks."""
        self._stores = None

    async def _open(self) -> _Stores:
        if self._stores is None:
            store, database = await self._store(), await self._database()
            # Runs that come first at the same time share what the first of them has made.
            self._stores = self._stores or _Stores(store, FoundTogether(store), database, RunStore(database))
        return self._stores

    # --- before the run ---

    async def _prepare(self, stores: _Stores, run: Run) -> _Job:
        """What the run needs, out of two reads; a group that is gone or a prompt that nobody agreed to is refused."""
        task, context, tasks = await self._look_again(stores, run)
        payload, group = payload_of(task.payload), context.group
        if group is None:
            raise unknown_group(payload.group_folder)
        start = await self._check_origin(stores, task, payload, context)
        # If no isolation is to be had a person decides, and it is held until then.
        runner = self._chosen or await self.runner()
        settings = self._settings
        own: Mapping[str, str] = os.environ
        environment = RunEnvironment(
            folder=await self._prepare_folder(group, context, tasks),
            run_id=f"{task.key}-{task.token}",
            uid=uid_of(group.number, settings.uid_base),
            has_network=group.has_network,
            timezone=payload.timezone or group.timezone or settings.timezone,
            variables={**{name: own[name] for name in settings.pass_on if name in own}, **settings.environment},
            read_only=self._visible,
        )
        return _Job(stores, runner, task, payload, group, context.session, environment, start)

    async def _look_again(self, stores: _Stores, run: Run) -> tuple[Task, RunContext, list[Task]]:
        """The schedule as it is now, not as it was when it was claimed; what is known of it and its group; and all
        schedules that its group may see, among which it is as a rule."""
        claimed = run.task
        folder = payload_of(claimed.payload).group_folder
        context = await stores.runs.context(claimed.key, folder)
        group = context.group
        tasks = [] if group is None else await tasks_of(stores.tasks, None if group.is_main else folder)
        task = next((task for task in tasks if task.key == claimed.key), None)
        if task is None:
            (task,) = await stores.store.get([claimed.identity])
        if task is None or task.token != claimed.token:
            raise LeaseLost(f"The run of {claimed.key!r} was taken over before it had begun. Nothing was run.")
        if task.want is Want.CANCEL:
            raise Discard("It was cancelled before the agent had begun.")
        if task.want is Want.PAUSE and not run.is_of_paused:
            raise Snooze("1s")  # settled as paused: nothing has run, and nothing is counted
        if task.payload != claimed.payload and payload_of(task.payload).group_folder != folder:
            raise Snooze("1s")  # it was given to another group meanwhile: it begins anew, as that one's
        return task, context, tasks

    async def _check_origin(self, stores: _Stores, task: Task, payload: AgentPayload, context: RunContext) -> RunStart:
        """What it does must be what was written down, and approved if that was needed. What the program's own code has
        scheduled is written down here, and again when the code has changed it."""
        digest = content_digest(payload, task.trigger, task.expires_at)
        start = RunStart(id=task.key, folder=payload.group_folder, token=task.token)
        origin = context.origin
        if origin is None:
            made = Origin(id=task.key, folder=payload.group_folder, made_by="code", digest=digest)
            return msgspec.structs.replace(start, origin=made)
        # An approved change is written to the task first and here then: a run in between looks a second time.
        for last in (False, True):
            if origin is not None and digest == origin.digest:
                return start
            if origin is not None and (follows_code(origin) or was_agreed_before_times(origin.digest, payload)):
                return msgspec.structs.replace(start, digest=digest)
            if not last:
                await asyncio.sleep(LOOK_EVERY)
                origin = (await stores.runs.context(task.key, payload.group_folder)).origin
        raise InvalidInput(
            "Its prompt, script or times are not those that were agreed to (the digest differs). Look at it, then"
            f" change or confirm it: `rota agent update {task.key}`, with all that it is to do."
        )

    async def _prepare_folder(self, group: Group, context: RunContext, tasks: Sequence[Task]) -> Path:
        """The group's folder, with what its agent may know about schedules in it."""
        content = snapshot_of(tasks, context.waiting, Zones(context.zones, self._settings.timezone), group)
        uid = uid_of(group.number, self._settings.uid_base)
        groups_dir, files = self._settings.groups_dir, {SNAPSHOT: content}
        return await self._files.begin(partial(prepare_folder, groups_dir, group.folder, uid, files=files))

    async def _begin(self, job: _Job) -> None:
        """From here on it can be seen and stopped; a switch that is thrown already stops it here."""
        switch = await job.stores.runs.start(job.start)
        if switch is None:
            return
        if job.task.is_recurring:
            raise Discard(f"Skipped: {switch.words}")
        await job.stores.store.pause([job.task.identity])  # a single fire is kept for the time after
        await Origins(job.stores.database).set(job.task.key, held=switch.words)
        raise Snooze("1s")

    # --- the run ---

    async def _work_watched(self, run: Run, job: _Job) -> RunnerResult | GateDecision:
        output: deque[str] = deque(maxlen=LINES_SHOWN)

        def on_progress(progress: object) -> None:
            output.append(progress if isinstance(progress, str) else msgspec.json.encode(progress).decode())
            # As much of the end as a progress report holds, also when JSON doubles every character.
            run.progress({"output": "\n".join(output)[-MAX_PROGRESS_BYTES // 8 :]})

        working = asyncio.create_task(self._work(run, job, on_progress))
        try:
            while not (await asyncio.wait({working}, timeout=LOOK_EVERY))[0]:
                beat = await _beat(job, "\n".join(output))
                if beat is not None and beat.stop is not None:
                    await _cancelled(working)
                    await self._tell("stopped", job, beat.stop, beat.at)
                    raise Discard(beat.stop)
            return working.result()
        except BaseException:
            # What ends like this is not written as a result: it only goes off the list.
            await _cancelled(working)
            await _leave(job)
            raise

    async def _work(self, run: Run, job: _Job, on_progress: Callable[[object], None]) -> RunnerResult | GateDecision:
        """Ask the gate, if there is one, and run the agent. A gate that stays closed is the answer itself."""
        stores, settings = job.stores, self._settings
        script, data, session = job.payload.script, None, job.session
        if script is not None:
            with run.step("gate"):
                gate = await ask_gate(
                    *(script, job.runner, job.environment, settings.limits),
                    wall_ms=settings.gate_ms,
                    most=settings.gate_bytes,
                )
            if not gate.is_open:
                return gate
            data = gate.data
            # It may have taken its time: what the agent is told is of now.
            context = await stores.runs.context(job.task.key, job.group.folder)
            tasks = await tasks_of(stores.tasks, None if job.group.is_main else job.group.folder)
            await self._prepare_folder(job.group, context, tasks)
            session = context.session
        given = AgentInput(
            prompt=job.payload.prompt,
            session_id=session if job.payload.context_mode == "group" else None,
            group_folder=job.group.folder,
            chat_jid=job.payload.chat_jid,
            is_main=job.group.is_main,
            timezone=job.environment.timezone,
            data=data,
        )
        request = RunRequest(environment=job.environment, input=given, limits=settings.limits)
        token = nullcontext(request)
        if settings.mcp_url is not None:
            token = with_run_token(request, settings.mcp_url, stores.database, stores.store.now)
        try:
            async with token as request, self.mcp_access(request) as request:
                with run.step("agent"):
                    return await job.runner.run(request, on_progress)
        except RunnerUnavailable as error:
            # What cannot even be started is a failed run, not a failed handler.
            return RunnerResult(status="error", error=str(error), reason="crashed")

    # --- after the run ---

    async def _conclude(self, job: _Job, result: RunnerResult | GateDecision) -> str:
        if isinstance(result, GateDecision):
            return await self._skip(job, result)
        error = None if result.status == "success" else result.error or "Unknown error"
        summary = summary_of(result.result, error)
        end = RunEnd(
            id=job.task.key,
            folder=job.group.folder,
            token=job.task.token,
            summary=summary,
            status=result.status,
            reason=result.reason,
            result=result.result,
            error=error,
            session=result.new_session_id if job.payload.context_mode == "group" else None,
        )
        ended = await _insist(job.stores.runs.finish, end)
        if error is None:
            await self._tell("result", job, summary, ended.at)
            return summary
        await self._tell_failure(job, summary, ended)
        raise AgentFailed(result.reason if result.reason in ("timeout", "rate_limited") else "error", error)

    async def _skip(self, job: _Job, gate: GateDecision) -> str:
        """A gate that stayed closed ends the run as skipped, with the reason."""
        words = f"gate: {gate.trouble or 'nothing to do'}"
        reason = None if gate.trouble is None else "gate"
        end = RunEnd(id=job.task.key, folder=job.group.folder, token=job.task.token, summary=cut(words), reason=reason)
        ended = await _insist(job.stores.runs.finish, end)
        if gate.trouble is not None:
            await self._tell_failure(job, gate.trouble, ended)
        raise Discard(words)

    async def _tell_failure(self, job: _Job, words: str, ended: FinishedRun) -> None:
        """Tell the owner, and hold the schedule if it fails again and again: a broken gate does so no less."""
        await self._tell("error", job, words, ended.at)
        most = self._settings.max_failures
        if most and ended.failures >= most:
            await self._hold(job.stores, job.task, f"{ended.failures} runs in a row have failed. The last: {words}")

    async def _hold(self, stores: _Stores, task: Task, why: str, **also: object) -> None:
        """Pause the schedule when this run ends, keep the reason, and tell the owner."""
        await stores.store.pause([task.identity])
        await Origins(stores.database).set(task.key, held=cut(why, 500), **also)
        group = None if task.owner is None else await Groups(stores.database).find(task.owner)
        now = await stores.store.now()
        notice = Notice(kind="held", group=task.owner or "", schedule_id=task.key, text=f"Paused: {why}", at=now)
        await _insist(self._channels.tell, group, notice)

    async def _tell(self, kind: NoticeKind, job: _Job, text: str, now: Instant) -> None:
        run = job.environment.run_id
        notice = Notice(kind=kind, group=job.group.folder, schedule_id=job.task.key, text=text, at=now, run=run)
        await _insist(self._channels.tell, job.group, notice)


async def _insist(
    write: Callable[_Given, Awaitable[_Written]], *given: _Given.args, **named: _Given.kwargs
) -> _Written:
    """Write what came of a run, however long the database is away: an agent that has worked must not work again for
    it. Whoever loses the lease meanwhile is cancelled here."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write(*given, **named)
        except StoreUnavailable as error:
            _log.warning("what came of an agent is not written yet", error=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _beat(job: _Job, output: str) -> StopCheck | None:
    """Whether the run is to end; None while the database is away: the lease has its own guard."""
    said = RunOutput(id=job.task.key, folder=job.group.folder, token=job.task.token, text=output)
    try:
        return await job.stores.runs.heartbeat(said)
    except StoreUnavailable as error:
        _log.warning("agent run not shown", schedule=job.task.key, error=str(error))
        return None


async def _leave(job: _Job) -> None:
    """The row of what runs now goes; one that is left behind is told apart by its token."""
    try:
        await job.stores.runs.remove(job.task.key, job.task.token)
    except StoreUnavailable as error:
        _log.warning("agent run not taken off the list", schedule=job.task.key, error=str(error))


async def _cancelled(working: asyncio.Task[RunnerResult | GateDecision]) -> None:
    """End the run and wait until nothing of it is left."""
    working.cancel()
    await asyncio.wait({working})
