"""One run of a scheduled agent, as a sentence of steps: look again, ask the gate, run it watched, conclude.

Between the claim and here a person may have paused, changed or cancelled the schedule, removed the group or thrown a
switch. So everything is looked at again, and what does not fit any more leaves its row and tells the owner.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from rota.agents.channels import Channels, Notice, NoticeKind
from rota.agents.folders import prepare_folder
from rota.agents.gate import ask_gate
from rota.agents.groups import Group, Groups
from rota.agents.guard import digest_of
from rota.agents.ledger import Ledger, Provenance, Result
from rota.agents.listing import Zones, schedules_of
from rota.agents.record import AgentPayload, payload_of
from rota.agents.runners.base import AgentInput, RunnerResult, RunRequest, Seat
from rota.agents.runners.command import CommandRunner
from rota.agents.settings import AgentSettings
from rota.agents.snapshot import write_snapshot
from rota.agents.summary import cut, summary_of
from rota.core.task import Identity, Task, Want
from rota.database import Database
from rota.errors import InvalidInput, LeaseLost, RotaError, RunnerUnavailable, StoreUnavailable
from rota.logs import get_logger
from rota.runtime.run import Run
from rota.runtime.signals import Discard, Retry, Snooze
from rota.stores.base import MAX_PROGRESS_BYTES, Store

__all__ = ["RUN_VARIABLE", "AgentFailed", "AgentHandler"]

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at whether a run is to be stopped."""
LINES_SHOWN: Final = 200
"""Lines of live output that are kept."""

RUN_VARIABLE: Final = "ROTA_AGENT_RUN"
"""Tells what an agent starts, `rota mcp` above all, that this is a scheduled run and which one."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0

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

    task: Task
    payload: AgentPayload
    group: Group
    origin: Provenance
    seat: Seat

    @property
    def id(self) -> str:
        return self.task.key


@dataclass(frozen=True)
class _Tables:
    """The store and the records beside it, as they are open now."""

    store: Store
    groups: Groups
    ledger: Ledger


class AgentHandler:
    """The handler of the task type `agent`."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        database: Callable[[], Awaitable[Database]],
        settings: AgentSettings,
        channels: Channels,
        runner: Callable[[], Awaitable[CommandRunner]],
    ) -> None:
        self._store = store
        self._database = database
        self._settings = settings
        self._channels = channels
        self._runner = runner

    async def run_agent(self, run: Run) -> str:
        """Run the agent of this schedule; the summary of its result."""
        tables = await self._open()
        task = await self._look_again(tables, run)
        try:
            job = await self._prepare(tables, task)
        except (RotaError, OSError) as error:
            if isinstance(error, StoreUnavailable):
                raise
            await tables.ledger.set(task.key, last_result=summary_of(None, str(error)))
            await self._hold(tables, task, str(error))
            raise AgentFailed("error", str(error)) from error
        await self._check_switch(tables, job)
        data = await self._ask_gate(tables, job)
        result = await self._run_watched(tables, run, job, data)
        return await self._conclude(tables, job, result)

    async def _open(self) -> _Tables:
        database = await self._database()
        return _Tables(await self._store(), Groups(database), Ledger(database))

    # --- before the run ---

    async def _look_again(self, tables: _Tables, run: Run) -> Task:
        """The schedule as it is now, not as it was when it was claimed."""
        (task,) = await tables.store.get([Identity(run.task_type, run.key)])
        if task is None or task.token != run.token:
            raise LeaseLost(f"The run of {run.key!r} was taken over before it had begun. Nothing was run.")
        if task.want is Want.CANCEL:
            raise Discard("It was cancelled before the agent had begun.")
        if task.want is Want.PAUSE:
            raise Snooze("1s")  # settled as paused: nothing has run, and nothing is counted
        return task

    async def _prepare(self, tables: _Tables, task: Task) -> _Job:
        payload = payload_of(task.payload)
        group = await tables.groups.get(payload.group_folder)
        origin = await self._check_origin(tables, task, payload)
        settings = self._settings
        uid = settings.uid_of(group.number)
        folder = await asyncio.to_thread(prepare_folder, settings.groups_dir, group.folder, uid)
        seat = Seat(
            folder=folder,
            run_id=f"{task.key}-{task.token}",
            uid=uid,
            has_network=group.has_network,
            timezone=payload.timezone or group.timezone or settings.timezone,
            environment={**settings.variables(), RUN_VARIABLE: f"{task.key}-{task.token}"},
            read_only=settings.visible(),
        )
        return _Job(task, payload, group, origin, seat)

    async def _check_origin(self, tables: _Tables, task: Task, payload: AgentPayload) -> Provenance:
        """Where it comes from. What it does must be what was written down, and approved if that was needed."""
        digest = digest_of(payload.group_folder, payload.prompt, payload.script, payload.context_mode)
        origin = (await tables.ledger.get([task.key])).get(task.key)
        if origin is None:
            made = Provenance(id=task.key, folder=payload.group_folder, made_by="code", digest=digest)
            return await tables.ledger.add(made)
        # An approved change is written to the task first and here then: a run in between looks a second time.
        for last in (False, True):
            if digest == origin.digest:
                return origin
            if not last:
                await asyncio.sleep(LOOK_EVERY)
                origin = (await tables.ledger.get([task.key]))[task.key]
        raise InvalidInput(
            "Its prompt or script is not the one that was agreed to (the digest differs). Look at it, then update it."
        )

    async def _check_switch(self, tables: _Tables, job: _Job) -> None:
        switch = await tables.groups.switch_over(job.group.folder)
        if switch is None:
            return
        if job.task.is_recurring:
            raise Discard(f"Skipped: {switch.words}")
        await tables.store.pause([job.task.identity])  # a single fire is kept for the time after
        await tables.ledger.set(job.id, held=switch.words)
        raise Snooze("1s")

    async def _ask_gate(self, tables: _Tables, job: _Job) -> object:
        """The gate's data; a closed gate ends the run as skipped, with the reason."""
        if job.payload.script is None:
            return None
        settings = self._settings
        gate = await ask_gate(
            job.payload.script,
            await self._runner(),
            job.seat,
            settings.limits,
            wall_ms=settings.gate_ms,
            most=settings.gate_bytes,
        )
        if gate.is_open:
            return gate.data
        words = f"gate: {gate.trouble or 'nothing to do'}"
        await tables.ledger.set(job.id, last_result=cut(words))
        if gate.trouble is not None:
            await self._tell("error", tables, job, gate.trouble)
        raise Discard(words)

    # --- the run ---

    async def _run_watched(self, tables: _Tables, run: Run, job: _Job, data: object) -> RunnerResult:
        output: deque[str] = deque(maxlen=LINES_SHOWN)

        def on_progress(progress: object) -> None:
            output.append(progress if isinstance(progress, str) else msgspec.json.encode(progress).decode())
            run.progress({"output": _tail(output)})

        request = await self._request(tables, job, data)
        runner = await self._runner()
        await tables.ledger.begin(job.id, job.group.folder, job.task.token)
        working = asyncio.create_task(_run_safely(runner, request, on_progress))
        try:
            while not (await asyncio.wait({working}, timeout=LOOK_EVERY))[0]:
                stop = await _beat(tables.ledger, job, "\n".join(output))
                if stop is not None:
                    await _cancelled(working)
                    await self._tell("stopped", tables, job, stop)
                    raise Discard(stop)
            return working.result()
        finally:
            await _cancelled(working)
            await _end(tables.ledger, job)

    async def _request(self, tables: _Tables, job: _Job, data: object) -> RunRequest:
        group, payload = job.group, job.payload
        # Only main sees schedules of others, and so their zones.
        seen = await tables.groups.list() if group.is_main else [group]
        zones = Zones({one.folder: one.timezone for one in seen}, self._settings.timezone)
        whose = None if group.is_main else group.folder
        schedules = await schedules_of(tables.store, tables.ledger, zones, whose)
        await asyncio.to_thread(
            write_snapshot, job.seat.folder, schedules, group.folder, is_main=group.is_main, uid=job.seat.uid
        )
        session = await tables.groups.session(group.folder) if payload.context_mode == "group" else None
        given = AgentInput(
            prompt=payload.prompt,
            session_id=session,
            group_folder=group.folder,
            chat_jid=payload.chat_jid,
            is_main=group.is_main,
            timezone=job.seat.timezone,
            data=data,
        )
        return RunRequest(seat=job.seat, input=given, limits=self._settings.limits)

    # --- after the run ---

    async def _conclude(self, tables: _Tables, job: _Job, result: RunnerResult) -> str:
        error = None if result.status == "success" else result.error or "Unknown error"
        summary = summary_of(result.result, error)
        session = result.new_session_id
        if session is not None and job.payload.context_mode == "group":
            await _insist(lambda: tables.groups.save_session(job.group.folder, session))
        kept = Result(
            id=job.id,
            folder=job.group.folder,
            token=job.task.token,
            at=0,
            status=result.status,
            reason=result.reason,
            result=result.result,
            error=error,
        )
        failures = await _insist(lambda: tables.ledger.record(kept, summary))
        if error is None:
            await self._tell("result", tables, job, summary)
            return summary
        await self._tell("error", tables, job, summary)
        most = self._settings.max_failures
        if most and failures >= most:
            await self._hold(tables, job.task, f"{failures} runs in a row have failed. The last: {summary}")
        raise AgentFailed(result.reason if result.reason in ("timeout", "rate_limited") else "error", error)

    async def _hold(self, tables: _Tables, task: Task, why: str) -> None:
        """Pause the schedule when this run ends, keep the reason, and tell the owner."""
        await tables.store.pause([task.identity])
        await tables.ledger.set(task.key, held=cut(why, 500))
        group = None if task.owner is None else await tables.groups.find(task.owner)
        now = await tables.store.now()
        notice = Notice(kind="held", group=task.owner or "", schedule_id=task.key, text=f"Paused: {why}", at=now)
        await self._channels.tell(group, notice)

    async def _tell(self, kind: NoticeKind, tables: _Tables, job: _Job, text: str) -> None:
        now = await tables.store.now()
        run = f"{job.id}-{job.task.token}"
        notice = Notice(kind=kind, group=job.group.folder, schedule_id=job.id, text=text, at=now, run=run)
        await self._channels.tell(job.group, notice)


async def _run_safely(
    runner: CommandRunner, request: RunRequest, on_progress: Callable[[object], None]
) -> RunnerResult:
    """What cannot even be started is a failed run, not a failed handler."""
    try:
        return await runner.run(request, on_progress)
    except RunnerUnavailable as error:
        return RunnerResult(status="error", error=str(error), reason="crashed")


async def _insist(write: Callable[[], Awaitable[_Written]]) -> _Written:
    """Write what came of a run, however long the database is away: an agent that has worked must not work again for
    it. Whoever loses the lease meanwhile is cancelled here."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except StoreUnavailable as error:
            _log.warning("agent result not written yet", error=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _beat(ledger: Ledger, job: _Job, output: str) -> str | None:
    """Why the run is to end; None to go on, also while the database is away: the lease has its own guard."""
    try:
        return await ledger.beat(job.id, job.group.folder, job.task.token, output)
    except StoreUnavailable as error:
        _log.warning("agent run not shown", schedule=job.id, error=str(error))
        return None


async def _end(ledger: Ledger, job: _Job) -> None:
    """The row of what runs now goes; one that is left behind is told apart by its token."""
    try:
        await ledger.end(job.id, job.task.token)
    except StoreUnavailable as error:
        _log.warning("agent run not taken off the list", schedule=job.id, error=str(error))


async def _cancelled(working: asyncio.Task[RunnerResult]) -> None:
    """End the run and wait until nothing of it is left."""
    working.cancel()
    await asyncio.wait({working})


def _tail(output: deque[str]) -> str:
    """As much of the end as a progress report holds, also when JSON doubles every character."""
    return "\n".join(output)[-MAX_PROGRESS_BYTES // 8 :]
