"""Why a task waits, in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.clock import HOUR, MINUTE, SECOND
from rota.core.task import NO_PAST, Past, Task, TaskStatus, Want
from rota.core.task_type import RateLimit, TaskType, TriggerMode
from rota.core.waiting import WaitExplanation, WaitFacts, explain
from rota.testing.clock import START

WORK = TaskType(name="work")
TASK = Task(
    task_type="work", key="k", status=TaskStatus.PENDING, scheduled_at=START, created_at=START, updated_at=START
)
FACTS = WaitFacts(
    task_type=WORK,
    is_enabled=True,
    is_frozen=False,
    is_draining=False,
    task=TASK,
    past=NO_PAST,
    now=START,
    ahead=0,
    is_more_ahead=False,
    running=0,
    serial_running=0,
    tokens=None,
    arrived=(),
)


def explained(task: Task | None = TASK, **facts: object) -> WaitExplanation:
    return explain(replace(FACTS, task=task, **facts))


def codes(explanation: WaitExplanation) -> list[str]:
    return [reason.code for reason in explanation.reasons]


def test_next_in_line() -> None:
    found = explained()
    assert (found.state, codes(found), found.position) == ("pending", ["next_in_line"], 1)
    assert found.summary.startswith("It is due and next in line")


def test_a_place_in_line_and_an_estimate_from_what_ran() -> None:
    found = explained(ahead=9, ran=60, ran_within_ms=10 * MINUTE)
    assert (codes(found), found.position, found.estimate_ms) == (["in_line"], 10, 100 * SECOND)
    assert "9 tasks go before it" in found.summary


def test_nothing_ran_so_nobody_can_say() -> None:
    assert explained(ahead=9).estimate_ms is None
    assert explained(ahead=10_000, is_more_ahead=True, ran=5).estimate_ms is None
    assert explained(ahead=10_000, is_more_ahead=True).position_is_more


def test_due_later() -> None:
    found = explained(replace(TASK, scheduled_at=START + 90 * MINUTE))
    assert (codes(found), found.position, found.estimate_ms) == (["due_later"], None, 90 * MINUTE)
    assert "in 1h30m" in found.summary
    assert found.due_at == START + 90 * MINUTE


def test_a_retry_says_why() -> None:
    found = explained(replace(TASK, scheduled_at=START + 1_500, errors=2, reason="timeout"))
    assert codes(found) == ["retry_backoff"]
    assert found.summary == "It failed 2 times (timeout) and is tried again in 2s."


def test_a_snooze_is_no_failure() -> None:
    assert codes(explained(replace(TASK, scheduled_at=START + SECOND, snoozes=1))) == ["snoozed"]


@pytest.mark.parametrize(
    ("facts", "code"),
    [({"is_enabled": False}, "disabled"), ({"is_frozen": True}, "frozen"), ({"instances": 0}, "no_handler")],
)
def test_what_holds_it_back_until_somebody_acts(facts: dict[str, object], code: str) -> None:
    found = explained(TASK, ran=100, **facts)
    assert codes(found) == [code]
    assert found.estimate_ms is None


def test_a_busy_serial() -> None:
    found = explained(replace(TASK, serial="group-7", permits=1, parked=True), serial_running=1)
    assert codes(found) == ["serial_busy"]
    assert "1 task runs under its serial 'group-7', which has 1 place" in found.summary


def test_a_rate_limit() -> None:
    limited = replace(WORK, rate_limit=RateLimit(rate=0.5, burst=3))
    found = explained(replace(TASK, cost=2), task_type=limited, tokens=1.0)
    assert codes(found) == ["rate_limited"]
    assert "can start in 2s" in found.summary
    assert codes(explained(replace(TASK, cost=9), task_type=limited, tokens=3.0)) == ["next_in_line"]


def test_a_start_limit_beside_it() -> None:
    limited = replace(WORK, rate_limit=RateLimit(rate=0.5, burst=3), start_limit=RateLimit(rate=2, burst=1))
    found = explained(replace(TASK, cost=2), task_type=limited, tokens=2.0, start_tokens=-9.0)
    assert codes(found) == ["start_limited"]
    assert "may start 2 a second (at most 1 at once); the next one can start in 5s" in found.summary
    found = explained(TASK, task_type=limited, tokens=-1.0, start_tokens=0.0)
    assert codes(found) == ["rate_limited", "start_limited"]


def test_concurrency_is_per_instance() -> None:
    two = replace(WORK, concurrency=2)
    assert codes(explained(task_type=two, running=4, instances=2)) == ["concurrency"]
    assert codes(explained(task_type=two, running=3, instances=2)) == ["next_in_line"]


def test_running() -> None:
    task = replace(
        TASK,
        status=TaskStatus.RUNNING,
        claimed_at=START - 5 * SECOND,
        instance="i1",
        progress="half",
        want=Want.CANCEL,
    )
    found = explained(task)
    assert (found.state, codes(found), found.position) == ("running", ["running"], None)
    assert found.summary == "It has been running for 5s on i1. Its progress: half. It was told to stop."


def test_paused_says_that_the_type_is_off_too() -> None:
    found = explained(replace(TASK, status=TaskStatus.PAUSED, reason="Group not found: X"), is_frozen=True)
    assert codes(found) == ["paused", "frozen"]
    assert "Group not found: X" in found.summary


def test_finished_and_what_new_activity_meets() -> None:
    past = Past(last_exec_at=START - MINUTE, fail_count=3, fail_until=START + HOUR)
    task = replace(TASK, status=TaskStatus.FAILED, reason="error", error="ValueError: no")
    found = explained(task, past=past)
    assert codes(found) == ["finished", "breaker_open"]
    assert found.summary.startswith("It is failed: error (ValueError: no). 3 tasks in a row failed")
    assert codes(explained(None, past=replace(past, fail_count=0))) == ["absent", "cooldown"]
    assert codes(explained(None, is_draining=True)) == ["absent", "draining"]


def test_what_it_comes_after() -> None:
    after = replace(WORK, trigger_mode=TriggerMode.AFTER, after=("a", "b", "c"))
    found = explained(None, task_type=after, arrived=("a",), before={"b": TaskStatus.FAILED, "c": None})
    assert codes(found) == ["waiting_for"]
    assert "b has failed, and must be redriven first, c has not completed for it yet" in found.summary
