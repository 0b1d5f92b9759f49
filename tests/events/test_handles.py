"""Handles: every event counts once, whenever it comes and however often; a flow goes on once, with all of them."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from tests.opening import opened

import rota.events.handle
import rota.events.handles
from rota.clock import DAY, HOUR, SECOND
from rota.database import Database
from rota.database.tables.events import arrivals
from rota.database.tables.events import handles as table
from rota.errors import IllegalTransition, InvalidInput, LimitExceeded, WebhookRefused
from rota.events.envelope import Event
from rota.events.handle import NEXT, OPEN, HandleStatus, HandleStep, UnknownHandle, put_off_ms, status_after
from rota.events.handles import Called, Handles
from rota.testing.clock import FakeClock
from rota.testing.waiting import until

CREATED = "Genesis.Session.DetailBatchCreated"
FAILED = "Genesis.Session.DetailBatchFailed"
OTHER = "Genesis.Session.DetailBatchUpdated"
WEBHOOK = {"kind": "webhook", "url": "https://hooks.example.org/rota", "secret": "a secret of the flow's"}
FLOW_RUN = "6becff90-d567-4bf6-a03b-d69395bc3d62"
REPLAYS = 1_050 if os.environ.get("ROTA_FUZZ") else 100


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        yield database


@pytest.fixture
def handles(database: Database) -> Handles:
    return Handles(database)


@pytest.fixture
async def told(sqlite_url: str, clock: FakeClock) -> AsyncGenerator[Handles]:
    """Handles whose clock moves when told."""
    async with opened(Database(sqlite_url, clock=clock)) as database:
        yield Handles(database, look_seconds=0.02)


def result(number: int, event_type: str = CREATED, correlation_id: str = "c1") -> Event:
    return Event(event_type=event_type, aggregate_id="s1", event_id=f"e{number}", correlation_id=correlation_id)


async def create(handles: Handles, count: int, correlation_id: str = "c1", **more: Any) -> str:
    wanted: dict[str, Any] = {"expected": [CREATED], "failed_types": [FAILED], "task_name": "detail_batch", **more}
    return await handles.database.write(
        lambda connection: handles.create(connection, correlation_id=correlation_id, expected_count=count, **wanted)
    )


async def arrive(handles: Handles, *events: Event) -> list[bool]:
    return await handles.database.write(lambda connection: [handles.arrive(connection, event) for event in events])


async def noted(handles: Handles) -> int:
    return await handles.database.read(
        lambda connection: connection.execute(select(func.count()).select_from(arrivals)).scalar_one()
    )


async def force(handles: Handles, handle_id: str) -> HandleStatus:
    shown = await handles.database.write(lambda connection: handles.resume_by_hand(connection, handle_id))
    return shown.status


# --- the rules -------------------------------------------------------------------------------------------------------


def test_the_table_of_the_docstring_is_the_law() -> None:
    rows = [
        line.strip(" |").split("|") for line in (rota.events.handle.__doc__ or "").splitlines() if line.startswith("| ")
    ]
    drawn = {(one.strip(), step.strip()): to.strip() for one, step, _, to in rows[1:]}
    assert drawn == {(str(one), str(step)): str(to) for (one, step), to in NEXT.items()}


@pytest.mark.parametrize("status", HandleStatus)
@pytest.mark.parametrize("step", HandleStep)
def test_what_is_not_in_the_table_is_refused(status: HandleStatus, step: HandleStep) -> None:
    if (status, step) in NEXT:
        assert status_after(status, step, "h") is NEXT[status, step]
    else:
        with pytest.raises(IllegalTransition, match="leads nowhere"):
            status_after(status, step, "h")


def test_nothing_leads_out_of_the_end() -> None:
    assert not [step for status, step in NEXT if status is HandleStatus.RESUMED]
    assert set(OPEN) == {HandleStatus.PENDING, HandleStatus.READY, HandleStatus.RESUMING}


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_calls_are_put_off_ever_longer_and_never_over_a_minute(attempts: int, chance: float) -> None:
    assert 100 <= put_off_ms(attempts, chance) <= 60 * SECOND
    assert put_off_ms(1, 0.999) < SECOND
    assert put_off_ms(20, 0.999) > 59 * SECOND


# --- making one ------------------------------------------------------------------------------------------------------


async def test_a_handle_is_shown_without_its_secrets(handles: Handles) -> None:
    handle_id = await create(handles, 3, callback=WEBHOOK, user_id="u1", flow_run_id="f1", timeout_ms=5 * SECOND)
    shown = await handles.get(handle_id)
    assert (shown.id, shown.correlation_id, shown.task_name) == (handle_id, "c1", "detail_batch")
    assert shown.expected == [CREATED, FAILED]
    assert (shown.expected_count, shown.done, shown.failed) == (3, 0, 0)
    assert shown.status is HandleStatus.PENDING
    assert shown.expires_at - shown.created_at == 5 * SECOND
    assert shown.callback == "webhook"
    assert "secret" not in repr(shown)


async def test_a_second_open_handle_is_refused_and_says_which_is_open(handles: Handles) -> None:
    first = await create(handles, 1)
    with pytest.raises(InvalidInput, match=f"{first} .*still open"):
        await create(handles, 2)
    await arrive(handles, result(1))
    with pytest.raises(InvalidInput, match="still open"):
        await create(handles, 2)
    await handles.wait("c1")
    second = await create(handles, 2)
    assert second != first
    assert (await handles.get(first)).done == 1


async def test_of_many_made_at_once_one_is_made(handles: Handles) -> None:
    made = await asyncio.gather(*(create(handles, 1) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(each, str) for each in made) == 1
    assert sum(isinstance(each, InvalidInput) for each in made) == 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"expected": ["created"]}, "No event can be called"),
        ({"expected": [], "failed_types": []}, "1 to 100 types"),
        ({"expected": CREATED}, "as a list"),
        ({"failed_types": [OTHER]}, "does not end in Failed"),
        ({"expected_count": 0}, "1 to 1,000,000"),
        ({"expected_count": 1_000_001}, "1 to 1,000,000"),
        ({"timeout_ms": 0}, "1 ms to 366 days"),
        ({"correlation_id": ""}, "correlation_id is empty"),
        ({"user_id": ""}, "user_id is empty"),
        ({"task_name": "\0"}, "NUL"),
        ({"callback": {"kind": "letter"}}, "callback cannot be used"),
        ({"callback": {"kind": "webhook"}}, "callback cannot be used"),
        ({"callback": {"kind": "prefect"}}, "no id of a flow run"),
        ({"callback": {"kind": "prefect"}, "flow_run_id": "../admin"}, "no id of a flow run"),
        ({"callback": {**WEBHOOK, "secret": "whsec_???"}}, "base64"),
    ],
)
async def test_what_can_never_work_is_refused(told: Handles, given: dict[str, Any], words: str) -> None:
    wanted: dict[str, Any] = {
        "correlation_id": "c1",
        "expected": [CREATED],
        "expected_count": 1,
        "task_name": "detail_batch",
        **given,
    }
    with pytest.raises(InvalidInput, match=words):
        await told.database.write(lambda connection: told.create(connection, **wanted))
    assert (await told.find()).items == []


async def test_an_address_that_is_none_is_refused(told: Handles) -> None:
    with pytest.raises(WebhookRefused):
        await create(told, 1, callback={"kind": "webhook", "url": "ftp://example.org/"})


# --- counting --------------------------------------------------------------------------------------------------------


async def test_successes_and_failures_are_counted_apart(handles: Handles) -> None:
    handle_id = await create(handles, 3)
    assert await arrive(handles, result(1), result(2, FAILED)) == [True, True]
    shown = await handles.get(handle_id)
    assert (shown.done, shown.failed, shown.status) == (1, 1, HandleStatus.PENDING)
    assert await arrive(handles, result(3)) == [True]
    shown = await handles.get(handle_id)
    assert (shown.done, shown.failed, shown.status) == (2, 1, HandleStatus.READY)


async def test_what_nobody_waits_for_is_nothing(handles: Handles) -> None:
    handle_id = await create(handles, 1)
    strangers = [
        result(1, OTHER),
        result(2, correlation_id="c2"),
        Event(event_type=CREATED, aggregate_id="s1", event_id="e3"),
    ]
    assert await arrive(handles, *strangers) == [False, False, False]
    assert (await handles.get(handle_id)).done == 0
    assert await noted(handles) == 0


async def test_an_event_without_an_id_is_refused(told: Handles) -> None:
    await create(told, 1)
    with pytest.raises(InvalidInput, match="without an event_id"):
        await arrive(told, Event(event_type=CREATED, aggregate_id="s1", correlation_id="c1"))


async def test_a_transaction_that_is_rolled_back_has_counted_nothing(handles: Handles) -> None:
    handle_id = await create(handles, 1)

    def regret(connection: Any) -> None:
        assert handles.arrive(connection, result(1))
        raise ValueError("regretted")

    with pytest.raises(ValueError, match="regretted"):
        await handles.database.write(regret)
    assert (await handles.get(handle_id)).status is HandleStatus.PENDING
    assert await arrive(handles, result(1)) == [True]


async def test_events_beyond_the_count_do_not_raise_it(handles: Handles) -> None:
    handle_id = await create(handles, 2)
    assert await arrive(handles, *map(result, range(5))) == [True, True, False, False, False]
    shown = await handles.get(handle_id)
    assert (shown.done, shown.failed, shown.status) == (2, 0, HandleStatus.READY)
    assert await handles.event_ids(handle_id) == ["e0", "e1"]


async def test_duplicates_and_replays_are_counted_exactly(handles: Handles) -> None:
    count = 50
    handle_id = await create(handles, count)
    originals = [result(number, FAILED if number % 10 == 0 else CREATED) for number in range(count)]
    all_but_one = originals[:-1]
    for _ in range(REPLAYS):  # the whole topic is replayed, and brought in groups
        await asyncio.gather(
            *(
                handles.database.grouped(lambda connection, group=group: handles.arrive_all(connection, group))
                for group in [all_but_one[start : start + 7] for start in range(0, count, 7)]
            )
        )
    shown = await handles.get(handle_id)
    assert (shown.done, shown.failed, shown.status) == (44, 5, HandleStatus.PENDING)
    assert await arrive(handles, *originals, originals[-1]) == [*[False] * 49, True, False]
    shown = await handles.get(handle_id)
    assert (shown.done, shown.failed, shown.status) == (45, 5, HandleStatus.READY)
    assert await noted(handles) == count


async def test_many_that_count_at_once_count_right(handles: Handles) -> None:
    """Each event from two sides at once, in transactions of their own."""
    count, flows = 20, ("c1", "c2", "c3")
    ids = [await create(handles, count, correlation_id=flow) for flow in flows]
    events = [result(number, correlation_id=flow) for number in range(count) for flow in flows]
    sides: Sequence[Sequence[Event]] = (events, events[::-1])
    answers = await asyncio.gather(*(arrive(handles, event) for side in sides for event in side))
    assert sum(answer == [True] for answer in answers) == count * len(flows)
    for handle_id in ids:
        shown = await handles.get(handle_id)
        assert (shown.done, shown.status) == (count, HandleStatus.READY)
    assert await noted(handles) == count * len(flows)


async def test_those_that_count_for_several_flows_never_wait_in_a_circle(handles: Handles) -> None:
    flows = [f"c{number}" for number in range(6)]
    ids = [await create(handles, 40, correlation_id=flow) for flow in flows]

    def group(number: int) -> list[Event]:
        events = [result(number, correlation_id=flow) for flow in flows]
        return events if number % 2 else events[::-1]

    await asyncio.gather(
        *(
            handles.database.write(lambda connection, number=number: handles.arrive_all(connection, group(number)))
            for number in range(40)
        )
    )
    assert [(await handles.get(handle_id)).done for handle_id in ids] == [40] * len(flows)


Sent = list[tuple[int, bool]]


@settings(max_examples=60)
@given(
    expected=st.integers(1, 6),
    sent=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=24),
    cuts=st.lists(st.integers(0, 24), max_size=4),
)
def test_any_order_and_any_number_of_duplicates(expected: int, sent: Sent, cuts: list[int]) -> None:
    """Counts are exact, it is ready exactly when it is complete, and whoever waits is told the first ones."""
    # Whether an event is a failure belongs to the event: what comes again is the same.
    failures = dict(reversed(sent))
    asyncio.run(_count_and_compare(expected, [(number, failures[number]) for number, _ in sent], sorted(cuts)))


async def _count_and_compare(expected: int, sent: Sent, cuts: Sequence[int]) -> None:
    with TemporaryDirectory() as folder:
        async with opened(Database(f"sqlite:///{Path(folder)}/rota.db?synchronous=OFF")) as database:
            handles = Handles(database)
            handle_id = await create(handles, expected)
            counted: dict[int, bool] = {}
            became_ready = 0
            for start, end in itertools.pairwise([0, *(min(cut, len(sent)) for cut in cuts), len(sent)]):
                group = sent[start:end]
                before = (await handles.get(handle_id)).status
                events = [result(number, FAILED if failed else CREATED) for number, failed in group]
                await database.write(lambda connection, events=events: handles.arrive_all(connection, events))
                for number, failed in group:
                    if len(counted) < expected:
                        counted.setdefault(number, failed)
                shown = await handles.get(handle_id)
                assert shown.failed == sum(counted.values())
                assert shown.done == len(counted) - shown.failed
                assert (shown.status is HandleStatus.READY) == (len(counted) == expected)
                became_ready += shown.status is not before
            assert became_ready == (len(counted) == expected)
            if became_ready:
                resumed = await handles.wait("c1")
                assert sorted(resumed.event_ids) == sorted(f"e{number}" for number in counted)
                assert await handles.wait("c1") == resumed


# --- waiting ---------------------------------------------------------------------------------------------------------


async def test_who_waits_is_woken_by_the_last_event(handles: Handles) -> None:
    handle_id = await create(handles, 2)
    waiting = asyncio.create_task(handles.wait("c1"))
    await arrive(handles, result(1))
    await until(lambda: noted(handles))
    assert not waiting.done()
    await arrive(handles, result(2, FAILED))
    resumed = await waiting
    assert (resumed.handle_id, resumed.correlation_id) == (handle_id, "c1")
    assert (resumed.expected, resumed.done, resumed.failed, resumed.expired) == (2, 1, 1, False)
    assert resumed.event_ids == ["e1", "e2"]
    shown = await handles.get(handle_id)
    assert shown.status is HandleStatus.RESUMED
    assert shown.resumed_at is not None


async def test_results_before_the_wait_are_kept(handles: Handles) -> None:
    await create(handles, 1)
    await arrive(handles, result(1))
    assert (await handles.wait("c1", timeout=0)).done == 1


async def test_whoever_waits_again_or_beside_is_told_the_same(handles: Handles) -> None:
    handle_id = await create(handles, 1)
    waiting = [asyncio.create_task(handles.wait("c1")) for _ in range(5)]
    await arrive(handles, result(1))
    first, *others = await asyncio.gather(*waiting)
    resumed_at = (await handles.get(handle_id)).resumed_at
    assert [*others, await handles.wait("c1")] == [first] * 5
    assert (await handles.get(handle_id)).resumed_at == resumed_at


async def test_who_loses_patience_may_come_back(handles: Handles) -> None:
    await create(handles, 2)
    await arrive(handles, result(1))
    with pytest.raises(TimeoutError, match="Of the 2 events of 'c1' 1 have arrived"):
        await handles.wait("c1", timeout=0.05)
    await arrive(handles, result(2))
    assert (await handles.wait("c1")).done == 2


async def test_nobody_can_wait_for_what_was_never_made(handles: Handles) -> None:
    with pytest.raises(UnknownHandle, match="'c9'"):
        await handles.wait("c9")
    with pytest.raises(UnknownHandle, match="'h9'"):
        await handles.get("h9")


async def test_a_wake_up_that_was_lost_costs_a_look(told: Handles, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(told, 1)
    waiting = asyncio.create_task(told.wait("c1"))

    def say_nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(told.database.changes, "poke", say_nothing)
    await arrive(told, result(1))
    assert (await waiting).done == 1


async def test_who_waits_is_told_at_the_deadline_what_has_come(told: Handles, clock: FakeClock) -> None:
    handle_id = await create(told, 2)
    await arrive(told, result(1))
    waiting = asyncio.create_task(told.wait("c1"))
    clock.advance("1h")
    resumed = await waiting
    assert (resumed.done, resumed.expired, resumed.event_ids) == (1, True, ["e1"])
    assert await arrive(told, result(2)) == [False]
    assert await told.wait("c1") == resumed
    assert (await told.get(handle_id)).status is HandleStatus.RESUMED


# --- expiry ----------------------------------------------------------------------------------------------------------


async def expire(handles: Handles, limit: int = 1_000) -> int:
    return await handles.database.write(lambda connection: handles.expire(connection, limit))


async def test_at_the_deadline_one_with_a_callback_is_ready_with_what_has_come(told: Handles, clock: FakeClock) -> None:
    handle_id = await create(told, 2, callback=WEBHOOK)
    await arrive(told, result(1))
    clock.set(clock.now() + HOUR - 1)
    assert await expire(told) == 0
    clock.set(clock.now() + 1)
    assert await expire(told) == 1
    assert await expire(told) == 0
    assert (await told.get(handle_id)).status is HandleStatus.READY
    resumed = await told.wait("c1")
    assert (resumed.done, resumed.expired) == (1, True)
    assert (await told.get(handle_id)).status is HandleStatus.READY, "who is to be called was not called yet"


async def test_at_the_deadline_one_that_nobody_waits_for_ends(told: Handles, clock: FakeClock) -> None:
    missing, complete = await create(told, 2), await create(told, 1, correlation_id="c2")
    await arrive(told, result(1), result(2, correlation_id="c2"))
    clock.advance("1h")
    assert await expire(told) == 2
    for handle_id in (missing, complete):
        assert (await told.get(handle_id)).status is HandleStatus.EXPIRED
    # A flow that comes late is still told.
    late, last = await told.wait("c1"), await told.wait("c2")
    assert (late.done, late.expired) == (1, True)
    assert (last.done, last.expired) == (1, False)
    assert (await told.get(missing)).status is HandleStatus.RESUMED
    assert await create(told, 1)


async def test_expiry_is_bounded(told: Handles, clock: FakeClock) -> None:
    for number in range(5):
        await create(told, 1, correlation_id=f"c{number}")
    clock.advance("2h")
    assert [await expire(told, 2) for _ in range(4)] == [2, 2, 1, 0]


# --- by hand ---------------------------------------------------------------------------------------------------------


async def test_an_operator_need_not_wait(handles: Handles) -> None:
    handle_id = await create(handles, 2)
    await arrive(handles, result(1))
    assert await force(handles, handle_id) is HandleStatus.READY
    assert await force(handles, handle_id) is HandleStatus.READY
    resumed = await handles.wait("c1")
    assert (resumed.done, resumed.expired) == (1, False)
    with pytest.raises(IllegalTransition, match="resumed"):
        await force(handles, handle_id)
    with pytest.raises(UnknownHandle):
        await force(handles, "h9")


async def test_what_has_failed_is_resumed_by_hand(handles: Handles) -> None:
    handle_id = await create(handles, 1, callback=WEBHOOK)
    await arrive(handles, result(1))
    write = handles.database.write
    (claimed,) = await write(lambda connection: handles.claim(connection, limit=9, lease_ms=SECOND, token="t"))
    assert await force(handles, handle_id) is HandleStatus.RESUMING
    refused = Called(HandleStep.REFUSE, "gone")
    assert await write(lambda connection: handles.record(connection, claimed, refused, 0))
    shown = await handles.get(handle_id)
    assert (shown.status, shown.error) == (HandleStatus.FAILED, "gone")
    assert not await write(lambda connection: handles.record(connection, claimed, Called(HandleStep.ACCEPT), 0))
    other = await create(handles, 1)
    with pytest.raises(InvalidInput, match=other):
        await force(handles, handle_id)
    await force(handles, other)
    await handles.wait("c1")
    assert await force(handles, handle_id) is HandleStatus.READY


# --- reading and forgetting ------------------------------------------------------------------------------------------


async def test_pages_begin_with_the_newest(told: Handles, clock: FakeClock) -> None:
    ids: list[str] = []
    for number in range(5):
        ids.append(await create(told, 1, correlation_id=f"c{number}"))
        clock.advance(1)
    await arrive(told, result(1, correlation_id="c3"))
    first = await told.find(limit=3)
    assert [handle.id for handle in first.items] == ids[:1:-1]
    rest = await told.find(limit=3, cursor=first.cursor)
    assert [handle.id for handle in rest.items] == [ids[1], ids[0]]
    assert rest.cursor is None
    assert [handle.id for handle in (await told.find(status=HandleStatus.READY)).items] == [ids[3]]
    assert [handle.id for handle in (await told.find(correlation_id="c1")).items] == [ids[1]]
    with pytest.raises(LimitExceeded):
        await told.find(limit=0)


async def test_a_users_handles_are_shown_and_erased(handles: Handles) -> None:
    mine = await create(handles, 2, user_id="u1", callback=WEBHOOK)
    other = await create(handles, 2, user_id="u2", correlation_id="c2")
    await arrive(handles, result(1), result(2, correlation_id="c2"))
    (shown,) = await handles.database.read(lambda connection: handles.export_user(connection, "u1"))
    assert (shown["id"], shown["event_ids"], shown["status"]) == (mine, ["e1"], "pending")
    assert WEBHOOK["secret"] not in repr(shown)
    assert await handles.database.write(lambda connection: handles.erase_user(connection, "u1")) == 1
    assert [handle.id for handle in (await handles.find()).items] == [other]
    assert await noted(handles) == 1
    assert await arrive(handles, result(3)) == [False]


async def test_what_ended_long_ago_is_pruned(told: Handles, clock: FakeClock) -> None:
    collected, lapsed, waiting = [
        await create(told, 1, correlation_id=name, timeout_ms=timeout_ms)
        for name, timeout_ms in (("c1", HOUR), ("c2", HOUR), ("c3", 100 * DAY))
    ]
    await arrive(told, result(1))
    await told.wait("c1")
    clock.advance("1h")
    await expire(told)
    clock.set(clock.now() + 7 * DAY - HOUR)
    assert await told.prune(7 * DAY) == 0
    clock.set(clock.now() + 1)
    assert await told.prune(7 * DAY) == 1
    with pytest.raises(UnknownHandle):
        await told.get(collected)
    assert await noted(told) == 0
    assert (await told.get(lapsed)).status is HandleStatus.EXPIRED
    clock.set(clock.now() + 7 * DAY)
    assert await told.prune(7 * DAY) == 1
    assert [handle.id for handle in (await told.find()).items] == [waiting]


async def test_looks_go_along_the_indexes(told: Handles) -> None:
    """With a million handles that have ended, counting and sweeping look at those that are open."""
    names = {"correlation": "_OPEN_OF", "pending": "_OVERDUE", "ready": "_CALLABLE"}
    queries = {index: getattr(rota.events.handles, name) for index, name in names.items()}
    given = {"of_correlation": "c", "now": 0, "most": 1}

    def plan(connection: Any, query: Any) -> str:
        compiled = query.compile(connection.engine, compile_kwargs={"render_postcompile": True})
        values = tuple({**compiled.params, **given}[name] for name in compiled.positiontup)
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values)
        return " ".join(row.detail for row in rows)

    for name, query in queries.items():
        said = await told.database.read(lambda connection, query=query: plan(connection, query))
        assert f"ix_{table.name}_{name}" in said, said
