"""Random histories of one series through a store: every fire of every trigger that it had leaves a row, and only one.

The oracle knows nothing of the engine. It counts the fires itself, by brute force, from what was asked for and when;
then it reads the rows: each fire ran (in one attempt or several) or lies in one range row, a range row counts what lies
in it, and nothing runs before its time or for a fire that never was.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.clock import MINUTE, SECOND, Instant, Millis
from rota.core.task import Change, Identity, NewTask, RunRecord, Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.stores.base import Beat, ClaimRequest, RunQuery
from rota.stores.memory import MemoryStore
from rota.triggers import Cron, Interval, Policy, encode_trigger

START: Instant = 1_790_000_003_700
LEASE: Millis = 3 * SECOND
TYPE = TaskType(name="work", trigger_mode=TriggerMode.ONCE, max_retries=1)
SERIES = Identity("work", "k")
PATIENCE = 300
"""How many steps it may take until nothing is due any more."""


class Rhythm(NamedTuple):
    """What a trigger means, in words of the oracle: every so often, on a grid."""

    kind: str
    every: Millis

    def trigger(self, now: Instant) -> str:
        """Stored as an interval that begins now, or as a cron expression of seconds."""
        if self.kind == "interval":
            return encode_trigger(Interval(self.every, now))
        return encode_trigger(Cron(f"*/{self.every // SECOND} * * * * *", "UTC"))

    def anchor(self, now: Instant) -> Instant:
        return now if self.kind == "interval" else now - now % MINUTE


class Version(msgspec.Struct):
    """One trigger of the series, and from when (exclusive) until when (inclusive) it was in force."""

    every: Millis
    anchor: Instant
    after: Instant
    until: Instant | None = None

    def fires(self, last: Instant) -> list[Instant]:
        until = last if self.until is None else min(last, self.until)
        return [fire for fire in range(self.anchor, until + 1, self.every) if fire > self.after]


class Plan(NamedTuple):
    """The series as it is made."""

    rhythm: Rhythm
    policy: Policy
    expires_ms: Millis | None
    max_runs: int | None


RHYTHMS = [
    *(Rhythm("interval", every) for every in (SECOND, 5 * SECOND, 7 * SECOND)),
    *(Rhythm("cron", every) for every in (2 * SECOND, 5 * SECOND, 10 * SECOND)),
]


class Deed(NamedTuple):
    """Something that is done; the fields after the verb are for those that need them."""

    verb: str
    transition: Transition = Transition.COMPLETE
    delay: Millis = 0
    rhythm: Rhythm = RHYTHMS[0]
    policy: Policy = Policy()


# Whole deeds, as often as they are to come: drawing their parts one by one takes longer than doing them.
DEEDS = [
    *[Deed("claim")] * 14,
    *[Deed("settle")] * 6,
    *(
        Deed("settle", transition, delay)
        for transition in (Transition.RELEASE, Transition.RETRY, Transition.SNOOZE, Transition.FAIL, Transition.DISCARD)
        for delay in (0, 4 * SECOND)
    ),
    *(
        Deed(verb)
        for verb in ("crash", "crash", "pause", "resume", "resume", "run_now", "run_now", "cancel", "payload")
    ),
    *(Deed("policy", policy=Policy(misfire=misfire)) for misfire in ("latest", "all", "skip")),
    *(Deed("policy", policy=policy) for policy in (Policy(overlap="queue"), Policy(jitter_ms=800, grace_ms=6000))),
    *(Deed("trigger", rhythm=rhythm) for rhythm in RHYTHMS),
    *(Deed(verb, delay=delay) for verb in ("due", "due_again") for delay in (0, 4 * SECOND, 12 * SECOND)),
]
moves = st.tuples(st.sampled_from([0, 1, 300, 900, 2500, 6000, 15_000]), st.sampled_from(DEEDS))
plans = st.builds(
    Plan,
    rhythm=st.sampled_from(RHYTHMS),
    policy=st.builds(
        Policy,
        misfire=st.sampled_from(["all", "latest", "skip"]),
        overlap=st.sampled_from(["skip", "queue"]),
        jitter_ms=st.sampled_from([0, 0, 800]),
        grace_ms=st.sampled_from([None, None, 6000]),
    ),
    expires_ms=st.sampled_from([None, None, None, 40 * SECOND, 90 * SECOND]),
    max_runs=st.sampled_from([None, None, None, None, 2, 5]),
)


def encoded(policy: Policy) -> str:
    return msgspec.json.encode(policy).decode()


class History:
    """One series on a store of its own, and what the oracle keeps about it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.store = MemoryStore()
        self.now: Instant = START
        self.expires_at = None if plan.expires_ms is None else START + plan.expires_ms
        self.versions = [Version(plan.rhythm.every, plan.rhythm.anchor(START), after=START)]
        self.written_during_a_run: Version | None = None
        self.given_up = 0
        """How many fires had begun when their retry was dropped, by a resume or an edit: they count as no run."""

    async def begin(self) -> None:
        await self.store.open()
        await self.store.put_types([TYPE])
        new = NewTask(
            task_type="work",
            key="k",
            trigger=self.plan.rhythm.trigger(START),
            policy=encoded(self.plan.policy),
            expires_at=self.expires_at,
            max_runs=self.plan.max_runs,
        )
        await self.store.schedule([new], now=START)

    async def task(self) -> Task:
        (task,) = await self.store.get([SERIES])
        assert task is not None
        return task

    # --- moves ---

    async def move(self, wait: Millis, deed: Deed) -> None:
        self.now += wait
        before = await self.task()
        await self._verb(deed, before)()
        after = await self.task()
        if deed.verb in ("resume", "trigger") and _is_waiting_retry(before) and not _is_waiting_retry(after):
            self.given_up += 1
        self.notice_the_end_of_a_run(after)

    def _verb(self, deed: Deed, task: Task) -> Callable[[], Coroutine[None, None, object]]:
        match deed.verb:
            case "claim":
                return self.claim
            case "settle":
                return lambda: self.settle(task, deed.transition, deed.delay)
            case "crash":
                return self.crash
            case "trigger":
                return lambda: self.change_trigger(task, deed.rhythm)
            case "policy":
                return lambda: self.update(Change(task_type="work", key="k", policy=encoded(deed.policy)))
            case "payload":
                return lambda: self.update(Change(task_type="work", key="k", payload=str(self.now)))
            case "due":
                return lambda: self.update(Change(task_type="work", key="k", scheduled_at=self.now + deed.delay))
            case "due_again":
                return lambda: self.schedule_again(task, deed.delay)
            case verb:
                return lambda: self.store.apply(Transition(verb), [SERIES], now=self.now)

    async def claim(self) -> bool:
        request = ClaimRequest(wants=[("work", 1)], instance="i", claim_id=f"c{self.now}", lease_ms=LEASE)
        return bool((await self.store.claim(request, now=self.now)).tasks)

    async def settle(self, task: Task, transition: Transition, after_ms: Millis | None = None) -> None:
        if task.status is TaskStatus.RUNNING:
            settled = Settlement(task_type="work", key="k", token=task.token, transition=transition, after_ms=after_ms)
            await self.store.settle([settled], now=self.now)

    async def crash(self) -> None:
        """Nobody renews, and somebody else sweeps until the run is taken over."""
        while (await self.task()).status is TaskStatus.RUNNING:
            await self.store.tick(Beat(instance="other", types=("work",), lease_ms=LEASE), now=self.now)
            self.now += LEASE // 4

    async def update(self, change: Change) -> None:
        await self.store.update([change], now=self.now)

    async def schedule_again(self, task: Task, delay: Millis) -> None:
        """An upsert that names a due time; what it does not name of the series stays."""
        new = NewTask(task_type="work", key="k", scheduled_at=self.now + delay, policy=task.policy, replace=True)
        await self.store.schedule(
            [msgspec.structs.replace(new, expires_at=task.expires_at, max_runs=task.max_runs)], now=self.now
        )

    async def change_trigger(self, task: Task, rhythm: Rhythm) -> None:
        await self.update(Change(task_type="work", key="k", trigger=rhythm.trigger(self.now)))
        self._end_version()
        version = Version(rhythm.every, rhythm.anchor(self.now), after=self.now)
        if task.status is TaskStatus.RUNNING:
            self.written_during_a_run = version
        else:
            self.versions.append(version)

    def _end_version(self) -> None:
        last = self.versions[-1]
        last.until = self.now if last.until is None else last.until

    def notice_the_end_of_a_run(self, task: Task) -> None:
        """A trigger that was written during a run is in force from its end."""
        version = self.written_during_a_run
        if version is not None and task.status is not TaskStatus.RUNNING:
            version.after = task.updated_at
            self.versions.append(version)
            self.written_during_a_run = None

    async def finish_what_is_due(self) -> None:
        for _ in range(PATIENCE):
            task = await self.task()
            match task.status:
                case TaskStatus.RUNNING:
                    await self.settle(task, Transition.COMPLETE)
                    self.notice_the_end_of_a_run(await self.task())
                case TaskStatus.PAUSED:
                    self.given_up += _is_waiting_retry(task)
                    await self.store.resume([SERIES], now=self.now)
                case TaskStatus.PENDING:
                    if not task.manual and (task.next_fire or self.now) > self.now and task.scheduled_at > self.now:
                        return
                    self.now = max(self.now, task.scheduled_at)
                    if not await self.claim() and (await self.task()) == task:
                        self.now += SECOND
                case _:
                    return
        raise AssertionError("there is always something due")

    # --- the judgement ---

    async def judge(self) -> None:
        task = await self.task()
        lived_until = self.now if task.finished_at is None else task.finished_at
        rows = (await self.store.runs(RunQuery(task_type="work", key="k", limit=1_000))).items
        ran = {row.fire_at for row in rows if row.token and row.fire_at is not None}
        ever = self.fires(max([self.now, *(row.last_fire_at or 0 for row in rows)]))
        in_ranges: Counter[Instant] = Counter()
        for row in rows:
            if row.token:
                self.check_run(row, ever)
            else:
                in_ranges.update(self.inside(row, ever))
        for fire in self.owed(lived_until, task, ran):
            times = (fire in ran) + in_ranges[fire]
            assert times == 1, f"the fire of {self.at(fire)} is accounted for {times} times"
        if self.plan.max_runs is not None:
            assert len(ran) - self.given_up <= self.plan.max_runs, f"{len(ran)} fires ran"

    def fires(self, last: Instant) -> list[Instant]:
        return [fire for version in self.versions for fire in version.fires(last)]

    def owed(self, until: Instant, task: Task, ran: set[Instant]) -> list[Instant]:
        """The fires of its life: until its end, before it expired, and none after the last of `max_runs`."""
        if self.expires_at is not None:
            until = min(until, self.expires_at - 1)
        if self.plan.max_runs is not None and task.status in (TaskStatus.COMPLETED, TaskStatus.FAILED) and ran:
            until = min(until, max(ran))
        return self.fires(until)

    def check_run(self, row: RunRecord, ever: list[Instant]) -> None:
        if row.trigger_mode == "manual":
            assert row.fire_at is None, "a run that somebody asked for counts as no fire"
            return
        assert row.fire_at is not None
        assert row.fire_at in ever, f"a run for {self.at(row.fire_at)}, which is no fire"
        assert row.fire_at <= row.started_at, f"the fire of {self.at(row.fire_at)} ran before its time"

    def inside(self, row: RunRecord, ever: list[Instant]) -> list[Instant]:
        assert row.fire_at is not None
        assert row.last_fire_at is not None
        found = [fire for fire in ever if row.fire_at <= fire <= row.last_fire_at]
        where = f"the row {row.reason} of {self.at(row.fire_at)} to {self.at(row.last_fire_at)}"
        assert len(found) == row.fires, f"{where} counts {row.fires} fires instead of {len(found)}"
        assert (found[0], found[-1]) == (row.fire_at, row.last_fire_at), f"{where} begins and ends with a fire"
        assert row.last_fire_at <= row.started_at, f"{where} accounts for what is still to come"
        return found

    def at(self, instant: Instant) -> str:
        return f"{(instant - START) / SECOND} s"


def _is_waiting_retry(task: Task) -> bool:
    waits = task.status in (TaskStatus.PENDING, TaskStatus.PAUSED)
    return waits and not task.manual and task.fire_at is not None


async def live(plan: Plan, sequence: list[tuple[Millis, Deed]]) -> None:
    history = History(plan)
    await history.begin()
    for wait, deed in sequence:
        if not (await history.task()).status.is_live:
            break
        await history.move(wait, deed)
    await history.finish_what_is_due()
    await history.judge()


@settings(max_examples=1_000)
@given(plans, st.lists(moves, min_size=8, max_size=40))
def test_every_fire_leaves_a_row_whatever_is_done_to_the_series(
    plan: Plan, sequence: list[tuple[Millis, Deed]]
) -> None:
    asyncio.run(live(plan, sequence))
