"""The table of `core/lifecycle.py`: complete, and the same as the one written for the conformance suite."""

from __future__ import annotations

import pytest

from rota.core.lifecycle import TABLE, Special, goes_to
from rota.core.task import Task, TaskStatus, Transition
from rota.testing.conformance.table import ANSWERS

_REFUSALS = ("refused", "unknown", "stale", "nothing", "exists")
_STATES = (Special.ABSENT, *TaskStatus)


def test_every_event_has_a_row() -> None:
    assert set(TABLE) == set(Transition)


@pytest.mark.parametrize("transition", Transition)
def test_every_pair_is_legal_where_the_written_table_says_so(transition: Transition) -> None:
    for state in _STATES:
        answer, after = ANSWERS[transition, str(state)]
        target = TABLE[transition].get(state)
        # An activity of somebody unknown is a schedule; the table knows it under that name.
        event_in_table = Transition.SCHEDULE if transition is Transition.TOUCH and answer == "created" else transition
        target = TABLE[event_in_table].get(state)
        assert (target is None) == (answer in _REFUSALS), (transition, state)
        match target:
            case None:
                assert after == state
            case Special.SAME:
                assert after == state
            case Special.LEAVE:
                assert (state, after) == (TaskStatus.RUNNING, "leave")
            case Special.GONE:
                assert after == "absent"
            case _:
                assert after == target


def test_no_status_is_a_dead_end() -> None:
    """From every state something leads on."""
    for state in _STATES:
        assert any(state in row for row in TABLE.values())


def test_every_status_can_be_reached() -> None:
    targets = {target for row in TABLE.values() for target in row.values()}
    assert {TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.PAUSED, TaskStatus.CANCELLED} <= targets
    assert Special.LEAVE in targets


def test_goes_to_asks_the_table() -> None:
    task = Task(task_type="t", key="k", status=TaskStatus.PENDING, scheduled_at=0, created_at=0, updated_at=0)
    assert goes_to(Transition.SCHEDULE, None) is TaskStatus.PENDING
    assert goes_to(Transition.CLAIM, task) is TaskStatus.RUNNING
    assert goes_to(Transition.RENEW, task) is None
    assert goes_to(Transition.PURGE, None) is None
