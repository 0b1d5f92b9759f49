"""The story of `rota demo`, act by act, and the facts that the store holds when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from rota.app.rota import Rota
from rota.clock import SECOND, Clock, Instant, Millis, format_duration
from rota.core.outcome import Answer, TouchOutcome
from rota.core.task import Identity, RunStatus, Settlement, Task, TaskStatus, Transition
from rota.demo.app import EMBEDDING_SECONDS, LEASE_MS, SWEEP_MS, Demo
from rota.demo.crew import Crew
from rota.demo.view import DemoSnapshot, DemoView
from rota.errors import RotaError
from rota.stores.base import Counts, RunQuery, Store, TaskQuery

__all__ = ["Check", "Facts", "Story"]

_Found = TypeVar("_Found")

USERS: Final = ("ada", "bao", "cem", "dia", "eli", "fay", "gus", "hua")
CHAT_MS: Final[Millis] = 3 * SECOND
ROUND_SECONDS: Final = 0.25
WORKERS: Final = 2
PAUSE: Final = 0.8
"""Seconds between two acts, for the reader."""
PATIENCE: Final = 60.0
"""Seconds after which the story is stuck, on a busy machine too."""


class Check(NamedTuple):
    """One thing that the story claims, and whether it is true."""

    claim: str
    holds: bool


@dataclass(frozen=True)
class Facts:
    """What was measured. Counts are read from the store; the rest is what it answered."""

    touches: int
    created: int
    coalesced: int
    compressed: int
    succeeded: int
    errored: int
    lost: int
    recovered_ms: int
    late_completion: Answer | None
    cron_fires: int
    dead_letters: int
    dead_error: str

    def checks(self) -> Iterator[Check]:
        """What must be true if the story has really happened."""
        yield Check("every activity created a task or joined one", self.created + self.coalesced == self.touches)
        yield Check("each user's activity became one task", self.created == len(USERS))
        yield Check("each of these tasks ran exactly once", self.compressed == len(USERS))
        yield Check("the killed worker's run is in the log as lost", self.lost >= 1)
        yield Check(
            f"its task was running elsewhere within {format_duration(_RECOVERY_LIMIT)}",
            0 < self.recovered_ms <= _RECOVERY_LIMIT,
        )
        yield Check("the dead worker's late completion was refused", self.late_completion is Answer.STALE)
        yield Check("the cron job fired at least twice", self.cron_fires >= 2)
        yield Check("the failing task is a dead letter", self.dead_letters == 1)

    @property
    def ratio(self) -> float:
        """The part of all activities that made no task of its own."""
        return self.coalesced / self.touches if self.touches else 0.0


# The lease, one sweep, and what a busy machine may take for a claim.
_RECOVERY_LIMIT: Final = LEASE_MS + SWEEP_MS + 2 * SECOND


class Story:
    """Tells the story: touches by the app, everything else by looking at the store."""

    def __init__(self, app: Rota, store: Store, crew: Crew, view: DemoView, clock: Clock) -> None:
        self._app = app
        self._store = store
        self._crew = crew
        self._view = view
        self._clock = clock
        self._touches = 0
        self._recovered_ms = 0
        self._refused: Answer | None = None

    async def tell(self) -> None:
        """All acts, in order."""
        await self._workers_arrive()
        await self._users_are_active()
        await self._memories_are_compressed()
        await self._a_worker_dies()
        await self._a_task_keeps_failing()

    async def watch(self) -> None:
        """Show the store to the view, four times a second, until cancelled."""
        while True:
            runs = await self._store.runs(RunQuery(limit=6))
            counts, instances = await self._store.counts(), await self._store.instances()
            self._view.show(DemoSnapshot(counts, instances, runs.items, await self._store.now()))
            await asyncio.sleep(0.25)

    # --- the acts ---

    async def _workers_arrive(self) -> None:
        self._view.say(f"{WORKERS} workers start, each a process of its own, on one SQLite file.")
        for _ in range(WORKERS):
            self._crew.start()
        await self._until(self._all_listed, "the workers report to the store")

    async def _users_are_active(self) -> None:
        self._view.say(f"{len(USERS)} users chat. Every message touches their memory_compression task.")
        # Nobody speaks when the first task is due: activity during a run means one more run, which is another story.
        over_at = await self._store.now() + CHAT_MS
        for user in USERS:
            await self._says_something(user)
        while await self._store.now() < over_at:
            await asyncio.sleep(ROUND_SECONDS)
            await self._chat_on(over_at)
        counts = await self._counts(Demo.MEMORY)
        self._view.say(f"{self._touches} messages, but only {counts.created_total} tasks: the rest was coalesced.")

    async def _chat_on(self, over_at: Instant) -> None:
        """One more round, or as much of it as there is time for: a busy machine may be slow."""
        for user in USERS:
            if await self._store.now() >= over_at:
                return
            await self._says_something(user)

    async def _says_something(self, user: str) -> None:
        touch = await self._app.touch(Demo.MEMORY, user)
        self._touches += touch.outcome in (TouchOutcome.CREATED, TouchOutcome.COALESCED)

    async def _memories_are_compressed(self) -> None:
        await self._until(self._all_compressed, "the memories are compressed")
        self._view.say(f"{len(USERS)} memories compressed, each once, on whichever worker was free.")
        await asyncio.sleep(PAUSE)

    async def _a_worker_dies(self) -> None:
        await self._app.touch(Demo.EMBEDDINGS, "ada")
        task = await self._until(self._embedding_runs, "the slow task starts")
        victim = await self._pid_of(task)
        self._view.say(f"Worker {victim} refreshes the embeddings of ada. That takes {EMBEDDING_SECONDS:g} seconds.")
        await asyncio.sleep(1)
        killed_at = self._clock.now()
        self._crew.kill(victim)
        self._view.say(f"kill -9 {victim}. Nobody says goodbye; its lease of {format_duration(LEASE_MS)} runs out.")
        again = await self._until(self._embedding_runs_elsewhere(task), "the lost task runs elsewhere")
        self._recovered_ms = (again.claimed_at or killed_at) - killed_at
        heir = await self._pid_of(again)
        self._view.say(f"Worker {heir} has taken it over, {self._recovered_ms / SECOND:.1f} s after the kill.")
        await self._until(self._embedding_done, "the lost task is done")
        self._refused = await self._late_completion(task)
        self._view.say(
            f"It is done. In the dead worker's name, we complete it again: the store answers '{self._refused}'."
        )
        await asyncio.sleep(PAUSE)

    async def _a_task_keeps_failing(self) -> None:
        self._view.say("A task fails, is retried with a back-off, and fails again ...")
        await self._app.touch(Demo.EXPORT, "bao")
        await self._until(self._export_failed, "the failing task is given up")
        self._view.say("... until its retries are used up: now it is a dead letter, for a person to see.")
        await asyncio.sleep(PAUSE)

    async def _late_completion(self, lost: Task) -> Answer:
        """What the dead worker would hear if it woke up and said that it was done."""
        late = Settlement(task_type=lost.task_type, key=lost.key, token=lost.token, transition=Transition.COMPLETE)
        (reply,) = await self._store.settle([late])
        return reply.answer

    # --- queries ---

    async def _until(self, look: Callable[[], Awaitable[_Found | None]], what: str) -> _Found:
        """Look until there is something to see; a story that gets stuck is a story that did not happen."""
        deadline = self._clock.monotonic() + PATIENCE
        while self._clock.monotonic() < deadline:
            if not self._crew.pids:
                raise RotaError(
                    f"The demo broke while waiting until {what}: every worker has ended. {self._last_words()}"
                )
            if found := await look():
                return found
            await asyncio.sleep(0.05)
        raise RotaError(f"The demo broke: {PATIENCE:g} s were not enough until {what}. {self._last_words()}")

    def _last_words(self) -> str:
        return f"The workers' last words: {self._crew.log() or 'none'}"

    async def _counts(self, name: str) -> Counts:
        return (await self._store.counts()).get(name, Counts())

    async def _all_listed(self) -> bool:
        return {each.beat.pid for each in await self._store.instances()} >= self._crew.pids

    async def _all_compressed(self) -> bool:
        return (await self._counts(Demo.MEMORY)).succeeded_total >= len(USERS)

    async def _embedding(self) -> Task | None:
        key = self._app.user_key_builder.build_key("ada")
        return (await self._store.get([Identity(Demo.EMBEDDINGS, key)]))[0]

    async def _embedding_runs(self) -> Task | None:
        task = await self._embedding()
        return task if task is not None and task.status is TaskStatus.RUNNING else None

    def _embedding_runs_elsewhere(self, before: Task) -> Callable[[], Awaitable[Task | None]]:
        async def look() -> Task | None:
            task = await self._embedding_runs()
            return task if task is not None and task.instance != before.instance else None

        return look

    async def _embedding_done(self) -> bool:
        task = await self._embedding()
        return task is not None and task.status is TaskStatus.COMPLETED

    async def _export_failed(self) -> bool:
        return (await self._counts(Demo.EXPORT)).failed >= 1

    async def _pid_of(self, task: Task) -> int:
        for each in await self._store.instances():
            if each.beat.instance == task.instance:
                return each.beat.pid
        raise RotaError(f"The demo broke: nobody is listed as the instance {task.instance!r}.")

    async def facts(self) -> Facts:
        """What the store holds. The workers are gone: nothing is added to it any more."""
        counts = await self._store.counts()
        memory, report = counts.get(Demo.MEMORY, Counts()), counts.get(Demo.REPORT, Counts())
        dead = await self._store.find(TaskQuery(status=TaskStatus.FAILED))
        lost = await self._store.runs(RunQuery(task_type=Demo.EMBEDDINGS, status=RunStatus.LOST))
        return Facts(
            touches=self._touches,
            created=memory.created_total,
            coalesced=memory.coalesced_total,
            compressed=memory.succeeded_total,
            succeeded=sum(each.succeeded_total for each in counts.values()),
            errored=sum(each.errored_total for each in counts.values()),
            lost=len(lost.items),
            recovered_ms=self._recovered_ms,
            late_completion=self._refused,
            cron_fires=report.succeeded_total,
            dead_letters=len(dead.items),
            dead_error=dead.items[0].error or "" if dead.items else "",
        )
