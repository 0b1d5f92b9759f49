"""Where the time of a task went, as rows: which runs are one round, and what of it was waiting."""

from __future__ import annotations

from rota.app.waterfall import Phase, Row, Waterfall, round_of, round_of_task, waterfall
from rota.core.run_details import RunDetails, Step
from rota.core.task import RunRecord, RunStatus, Task, TaskStatus

MADE = 1_000_000


def run(attempt: int, at: int, took: int = 100, status: RunStatus = RunStatus.ERROR, **more: object) -> RunRecord:
    fields: dict[str, object] = {
        "due_at": at - 10,
        "token": at,
        "run_id": str(at),
        "attempt": attempt,
        "duration_ms": took,
        "trigger_mode": "once",
    }
    return RunRecord(task_type="t", key="k", status=status, started_at=at, **{**fields, **more})  # pyright: ignore[reportArgumentType] -- by name


def task(status: TaskStatus, due_at: int, **more: object) -> Task:
    fields: dict[str, object] = {"created_at": MADE, "updated_at": MADE + 50_000, "scheduled_at": due_at}
    return Task("t", "k", status=status, **{**fields, **more})  # pyright: ignore[reportArgumentType] -- by name


def phases(row: Row) -> list[tuple[Phase, int, int | None]]:
    return [
        (each.phase, each.from_at - MADE, None if each.to_at is None else each.to_at - MADE) for each in row.stretches
    ]


def of_kind(fall: Waterfall, kind: str) -> list[Row]:
    return [row for row in fall.rows if row.kind == kind]


def test_attempts_wait_work_and_back_off() -> None:
    runs = [run(1, MADE + 500, due_at=MADE + 400), run(2, MADE + 1_700, due_at=MADE + 1_600)]
    failed = task(TaskStatus.FAILED, MADE + 1_600, finished_at=MADE + 1_810, last_token=runs[1].token, reason="error")
    details = {runs[0].token: RunDetails(waited_ms=20)}
    fall = waterfall(runs, failed, MADE + 9_000, details, made_at=MADE)
    made, first, second, settled = fall.rows
    assert (made.kind, made.at) == ("made", MADE)
    assert phases(first) == [
        (Phase.HELD, 0, 400),
        (Phase.WAITING, 400, 500),
        (Phase.STARTING, 500, 520),
        (Phase.WORKING, 520, 620),
    ]
    assert phases(second) == [
        (Phase.BACK_OFF, 620, 1_600),
        (Phase.WAITING, 1_600, 1_700),
        (Phase.WORKING, 1_700, 1_800),
    ]
    assert (settled.outcome, settled.at, settled.reason) == ("failed", MADE + 1_810, "error")
    assert (fall.waited_ms, fall.worked_ms, fall.is_open) == (220, 200, False)
    assert (fall.from_at, fall.to_at) == (MADE, MADE + 1_810)


def test_a_run_was_over_before_the_next_attempt_was_due() -> None:
    """The wait is counted from when the claim was sent, which was before the store wrote it."""
    runs = [run(1, MADE), run(2, MADE + 150, due_at=MADE + 130)]
    fall = waterfall(runs, None, MADE + 9_000, {runs[0].token: RunDetails(waited_ms=90)})
    assert phases(fall.rows[0])[1:] == [(Phase.STARTING, 0, 30), (Phase.WORKING, 30, 130)]
    assert phases(fall.rows[1])[0] == (Phase.WAITING, 130, 150)
    running = task(TaskStatus.RUNNING, MADE + 150, claimed_at=MADE + 150, token=9, attempt=2)
    fall = waterfall(runs[:1], running, MADE + 9_000, {runs[0].token: RunDetails(waited_ms=90)})
    assert phases(fall.rows[0])[1:] == [(Phase.STARTING, 0, 50), (Phase.WORKING, 50, 150)]


def test_what_runs_has_an_open_end_and_its_steps_lie_within() -> None:
    now = MADE + 1_000
    running = task(TaskStatus.RUNNING, MADE, claimed_at=MADE + 10, token=7, attempt=1)
    steps = (Step("load", 0, 100), Step("think", 100), Step("lost", 20, 30, "ValueError"))
    fall = waterfall([], running, now, {7: RunDetails(waited_ms=5, steps=steps)}, made_at=MADE)
    (attempt,) = of_kind(fall, "attempt")
    assert phases(attempt) == [(Phase.WAITING, 0, 10), (Phase.STARTING, 10, 15), (Phase.WORKING, 15, None)]
    assert [(row.label, row.outcome, phases(row)[0][1:]) for row in of_kind(fall, "step")] == [
        ("load", "success", (15, 115)),
        ("think", "running", (115, None)),
        ("lost", "error", (35, 45)),
    ]
    assert fall.is_open
    assert (fall.to_at, fall.worked_ms, fall.waited_ms) == (now, 985, 15)


def test_a_step_that_had_not_ended_is_over_with_its_run() -> None:
    lost = run(1, MADE, status=RunStatus.LOST)
    fall = waterfall([lost], None, MADE + 9_000, {lost.token: RunDetails(steps=(Step("think", 40),))})
    (step,) = of_kind(fall, "step")
    assert (step.outcome, phases(step)) == ("lost", [(Phase.WORKING, 40, 100)])


def test_the_next_attempt_is_waited_for() -> None:
    first = run(1, MADE)
    waits = task(TaskStatus.PENDING, MADE + 600, attempt=1)
    before, after = (waterfall([first], waits, MADE + now, made_at=None) for now in (300, 900))
    assert phases(of_kind(before, "next")[0]) == [(Phase.BACK_OFF, 100, 600)]
    assert before.to_at == MADE + 600
    assert phases(of_kind(after, "next")[0]) == [(Phase.BACK_OFF, 100, 600), (Phase.WAITING, 600, None)]
    assert after.rows[-1].label == "Attempt 2"


def test_what_was_interrupted_was_due_before_it_ended() -> None:
    runs = [
        run(1, MADE, status=RunStatus.SKIPPED, reason="released"),
        run(1, MADE + 300, due_at=MADE - 10, status=RunStatus.SUCCESS),
    ]
    fall = waterfall(runs, None, MADE + 9_000)
    assert phases(fall.rows[1]) == [(Phase.WAITING, 100, 300), (Phase.WORKING, 300, 400)]


def test_one_that_is_made_for_later_does_not_squeeze_the_rest() -> None:
    late = run(1, MADE + 7_200_000, due_at=MADE + 7_200_000, took=1_000, status=RunStatus.SUCCESS)
    fall = waterfall([late], None, MADE + 9_000_000, made_at=MADE)
    assert (fall.from_at, fall.to_at) == (late.started_at - 500, late.started_at + 1_000)


def test_a_round_ends_where_other_work_begins() -> None:
    runs = [
        run(1, MADE + 5_000, status=RunStatus.SUCCESS),
        run(3, MADE + 4_000),
        run(2, MADE + 3_000),
        RunRecord(task_type="t", key="k", status=RunStatus.SKIPPED, started_at=MADE + 2_900),
        run(2, MADE + 2_500, status=RunStatus.SKIPPED, reason="snoozed"),
        run(1, MADE + 2_000),
        run(1, MADE + 1_000, status=RunStatus.SUCCESS),
    ]

    def attempts(which: RunRecord | None) -> list[int]:
        return [each.token - MADE for each in round_of(runs, which)]

    assert attempts(runs[2]) == attempts(runs[5]) == [2_000, 2_500, 3_000, 4_000]
    assert attempts(None) == attempts(runs[0]) == [5_000]
    assert attempts(runs[6]) == [1_000]
    assert [each.token - MADE for each in round_of(runs, runs[5], MADE + 2_200)] == [2_000]
    unknown = run(1, MADE + 100)
    assert round_of(runs, unknown) == [unknown]


def test_fires_of_a_series_are_rounds_of_their_own() -> None:
    runs = [
        run(2, MADE + 3_000, fire_at=MADE + 2_000, trigger_mode="cron"),
        run(1, MADE + 2_000, fire_at=MADE + 2_000, trigger_mode="cron"),
        run(1, MADE + 1_000, fire_at=MADE + 1_000, trigger_mode="cron", status=RunStatus.SKIPPED),
    ]
    assert [each.token - MADE for each in round_of(runs)] == [2_000, 3_000]


def test_which_round_a_task_is_in() -> None:
    once, twice = run(1, MADE + 1_000), run(2, MADE + 2_000)
    runs = [twice, once]
    last = twice.token
    assert round_of_task(task(TaskStatus.FAILED, MADE, last_token=last), runs) == ([once, twice], True)
    assert round_of_task(task(TaskStatus.PENDING, MADE, attempt=2), runs) == ([once, twice], True)
    assert round_of_task(task(TaskStatus.RUNNING, MADE, attempt=3), runs) == ([once, twice], True)
    # Redriven: its counts begin anew.
    assert round_of_task(task(TaskStatus.PENDING, MADE, attempt=0), runs) == ([], True)
    # Made anew after those runs.
    assert round_of_task(task(TaskStatus.PENDING, MADE, created_at=MADE + 9_000), runs) == ([], True)
    # A series that waits for its next fire shows what ran last, without the wait.
    series = task(TaskStatus.PENDING, MADE + 99_000, trigger='{"kind":"interval","every_ms":1000,"anchor_at":0}')
    done = run(1, MADE + 1_000, status=RunStatus.SUCCESS)
    assert round_of_task(series, [done]) == ([done], False)
