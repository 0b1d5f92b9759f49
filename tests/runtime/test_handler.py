"""What may be a handler, and how it is called."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.task import Task, TaskStatus
from rota.errors import InvalidInput, LimitExceeded
from rota.runtime import Discard, Retry, Run, Snooze, make_handler
from rota.runtime import Run as Context
from rota.stores.base import MAX_PROGRESS_BYTES

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTheChecker

TASK = Task(
    task_type="work",
    key="u1:phone",
    status=TaskStatus.RUNNING,
    scheduled_at=1_000,
    created_at=0,
    updated_at=0,
    user_id="u1",
    device_id="phone",
    agent_id=None,
    payload='{"n":1}',
    attempt=2,
    token=77,
    claimed_at=5_000,
)
RUN = Run(TASK, 60_000)


def test_arguments_are_passed_by_name() -> None:
    def handle(payload: object, user_id: str, extra: int = 3) -> object:
        return user_id, payload, extra

    handler = make_handler("work", handle)
    assert handler.call(TASK, RUN) == ("u1", {"n": 1}, 3)


def test_a_parameter_annotated_run_gets_the_run() -> None:
    def handle(about: Run) -> object:
        return about

    def aliased(about: Context) -> object:
        return about

    def unresolved(about: Run, other: OnlyForTheChecker | None = None) -> object:
        return about

    for function in (handle, aliased, unresolved):
        assert make_handler("work", function).call(TASK, RUN) is RUN


def test_everything_goes_to_a_handler_that_takes_everything() -> None:
    def handle(**given: Any) -> object:
        return given

    expected = {"user_id": "u1", "device_id": "phone", "agent_id": None, "payload": {"n": 1}}
    assert make_handler("work", handle).call(TASK, RUN) == expected


def test_positional_handlers_get_the_three_ids() -> None:
    def handle(user: str, device: str, agent: str) -> object:
        return user, device, agent

    handler = make_handler("work", handle, positional=True)
    assert handler.call(TASK, None) == ("u1", "phone", None)


def test_positional_handlers_get_nothing_for_a_task_of_nobody() -> None:
    def handle(*ids: str) -> object:
        return ids

    nobody = Task(task_type="work", key="k", status=TaskStatus.RUNNING, scheduled_at=0, created_at=0, updated_at=0)
    assert make_handler("work", handle, positional=True).call(nobody, None) == (None, None, None)


def test_the_kind_follows_from_the_function() -> None:
    async def awaited(user_id: str) -> None: ...

    def plain(user_id: str) -> None: ...

    class Callable:
        async def __call__(self) -> None: ...

        async def method(self) -> None: ...

    assert make_handler("work", awaited).kind == "async"
    assert make_handler("work", functools.partial(awaited, user_id="x")).kind == "async"
    assert make_handler("work", Callable()).kind == "async"
    assert make_handler("work", Callable().method).kind == "async"
    assert make_handler("work", plain).kind == "thread"


def test_an_unknown_parameter_is_refused_with_what_is_allowed() -> None:
    def handle(user_id: str, tenant: str) -> None: ...

    with pytest.raises(InvalidInput) as refusal:
        make_handler("work", handle)
    for word in ("tenant", "'work'", "user_id, device_id, agent_id, payload", "annotated Run"):
        assert word in str(refusal.value)


def test_what_cannot_be_called_by_position_is_refused() -> None:
    def handle(user_id: str) -> None: ...

    with pytest.raises(InvalidInput, match="must take \\(user_id, device_id, agent_id\\)"):
        make_handler("work", handle, positional=True)


def test_a_process_needs_a_function_that_it_can_find() -> None:
    with pytest.raises(InvalidInput, match="at the top of a module"):
        make_handler("work", lambda: None, process=True)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be called"):
        make_handler("work", 5)  # pyright: ignore[reportArgumentType]  # that is the point


def test_a_run_knows_its_task() -> None:
    assert (RUN.task_type, RUN.key, RUN.user_id, RUN.device_id, RUN.agent_id) == (
        "work",
        "u1:phone",
        "u1",
        "phone",
        None,
    )
    assert (RUN.payload, RUN.attempt, RUN.token, RUN.fire_at) == ({"n": 1}, 2, 77, None)
    assert RUN.scheduled_at.isoformat() == "1970-01-01T00:00:01+00:00"
    assert RUN.deadline is not None
    assert RUN.deadline.isoformat() == "1970-01-01T00:01:05+00:00"


def test_progress_has_a_limit() -> None:
    run = Run(TASK, 60_000)
    run.progress("x" * (MAX_PROGRESS_BYTES - 2))
    with pytest.raises(LimitExceeded, match="4,096"):
        run.progress("x" * MAX_PROGRESS_BYTES)
    with pytest.raises(InvalidInput, match="JSON"):
        run.progress(object())


def test_signals_take_durations() -> None:
    assert Retry("1h30m").after_ms == 5_400_000
    assert Retry().after_ms is None
    assert Snooze(2).after_ms == 2_000
    assert Discard("no such user").reason == "no such user"
    with pytest.raises(InvalidInput, match="delay of Snooze"):
        Snooze("soon")
