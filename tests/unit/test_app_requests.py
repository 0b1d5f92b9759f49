"""Requests at the Python face: what is refused, and how answers look."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import pytest

from rota import (
    IllegalTransition,
    InvalidInput,
    LimitExceeded,
    Rota,
    RotaError,
    StoreUnavailable,
    TaskDetails,
    Touch,
    TouchOutcome,
    UnknownTask,
    UnknownTaskType,
)
from rota.stores.memory import MemoryStore
from rota.testing import FakeClock, FaultyStore


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore(FakeClock()))


@pytest.fixture
async def app(store: FaultyStore) -> AsyncIterator[Rota]:
    """A connected app with three types: `compress` for users, `work` by hand, `clean` every day."""
    rota = Rota({}, store=store)

    @rota.on_activity(after="30m")
    async def compress(user_id: str) -> None: ...

    @rota.task(max_retries=0)
    async def work(payload: object) -> bool:
        return payload != "fail"

    @rota.every("24h")
    async def clean() -> None: ...

    async with rota:
        yield rota


Call = Callable[[Rota], Awaitable[object]]

REFUSED: dict[str, tuple[Call, type[RotaError], str]] = {
    "touch: unknown type": (lambda a: a.touch("compres", "u1"), UnknownTaskType, "Did you mean 'compress'"),
    "touch: not for users": (lambda a: a.touch("clean", "u1"), InvalidInput, "is periodic, and only user_activity"),
    "touch: no user": (lambda a: a.touch("compress", ""), InvalidInput, "user_id is empty"),
    "touch: no text": (lambda a: a.touch("compress", 7), InvalidInput, "user_id is 7, which is no text"),  # pyright: ignore[reportArgumentType]
    "schedule: unknown type": (lambda a: a.schedule("wrk"), UnknownTaskType, "no task type 'wrk'"),
    "schedule: at and delay": (lambda a: a.schedule("work", at="2027-01-01", delay=5), InvalidInput, "one of them"),
    "schedule: past": (lambda a: a.schedule("work", at="2020-01-01T00:00:00Z"), InvalidInput, "not in the future"),
    "schedule: no zone": (lambda a: a.schedule("work", at=datetime(2027, 1, 1)), InvalidInput, "has no zone"),  # noqa: DTZ001 - the mistake
    "schedule: no JSON": (lambda a: a.schedule("work", object()), InvalidInput, "cannot be written as JSON"),
    "schedule: big": (lambda a: a.schedule("work", "x" * 300_000), LimitExceeded, "262,144 is the limit"),
    "schedule: priority": (lambda a: a.schedule("work", priority=11), InvalidInput, "priority is 11"),
    "schedule: empty key": (lambda a: a.schedule("work", key=""), InvalidInput, "empty key"),
    "upsert: no trigger": (lambda a: a.schedules.upsert("s", type="work"), InvalidInput, "nothing was given"),
    "upsert: two triggers": (
        lambda a: a.schedules.upsert("s", type="work", cron="0 9 * * *", every="1h"),
        InvalidInput,
        "cron and every were given",
    ),
    "upsert: too fast": (lambda a: a.schedules.upsert("s", type="work", every="10ms"), InvalidInput, "1 second"),
    "upsert: bad cron": (lambda a: a.schedules.upsert("s", type="work", cron="x"), InvalidInput, "cron"),
    "upsert: empty id": (lambda a: a.schedules.upsert("", type="work", every="1h"), InvalidInput, "id .* is empty"),
    "upsert: global id": (lambda a: a.schedules.upsert("%global", type="work", every="1h"), InvalidInput, "itself"),
    "upsert: misfire": (
        lambda a: a.schedules.upsert("s", type="work", every="1h", misfire="never"),  # pyright: ignore[reportArgumentType]
        InvalidInput,
        "misfire policy 'never' is unknown",
    ),
    "upsert: expired": (
        lambda a: a.schedules.upsert("s", type="work", every="1h", expires="2020-01-01"),
        InvalidInput,
        "expires: .*not in the future",
    ),
    "upsert: quota": (
        lambda a: a.schedules.upsert("s", type="work", every="1h", owner="o", limit=0),
        LimitExceeded,
        "as its limit allows",
    ),
    "pause: unknown": (lambda a: a.schedules.pause("s", "work"), UnknownTask, "no task work/s"),
    "run_now: unknown": (lambda a: a.tasks.run_now("compress", user_id="u9"), UnknownTask, "no task compress/u9"),
    "tasks: device alone": (lambda a: a.tasks.get("compress", device_id="d"), InvalidInput, "Add the user_id"),
    "tasks: key and user": (lambda a: a.tasks.get("compress", "k", user_id="u"), InvalidInput, "one of them"),
    "tasks: status": (lambda a: a.tasks.find(status="complete"), InvalidInput, "Did you mean 'completed'"),
    "tasks: page": (lambda a: a.tasks.find(limit=5_000), LimitExceeded, "1 to 1,000"),
    "runs: status": (lambda a: a.runs(status="ok"), InvalidInput, "status 'ok' does not exist"),
    "disable: unknown": (lambda a: a.disable("nope"), UnknownTaskType, "no task type 'nope'"),
    "stop: negative": (lambda a: a.stop(timeout=-1), InvalidInput, "Use seconds from 0"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refusals_say_what_is_wrong_and_what_to_do(app: Rota, case: str):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        await call(app)


async def test_a_disabled_type_takes_nothing_on(app: Rota):
    await app.disable("work")
    with pytest.raises(InvalidInput, match="was not scheduled: the type is disabled"):
        await app.schedule("work")
    await app.enable("work")
    assert (await app.schedule("work", key="k")).outcome == "created"


async def test_what_leads_nowhere_is_an_illegal_transition(app: Rota):
    await app.schedule("work", key="k")
    with pytest.raises(IllegalTransition, match="task work/k is pending; 'redrive' leads nowhere"):
        await app.tasks.redrive("work", "k")


async def test_a_live_schedule_keeps_its_owner(app: Rota):
    await app.schedules.upsert("s", type="work", every="1h", owner="ada")
    with pytest.raises(InvalidInput, match=r"owner of the live schedule .* is 'ada' and cannot become 'bob'"):
        await app.schedules.upsert("s", type="work", every="1h", owner="bob")


async def test_a_task_without_a_trigger_is_no_schedule(app: Rota):
    await app.schedule("work", key="k")
    assert await app.schedules.get("k", "work") is None
    assert (await app.schedules.list()).items == []


async def test_schedules_are_paged(app: Rota):
    for number in range(7):
        await app.schedule("work", key=f"s{number}-task")
        await app.schedules.upsert(f"s{number}", type="work", every="1h")
    found: list[str] = []
    page = await app.schedules.list(limit=3)
    while True:
        assert len(page.items) <= 3
        found += [schedule.id for schedule in page.items]
        if page.cursor is None:
            break
        page = await app.schedules.list(limit=3, cursor=page.cursor)
    assert found == [f"s{number}" for number in range(7)]


async def test_all_dead_letters_at_once(app: Rota):
    for number in range(3):
        await app.schedule("work", "fail", key=f"k{number}")
    await app.run_until_idle()
    assert (await app.counts())["work"].failed == 3
    await app.tasks.purge("work", "k0")
    assert await app.tasks.get("work", "k0") is None
    assert await app.tasks.redrive_all("work") == 2
    await app.run_until_idle()
    assert await app.tasks.purge_all() == 2
    assert (await app.counts())["work"].failed == 0


async def test_replace_changes_what_waits(app: Rota):
    await app.schedule("work", 1, key="k", delay="1h")
    receipt = await app.schedule("work", 2, key="k", delay="2h", replace=True)
    task = await app.tasks.get("work", "k")
    assert receipt.outcome == "updated"
    assert task is not None
    assert (task.payload, task.scheduled_at) == (2, datetime(2026, 1, 5, 11, tzinfo=UTC))


async def test_a_user_can_be_scheduled_for_by_hand(app: Rota):
    receipt = await app.schedule("work", user_id="u1", device_id="phone")
    assert receipt.key == "u1:phone:default"


async def test_answers_are_json(app: Rota):
    touch = await app.touch("compress", "u1")
    assert touch.to_dict() == {"outcome": "created", "scheduled_at": "2026-01-05T09:30:00.000Z", "coalesced": 0}
    assert Touch(TouchOutcome.DISABLED, None, 0).to_dict()["scheduled_at"] is None
    receipt = await app.schedule("work", {"a": [1]}, key="k")
    schedule = await app.schedules.upsert("s", type="work", cron="0 9 * * *", timezone="Asia/Tokyo")
    await app.run_until_idle()
    task = await app.tasks.get("work", "k")
    assert isinstance(task, TaskDetails)
    runs = (await app.runs()).items
    for answer in (touch, receipt, schedule, task, *runs):
        assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()
    assert {run.user_key for run in runs} == {"k", "global"}
    assert schedule.to_dict()["timezone"] == "Asia/Tokyo"


@pytest.mark.usefixtures("app")
async def test_a_type_of_another_process_is_found_in_the_store(store: FaultyStore):
    other = Rota({}, store=store)
    async with other:
        assert (await other.touch("compress", "u1")).outcome == "created"
        assert await other.schedule_user_task("compress", "u2") is True


async def test_a_store_that_is_away_is_an_error(app: Rota, store: FaultyStore):
    with store.down(), pytest.raises(StoreUnavailable):
        await app.touch("compress", "u1")
