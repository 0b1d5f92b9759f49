"""Calling those who wait: once, however many instances try; again, for as long as it takes; and never a second time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.events.callees import Callee, Run, callee
from tests.opening import opened

from rota.clock import SECOND
from rota.database import Database
from rota.errors import InvalidInput, StoreUnavailable
from rota.events.callback import LEASE_MS, LOOK_MS, CallbackDuty
from rota.events.envelope import Event
from rota.events.handle import Handle, HandleStatus, HandleStep
from rota.events.handles import Called, Handles
from rota.events.prefect_api import PrefectApi
from rota.runtime.health import Pulse
from rota.testing.clock import FakeClock
from rota.testing.waiting import PATIENCE, until
from rota.webhooks import Webhooks, verify

CREATED = "Genesis.Session.DetailBatchCreated"
FLOW_RUN = "6becff90-d567-4bf6-a03b-d69395bc3d62"
PREFECT = {"kind": "prefect"}


@pytest.fixture
async def called() -> AsyncGenerator[Callee]:
    async with callee() as made:
        yield made


@pytest.fixture
async def told(sqlite_url: str, clock: FakeClock) -> AsyncGenerator[Handles]:
    """Handles whose clock moves when told."""
    async with opened(Database(sqlite_url, clock=clock)) as database:
        yield Handles(database)


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def handles(request: pytest.FixtureRequest) -> AsyncGenerator[Handles]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        yield Handles(database)


@asynccontextmanager
async def duty(handles: Handles, called: Callee, *, prefect: bool = True, **more: Any) -> AsyncGenerator[CallbackDuty]:
    async def open_handles() -> Handles:
        return handles

    made = CallbackDuty(
        open_handles,
        Webhooks(allow_private=True, allow_http=True, timeout=PATIENCE),
        PrefectApi(called.api_url, "the key", timeout=PATIENCE) if prefect else None,
        pulse=Pulse(FakeClock()),
        chance=lambda: 0.999,
        **more,
    )
    try:
        yield made
    finally:
        await made.close()


async def ready(handles: Handles, correlation_id: str = "c1", **more: Any) -> str:
    """A handle of which all has arrived."""

    def write(connection: Any) -> str:
        handle_id = handles.create(
            connection,
            correlation_id=correlation_id,
            expected=[CREATED],
            expected_count=1,
            task_name="detail_batch",
            **more,
        )
        event = Event(event_type=CREATED, aggregate_id="s", event_id="e1", correlation_id=correlation_id)
        assert handles.arrive(connection, event)
        return handle_id

    return await handles.database.write(write)


async def for_prefect(handles: Handles, called: Callee, **run: Any) -> tuple[str, Run]:
    called.runs[FLOW_RUN] = Run(**run)
    return await ready(handles, callback=PREFECT, flow_run_id=FLOW_RUN), called.runs[FLOW_RUN]


async def once(made: CallbackDuty) -> int:
    """A pass, and the calls that it has begun; how many those were."""
    report = await made.run_once()
    await made.calls_ended()
    return report.calls


async def after(handles: Handles, handle_id: str) -> tuple[HandleStatus, str]:
    shown = await handles.get(handle_id)
    return shown.status, shown.error or ""


# --- webhooks --------------------------------------------------------------------------------------------------------


async def test_a_webhook_is_called_once_with_ids_and_counts(handles: Handles, called: Callee) -> None:
    handle_id = await ready(handles, callback=called.hook)
    async with duty(handles, called) as made:
        assert [await once(made) for _ in range(3)] == [1, 0, 0]
    (request,) = called.requests
    assert json.loads(request.body) == {
        "handle_id": handle_id,
        "correlation_id": "c1",
        "expected": 1,
        "done": 1,
        "failed": 0,
        "expired": False,
    }
    assert request.headers["webhook-id"] == handle_id
    now = int(request.headers["webhook-timestamp"]) * SECOND
    assert verify("a secret of the flow's", request.headers, request.body, now=now)
    shown = await handles.get(handle_id)
    assert (shown.status, shown.error, shown.attempts) == (HandleStatus.RESUMED, None, 1)
    assert shown.resumed_at is not None


@pytest.mark.parametrize("status", [400, 404, 410])
async def test_a_webhook_that_refuses_has_failed(told: Handles, called: Callee, status: int) -> None:
    called.hook_status = status
    handle_id = await ready(told, callback=called.hook)
    async with duty(told, called) as made:
        assert [await once(made) for _ in range(2)] == [1, 0]
        failed, error = await after(told, handle_id)
        assert failed is HandleStatus.FAILED
        assert str(status) in error
        # Somebody has mended it.
        called.hook_status = 200
        await told.database.write(lambda connection: told.resume_by_hand(connection, handle_id))
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


async def test_an_address_that_may_not_be_called_has_failed(told: Handles, called: Callee) -> None:
    handle_id = await ready(told, callback={"kind": "webhook", "url": "https://127.0.0.1/"})

    async def open_handles() -> Handles:
        return told

    made = CallbackDuty(open_handles, Webhooks(), pulse=Pulse(FakeClock()), chance=lambda: 0.5)
    assert await once(made) == 1
    await made.close()
    status, error = await after(told, handle_id)
    assert status is HandleStatus.FAILED
    assert "no address of the open internet" in error


async def test_a_webhook_that_is_away_is_called_ever_less_often_and_for_ever(
    told: Handles, called: Callee, clock: FakeClock
) -> None:
    handle_id = await ready(told, callback=called.hook)
    called.hook_status = 503
    pauses: list[int] = []
    async with duty(told, called) as made:
        for _ in range(40):
            assert await once(made) == 1
            assert await once(made) == 0
            shown = await told.get(handle_id)
            assert shown.status is HandleStatus.READY
            pauses.append(shown.next_at - clock.now())
            clock.set(shown.next_at)
        assert [round(pause / SECOND) for pause in pauses[:8]] == [1, 2, 4, 8, 16, 32, 60, 60]
        assert max(pauses) <= 60 * SECOND
        called.hook_status = 204
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")
    assert {request.headers["webhook-id"] for request in called.requests} == {handle_id}


async def test_one_that_hangs_keeps_nobody_waiting(handles: Handles, called: Callee) -> None:
    slow = await ready(handles, callback={**called.hook, "url": f"http://127.0.0.1:{called.port}/hang"})
    async with duty(handles, called, lease_ms=1_000 * SECOND, at_once=2) as made:
        assert (await made.run_once()).calls == 1
        await until(lambda: called.posted("/hang"))
        quick = await ready(handles, "c2", callback=called.hook)
        assert (await made.run_once()).calls == 1
        await until(lambda: _is_resumed(handles, quick))
        assert (await handles.get(slow)).status is HandleStatus.RESUMING
        called.hangs.set()
        await made.calls_ended()
    assert (await handles.get(slow)).status is HandleStatus.RESUMED


async def test_with_no_room_left_nothing_more_is_claimed(told: Handles, called: Callee) -> None:
    hanging = {**called.hook, "url": f"http://127.0.0.1:{called.port}/hang"}
    ids = [await ready(told, f"c{number}", callback=hanging) for number in range(5)]
    async with duty(told, called, lease_ms=1_000 * SECOND, at_once=2) as made:
        report = await made.run_once()
        assert (report.calls, report.next_ms) == (2, LOOK_MS)
        assert (await made.run_once()).calls == 0
        called.hangs.set()
        await made.calls_ended()
        assert [await once(made), await once(made)] == [2, 1]
    assert {(await told.get(handle_id)).status for handle_id in ids} == {HandleStatus.RESUMED}


async def _is_resumed(handles: Handles, handle_id: str) -> bool:
    return (await handles.get(handle_id)).status is HandleStatus.RESUMED


# --- Prefect ---------------------------------------------------------------------------------------------------------


async def test_a_paused_run_is_resumed_once_with_ids_and_counts(handles: Handles, called: Callee) -> None:
    handle_id, run = await for_prefect(handles, called)
    run.pause(handle_id)
    async with duty(handles, called) as made:
        assert [await once(made) for _ in range(3)] == [1, 0, 0]
    assert await after(handles, handle_id) == (HandleStatus.RESUMED, "")
    assert run.inputs == [
        {"handle_id": handle_id, "correlation_id": "c1", "expected": 1, "done": 1, "failed": 0, "expired": False}
    ]
    assert len(called.posted()) == 1
    assert {request.headers["authorization"] for request in called.requests} == {"Bearer the key"}


async def test_a_run_that_has_not_paused_yet_is_asked_again(told: Handles, called: Callee, clock: FakeClock) -> None:
    handle_id, run = await for_prefect(told, called)
    async with duty(told, called) as made:
        for state in ("SCHEDULED", "PENDING", "RUNNING", "CANCELLING"):
            run.state = state
            assert await once(made) == 1
            status, error = await after(told, handle_id)
            assert status is HandleStatus.READY
            assert "not paused yet" in error
            clock.advance(60)
        run.pause(handle_id)
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")
    assert len(run.inputs) == 1


async def test_a_pause_for_something_else_is_left_alone(told: Handles, called: Callee, clock: FakeClock) -> None:
    handle_id, run = await for_prefect(told, called)
    async with duty(told, called) as made:
        for key in ("another-handle", None):
            run.state, run.pause_key = "PAUSED", key
            assert await once(made) == 1
            assert "paused for something else" in (await after(told, handle_id))[1]
            clock.advance(60)
        assert called.posted() == []
        # A pause without a key of its own has a number.
        run.pause("1")
        assert await once(made) == 1
    assert len(run.inputs) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


async def test_a_run_that_was_resumed_already_is_done(told: Handles, called: Callee) -> None:
    handle_id, run = await for_prefect(told, called)
    run.pause_keys = ["1", handle_id]
    async with duty(told, called) as made:
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")
    assert called.posted() == []


async def test_a_run_that_is_complete_is_done(told: Handles, called: Callee) -> None:
    handle_id, _ = await for_prefect(told, called, state="COMPLETED")
    async with duty(told, called) as made:
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


@pytest.mark.parametrize("state", ["FAILED", "CRASHED", "CANCELLED"])
async def test_a_run_that_has_ended_otherwise_has_failed(told: Handles, called: Callee, state: str) -> None:
    handle_id, _ = await for_prefect(told, called, state=state)
    async with duty(told, called) as made:
        assert await once(made) == 1
    status, error = await after(told, handle_id)
    assert status is HandleStatus.FAILED
    assert state in error


async def test_a_run_that_nobody_knows_has_failed(told: Handles, called: Callee) -> None:
    handle_id = await ready(told, callback=PREFECT, flow_run_id=FLOW_RUN)
    async with duty(told, called) as made:
        assert await once(made) == 1
    status, error = await after(told, handle_id)
    assert status is HandleStatus.FAILED
    assert "Flow run not found" in error


async def test_an_input_that_the_flow_does_not_take_has_failed(
    told: Handles, called: Callee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.events.callees.REQUIRED", ("x",))
    handle_id, run = await for_prefect(told, called)
    run.pause(handle_id)
    async with duty(told, called) as made:
        assert await once(made) == 1
    status, error = await after(told, handle_id)
    assert status is HandleStatus.FAILED
    assert "Validation failed" in error


async def test_a_pause_that_was_too_long_has_failed(told: Handles, called: Callee) -> None:
    handle_id, run = await for_prefect(told, called, has_timed_out=True)
    run.pause(handle_id)
    async with duty(told, called) as made:
        assert await once(made) == 1
    status, error = await after(told, handle_id)
    assert status is HandleStatus.FAILED
    assert "timed out" in error


async def test_a_pause_whose_schema_is_not_written_yet_is_asked_again(
    told: Handles, called: Callee, clock: FakeClock
) -> None:
    handle_id, run = await for_prefect(told, called, has_schema=False)
    run.pause(handle_id)
    async with duty(told, called) as made:
        assert await once(made) == 1
        assert (await after(told, handle_id))[0] is HandleStatus.READY
        run.has_schema = True
        clock.advance(60)
        assert await once(made) == 1
    assert len(run.inputs) == 1


@pytest.mark.parametrize(
    "raw",
    [
        (500, b"{}"),
        (502, b"<html>"),
        (401, b"{}"),
        (429, b"{}"),
        (200, b"<html>"),
        (200, b'{"status":"WAIT","details":{"type":"wait_details","delay_seconds":3,"reason":"busy"}}'),
        (200, b'{"status":"ABORT","details":{"type":"abort_details","reason":"not paused"}}'),
        (200, b'{"status":"ABORT"}'),
    ],
)
async def test_what_may_pass_is_tried_again(
    told: Handles, called: Callee, clock: FakeClock, raw: tuple[int, bytes]
) -> None:
    handle_id, run = await for_prefect(told, called)
    run.pause(handle_id)
    called.raw = raw
    async with duty(told, called) as made:
        assert await once(made) == 1
        assert (await after(told, handle_id))[0] is HandleStatus.READY
        called.raw = None
        clock.advance(60)
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


async def test_a_wrong_address_is_no_answer_about_the_run(told: Handles, called: Callee) -> None:
    handle_id, _ = await for_prefect(told, called)
    called.port, port = 0, called.port
    async with duty(told, called) as made:
        made._prefect = PrefectApi(f"http://127.0.0.1:{port}/wrong")  # pyright: ignore[reportPrivateUsage]
        assert await once(made) == 1
    assert (await after(told, handle_id))[0] is HandleStatus.READY


async def test_a_server_that_is_away_is_waited_for(told: Handles, called: Callee, clock: FakeClock) -> None:
    handle_id, run = await for_prefect(told, called)
    run.pause(handle_id)
    await called.go()
    async with duty(told, called) as made:
        for _ in range(20):
            assert await once(made) == 1
            status, error = await after(told, handle_id)
            assert status is HandleStatus.READY
            assert "cannot be reached" in error
            clock.advance(60)
        await called.come()
        assert await once(made) == 1
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


async def test_without_a_prefect_its_handles_wait(told: Handles, called: Callee) -> None:
    handle_id, _ = await for_prefect(told, called)
    async with duty(told, called, prefect=False) as made:
        assert await once(made) == 1
    assert await after(told, handle_id) == (
        HandleStatus.READY,
        "No Prefect is configured here. Set prefect.api_url.",
    )


def test_an_address_of_prefect_is_a_url() -> None:
    with pytest.raises(InvalidInput, match=r"prefect\.api_url"):
        PrefectApi("prefect.example.org")


# --- several instances, and their ends -------------------------------------------------------------------------------


async def test_two_at_once_call_once_each(handles: Handles, called: Callee) -> None:
    ids = [await ready(handles, f"c{number}", callback=called.hook) for number in range(30)]
    async with duty(handles, called) as one, duty(handles, called) as other:
        for _ in range(3):
            await asyncio.gather(once(one), once(other))
    assert sorted(request.headers["webhook-id"] for request in called.requests) == sorted(ids)
    assert {(await handles.get(handle_id)).status for handle_id in ids} == {HandleStatus.RESUMED}


async def test_one_that_dies_before_the_call_is_taken_over(told: Handles, called: Callee, clock: FakeClock) -> None:
    handle_id, run = await for_prefect(told, called)
    run.pause(handle_id)
    write = told.database.write
    (dead,) = await write(lambda connection: told.claim(connection, limit=9, lease_ms=LEASE_MS, token="dead"))
    async with duty(told, called) as made:
        report = await made.run_once()
        assert (report.calls, report.next_ms) == (0, LEASE_MS)
        clock.advance("10s")
        assert await once(made) == 1
    assert len(run.inputs) == 1
    # What it says when it wakes up is too late.
    late = Called(HandleStep.REFUSE, "I was asleep")
    assert not await write(lambda connection: told.record(connection, dead, late, 0))
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


@pytest.fixture
def deaf(told: Handles, monkeypatch: pytest.MonkeyPatch) -> Generator[pytest.MonkeyPatch]:
    """A database that takes nothing down any more."""

    async def refuse(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(told.database, "grouped", refuse)
        yield patched


async def test_one_that_dies_after_the_call_does_no_harm(
    told: Handles, called: Callee, clock: FakeClock, deaf: pytest.MonkeyPatch
) -> None:
    handle_id, run = await for_prefect(told, called)
    run.pause(handle_id)
    hooked = await ready(told, "c2", callback=called.hook)
    async with duty(told, called) as made:
        assert await once(made) == 2
    deaf.undo()
    assert (await told.get(handle_id)).status is HandleStatus.RESUMING
    # The flow has gone on meanwhile, and waits for the next thing.
    run.pause("the next handle")
    async with duty(told, called) as made:
        assert await once(made) == 0
        clock.advance("10s")
        assert await once(made) == 2
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")
    assert (len(run.inputs), run.state) == (1, "PAUSED"), "it was resumed twice"
    assert {request.headers["webhook-id"] for request in called.posted("/hook")} == {hooked}
    assert await after(told, hooked) == (HandleStatus.RESUMED, "")


async def test_a_call_that_takes_too_long_is_given_up_before_the_lease(told: Handles, called: Callee) -> None:
    handle_id = await ready(told, callback={**called.hook, "url": f"http://127.0.0.1:{called.port}/hang"})
    async with duty(told, called, lease_ms=100) as made:
        assert await once(made) == 1
    status, error = await after(told, handle_id)
    assert status is HandleStatus.READY
    assert "longer than 0.08 s" in error


async def test_a_handle_that_is_erased_meanwhile_is_nobodys(told: Handles, called: Callee) -> None:
    await ready(told, callback=called.hook, user_id="u1")
    write = told.database.write
    (claimed,) = await write(lambda connection: told.claim(connection, limit=9, lease_ms=LEASE_MS, token="t"))
    await write(lambda connection: told.erase_user(connection, "u1"))
    assert not await write(lambda connection: told.record(connection, claimed, Called(HandleStep.ACCEPT), 0))


# --- the loop --------------------------------------------------------------------------------------------------------


async def test_a_handle_that_becomes_ready_wakes_the_duty(handles: Handles, called: Callee) -> None:
    async with duty(handles, called) as made:
        running = asyncio.create_task(made.run())
        await until(lambda: made._heard)  # pyright: ignore[reportPrivateUsage]
        began = asyncio.get_running_loop().time()
        handle_id = await ready(handles, callback=called.hook)
        await until(lambda: _is_resumed(handles, handle_id))
        assert asyncio.get_running_loop().time() - began < LOOK_MS / SECOND
        made.stop()
        await running
    assert len(called.requests) == 1


async def test_at_the_deadline_the_flow_is_called_with_what_has_come(
    told: Handles, called: Callee, clock: FakeClock
) -> None:
    def write(connection: Any) -> str:
        return told.create(
            connection,
            correlation_id="c1",
            expected=[CREATED],
            expected_count=2,
            task_name="detail_batch",
            callback=called.hook,
            timeout_ms=5 * SECOND,
        )

    handle_id = await told.database.write(write)
    async with duty(told, called) as made:
        report = await made.run_once()
        assert (report.expired, report.calls, report.next_ms) == (0, 0, 5 * SECOND)
        clock.advance("5s")
        report = await made.run_once()
        assert (report.expired, report.calls) == (1, 1)
        await made.calls_ended()
    (request,) = called.requests
    said = json.loads(request.body)
    assert (said["done"], said["expired"]) == (0, True)
    assert await after(told, handle_id) == (HandleStatus.RESUMED, "")


async def test_what_waits_for_nobody_is_called_by_nobody(told: Handles, called: Callee) -> None:
    handle_id = await ready(told)
    async with duty(told, called) as made:
        report = await made.run_once()
        assert (report.calls, report.next_ms) == (0, LOOK_MS)
    shown: Handle = await told.get(handle_id)
    assert shown.status is HandleStatus.READY


async def test_without_a_database_there_is_nothing_to_do() -> None:
    async def open_handles() -> None:
        return None

    made = CallbackDuty(open_handles, Webhooks(), pulse=Pulse(FakeClock()), chance=lambda: 0.5)
    assert (await made.run_once()).calls == 0
    await made.close()
