"""7: tasks that were claimed behind a blocked event loop, and never begun, were written down as crashed.

What a living instance claimed and never renewed was never begun; the same for every store is in the conformance suite
(reap.py), the age of a claim in `test_07_a_stale_claim_is_not_begun.py`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.core import lifecycle
from rota.core.task import NO_PAST, Entry, Lease, NewTask, Renewal, RunStatus, Transition
from rota.core.task_type import TaskType

NOW = 1_790_000_000_000
WORK = TaskType(name="work")
LEASE = Lease(7, NOW + 10_000, "here", "c")


@pytest.mark.parametrize(
    ("is_alive", "was_renewed", "crashes", "row"),
    [
        (True, False, 0, RunStatus.SKIPPED),
        (True, True, 1, RunStatus.LOST),
        (False, False, 1, RunStatus.LOST),
        (False, True, 1, RunStatus.LOST),
    ],
)
def test_who_is_to_blame(is_alive: bool, was_renewed: bool, crashes: int, row: RunStatus) -> None:
    made = lifecycle.schedule(Entry(None, NO_PAST), NewTask(task_type="work", key="k"), WORK, NOW)
    entry = lifecycle.claim(made.entry, LEASE, WORK, NOW).entry
    if was_renewed:
        entry = lifecycle.renew(entry, Renewal("work", "k", LEASE.token), NOW + 10_000).entry
    step = lifecycle.reap(entry, WORK, NOW + 10_000, is_alive=is_alive)
    assert step.task is not None
    assert (step.task.crashes, step.runs[0].status, step.runs[0].token) == (crashes, row, LEASE.token)
    assert (step.task.last_outcome is Transition.REAP) == (crashes == 1)


def test_a_new_claim_has_not_begun_whatever_the_last_one_did() -> None:
    made = lifecycle.schedule(Entry(None, NO_PAST), NewTask(task_type="work", key="k"), WORK, NOW)
    assert made.task is not None
    again = Entry(replace(made.task, renewed=True, extended=True), NO_PAST)
    claimed = lifecycle.claim(again, LEASE, WORK, NOW).task
    assert claimed is not None
    assert (claimed.renewed, claimed.extended) == (False, False)
