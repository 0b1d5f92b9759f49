"""What becomes of one plain task becomes of all: what a store may write without asking for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from rota.clock import MINUTE
from rota.core import lifecycle, plain
from rota.core.lifecycle import Step
from rota.core.outcome import Answer
from rota.core.task import Entry, Lease, Past, Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.stores.sql.codec import BLANK, COLUMN_NAMES, PLAIN_NAMES, values_of

NOW = 1_800_000_000_000
TYPE = TaskType(name="work", interval_ms=MINUTE, task_ttl_ms=5 * MINUTE)

instants = st.none() | st.integers(NOW - 90 * 86_400_000, NOW)
texts = st.none() | st.text(max_size=3)
numbers = st.integers(0, 9)


@st.composite
def plain_entries(draw: st.DrawFn, status: TaskStatus) -> Entry:
    """Every field is drawn that a plain task may use, and none that it may not."""
    runs = status is TaskStatus.RUNNING
    task = Task(
        task_type="work",
        key="k",
        status=status,
        scheduled_at=draw(st.integers(NOW - 10_000, NOW)),
        created_at=draw(st.integers(0, NOW)),
        updated_at=draw(st.integers(0, NOW)),
        user_id=draw(texts),
        device_id=draw(texts),
        agent_id=draw(texts),
        payload=draw(texts),
        priority=draw(numbers),
        trigger_mode=draw(st.sampled_from(["user_activity", "after"])),
        version=draw(st.integers(1, 9)),
        fire_at=draw(instants),
        first_activity_at=draw(instants),
        last_activity_at=draw(instants),
        coalesced=draw(numbers),
        token=draw(st.integers(1, 99)) if runs else 0,
        lease_until=NOW + 1 if runs else None,
        instance="i" if runs else None,
        claim_id="c" if runs else None,
        claimed_at=draw(st.integers(0, NOW)) if runs else draw(instants),
        claimed_version=draw(st.integers(1, 9)),
        last_token=draw(numbers),
        last_outcome=draw(st.none() | st.sampled_from([Transition.COMPLETE, Transition.RETRY])),
        attempt=draw(numbers),
        finished_at=draw(instants),
        purge_at=draw(instants),
    )
    past = Past(
        last_exec_at=draw(instants),
        last_claimed_at=draw(instants),
        forget_at=draw(st.none() | st.integers(NOW, NOW + 90 * 86_400_000)),
    )
    return Entry(task, past)


def _values(entry: Entry) -> dict[str, Any]:
    assert entry.task is not None
    return dict(zip(COLUMN_NAMES, values_of(entry.task.identity, entry), strict=True))


def _as_the_sample(entry: Entry, sample: Entry, step: Step, own: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with what has changed in the sample, and with what is its own."""
    before, after = _values(sample), _values(step.entry)
    return {**_values(entry), **{name: after[name] for name in after if after[name] != before[name]}, **own}


@given(plain_entries(TaskStatus.PENDING), st.integers(10, 99))
def test_a_plain_task_is_claimed_as_the_sample_is(entry: Entry, token: int) -> None:
    task = entry.task
    assert task is not None
    assert plain.is_claimed_plainly(task)
    step = lifecycle.claim(entry, Lease(token, NOW + 10_000, "here", "c1"), TYPE, NOW)
    assert step.task is not None
    own = {
        "token": token,
        "fire_at": task.scheduled_at,
        "claimed_version": task.version,
        "attempt": task.attempt + 1,
    }
    assert _values(step.entry) == _as_the_sample(entry, plain.WAITING, plain.claim(step.task, TYPE, NOW), own)
    assert (step.answer, step.runs) == (Answer.OK, ())


@given(plain_entries(TaskStatus.RUNNING), numbers)
def test_a_plain_task_succeeds_as_the_sample_does(entry: Entry, took: int) -> None:
    assert entry.task is not None
    task = replace(entry.task, fire_at=entry.task.scheduled_at)  # as its claim has left it
    entry = Entry(task, entry.past)
    done = Settlement(
        task_type="work", key="k", token=task.token, transition=Transition.COMPLETE, duration_ms=took, chance=0.3
    )
    assert plain.says_success_alone(done)
    step, of_sample = lifecycle.settle(entry, done, TYPE, NOW), plain.success(TYPE, NOW)
    kept_until = max(entry.past.forget_at or 0, of_sample.past.forget_at or 0)
    own = {"last_token": task.token, "forget_at": kept_until}
    assert _values(step.entry) == _as_the_sample(entry, plain.RUNNING, of_sample, own)
    (run,), (of_the_sample,) = step.runs, of_sample.runs
    told_by_task = {name: getattr(task, name) for name in ("user_id", "trigger_mode", "fire_at", "attempt", "token")}
    told = {**asdict(of_the_sample), **told_by_task, "task_type": "work", "key": "k", "instance": "i"}
    assert asdict(run) == {**told, "started_at": task.claimed_at, "duration_ms": took}
    assert (step.answer, step.completed) == (Answer.OK, True)


def test_whatever_is_cleared_shows_in_the_samples() -> None:
    """A field at its default would hide that the lifecycle sets it back."""
    blank = dict(zip(COLUMN_NAMES, BLANK, strict=True))
    hidden = {name for name, value in _values(plain.RUNNING).items() if value == blank[name]}
    assert hidden & PLAIN_NAMES == set()
    assert hidden == set(COLUMN_NAMES) - PLAIN_NAMES
    waiting = {name for name, value in _values(plain.WAITING).items() if value == blank[name]}
    assert waiting - hidden == {"token", "lease_until", "instance", "claim_id"}
