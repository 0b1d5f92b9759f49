"""A simulated day of scheduled agents: what the history says equals what a brute-force oracle says, fire by fire.

The day has a change of the clocks in it, the service is restarted and away twice, and people pause, resume, change,
cancel and run schedules meanwhile. The agents themselves answer at once: what is tested is which fires there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from rota import Rota
from rota.agents import AGENT, Agents, AgentSettings, Caller, install_agents
from rota.agents.isolation.base import OnProgress, RunnerResult, RunRequest
from rota.clock import MINUTE, Instant, from_datetime, to_datetime
from rota.stores.base import RunQuery
from rota.testing import FakeClock

ANN: Final = Caller.person("ann")
STEP: Final = 15 * MINUTE
DAY_STEPS: Final = 24 * 4
AWAY: Final = (range(14, 22), range(54, 67))
"""Steps during which no service runs: it is killed and started anew."""

Row = tuple[str, str | None, Instant | None, Instant | None, int]


class Quick:
    """An agent that answers at once."""

    async def run(self, request: RunRequest, on_progress: OnProgress | None = None) -> RunnerResult:
        return RunnerResult(status="success", result=request.input.prompt)


# --- the oracle: which fires a schedule has, minute by minute --------------------------------------------------------


def wall_fires(zone: str, times: list[tuple[int, int]], days: set[int], start: Instant) -> Iterator[Instant]:
    """The minutes at which a clock on the wall reaches one of the times, each once a day, found by looking at it minute
    by minute. A time that the clock jumps over is reached by the jump; one that comes twice, the first time."""
    clock = ZoneInfo(zone)
    reached: set[tuple[date, int, int]] = set()
    first = to_datetime(start - 2 * 24 * 60 * MINUTE)
    fires: set[Instant] = set()
    for minute in range(4 * 24 * 60):
        moment = first + timedelta(minutes=minute)
        local = moment.astimezone(clock).replace(tzinfo=None)
        for hour, past in times:
            mark = (local.date(), hour, past)
            if local >= datetime(local.year, local.month, local.day, hour, past) and mark not in reached:  # noqa: DTZ001 -- a clock on a wall
                reached.add(mark)
                if local.isoweekday() in days and minute:
                    fires.add(from_datetime(moment))
    return iter(sorted(fire for fire in fires if fire > start))


def grid_fires(every: int, start: Instant) -> Iterator[Instant]:
    """Again and again, from when it was made."""
    return iter(range(start + every, start + 3 * 24 * 60 * MINUTE, every))


@dataclass
class Expected:
    """One schedule: its fires as the oracle sees them, and the rows that they must leave."""

    fires: list[Instant]
    rows: list[Row] = field(default_factory=list[Row])
    is_paused: bool = False
    is_over: bool = False
    is_wanted: bool = False

    def due(self, now: Instant) -> list[Instant]:
        due = [fire for fire in self.fires if fire <= now]
        self.fires = [fire for fire in self.fires if fire > now]
        return due

    def work(self, now: Instant) -> None:
        """The service looks: the last fire runs, those before it were missed."""
        if self.is_paused or self.is_over:
            return
        if self.is_wanted:
            self.rows.append(("success", None, None, None, 1))
            self.is_wanted = False
        due = self.due(now)
        if len(due) > 1:
            self.rows.append(("coalesced", "misfire", due[0], due[-2], len(due) - 1))
        if due:
            self.rows.append(("success", None, due[-1], None, 1))

    def resume(self, now: Instant) -> None:
        self.is_paused = False
        skipped = self.due(now)
        if skipped:
            self.rows.append(("skipped", "paused", skipped[0], skipped[-1], len(skipped)))


# --- the day ---------------------------------------------------------------------------------------------------------


@dataclass
class Made:
    """A schedule in the store, and what is expected of it."""

    id: str
    kind: str
    expected: Expected


class Simulation:
    """One day, step by step."""

    def __init__(self, url: str, groups_dir: Path, start: Instant, zone: str, seed: int) -> None:
        self.url, self.groups_dir, self.start, self.zone = url, groups_dir, start, zone
        self.chance = random.Random(seed)
        self.clock = FakeClock()
        self.clock.set(start)
        self.made: list[Made] = []
        self.acts: dict[int, list[Callable[[Agents], object]]] = {}

    def app(self) -> tuple[Rota, Agents]:
        app = Rota(self.url, clock=self.clock)
        settings = AgentSettings(groups_dir=self.groups_dir, isolation="process", uid_base=None)
        agents = install_agents(app, settings)

        async def quick() -> Quick:
            return Quick()

        agents.handler.runner = quick  # pyright: ignore[reportAttributeAccessIssue] -- a runner like any other
        return app, agents

    async def make(self, agents: Agents, number: int) -> Made:
        """A schedule of every kind in turn, in a group in turn."""
        group, choose = f"group-{number % 10}", self.chance.choice
        kind = ("wall", "grid", "far", "once", "days")[number % 5]
        zone, value = self.zone, ""
        match kind:
            case "grid":
                every = choose(range(8, 33)) * STEP
                fires, value = grid_fires(every, self.start), str(every)
            case "once":
                at = self.start + choose(range(1, DAY_STEPS)) * STEP
                fires = iter([at])
                value = to_datetime(at).astimezone(ZoneInfo(zone)).isoformat()
            case _:
                # The night of the change is where it counts: half of the times lie in it.
                hours = sorted({choose((1, 2, 2, 3, 4, 8, 13, 17, 22)) for _ in range(choose((1, 2, 3)))})
                past = choose((0, 15, 30, 45))
                zone = choose(("Asia/Tokyo", "America/New_York", "UTC")) if kind == "far" else self.zone
                days = sorted(self.chance.sample(range(1, 8), 5)) if kind == "days" else list(range(1, 8))
                listed = ",".join(str(day % 7) for day in days) if kind == "days" else "*"
                value = f"{past} {','.join(map(str, hours))} * * {listed}"
                fires = wall_fires(zone, [(hour, past) for hour in hours], set(days), self.start)
        made = await agents.schedule_task(
            ANN,
            group=group,
            prompt=f"number {number}",
            schedule_type={"grid": "interval", "once": "once"}.get(kind, "cron"),
            schedule_value=value,
            timezone=zone,
        )
        return Made(made.id, kind, Expected(list(fires)))

    async def meddle(self, agents: Agents, step: int) -> None:
        """What people do between two steps. What was due has run, so that it is clear what it is done to."""
        now = self.clock.now()
        for made in self.chance.sample(self.made, 3):
            expected = made.expected
            if made.kind == "once" or expected.is_over:
                continue
            if expected.is_paused:
                await agents.resume_task(ANN, made.id)
                expected.resume(now)
                continue
            match self.chance.choice(("pause", "pause", "change", "run", "cancel")):
                case "pause":
                    await agents.pause_task(ANN, made.id)
                    expected.is_paused = True
                case "change" if made.kind == "grid" and step + 1 not in AWAY[0] and step + 1 not in AWAY[1]:
                    every = self.chance.choice(range(9, 30)) * STEP + MINUTE
                    await agents.update_task(ANN, made.id, schedule_value=str(every))
                    expected.fires = list(grid_fires(every, now))
                    made.kind = "changed"
                case "run":
                    await agents.run_task(ANN, made.id)
                    expected.is_wanted = True
                case "cancel" if self.chance.random() < 0.3:
                    await agents.cancel_task(ANN, made.id)
                    expected.is_over = True
                case _:
                    pass

    async def run(self, count: int) -> None:
        app, agents = self.app()
        async with app:
            for number in range(10):
                await (await agents.groups()).add(f"group-{number}", is_main=number == 0)
            self.made = [await self.make(agents, number) for number in range(count)]
        for span in self.spans():
            app, agents = self.app()  # started anew, on the same file
            async with app:
                for step in span:
                    now = self.start + step * STEP
                    self.clock.set(now)
                    await app.run_until_idle()
                    for made in self.made:
                        made.expected.work(now)
                    self.clock.set(now + STEP // 2)
                    await self.meddle(agents, step)

    def spans(self) -> Iterator[range]:
        yield range(1, AWAY[0].start)
        yield range(AWAY[0].stop, AWAY[1].start)
        yield range(AWAY[1].stop, DAY_STEPS + 1)

    async def history(self) -> dict[str, list[Row]]:
        app, _ = self.app()
        async with app:
            store = await app.store()
            found: dict[str, list[Row]] = {}
            for made in self.made:
                page = await store.runs(RunQuery(task_type=AGENT, key=made.id, limit=200))
                assert page.cursor is None
                found[made.id] = [
                    (run.status.value, run.reason, run.fire_at, run.last_fire_at, run.fires)
                    for run in reversed(page.items)
                ]
            return found


@pytest.mark.timeout(900)  # thousands of runs: minutes on a busy machine
@pytest.mark.parametrize(
    ("begins", "zone", "count", "seed"),
    [
        (datetime(2026, 3, 28, 12, tzinfo=UTC), "Europe/Berlin", 200, 1),
        (datetime(2026, 10, 24, 12, tzinfo=UTC), "Europe/Berlin", 40, 2),
    ],
    ids=["spring", "autumn"],
)
async def test_the_history_equals_the_oracle_fire_by_fire(
    sqlite_url: str, tmp_path: Path, begins: datetime, zone: str, count: int, seed: int
) -> None:
    simulation = Simulation(sqlite_url, tmp_path / "groups", from_datetime(begins), zone, seed)
    await simulation.run(count)
    history = await simulation.history()
    for made in simulation.made:
        assert history[made.id] == made.expected.rows, (made.kind, made.id)
    rows = [row for made in simulation.made for row in made.expected.rows]
    assert {row[0] for row in rows} == {"success", "coalesced", "skipped"}, "the day had everything in it"
    assert sum(row[4] for row in rows) > 2 * count
