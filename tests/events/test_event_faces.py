"""What people see of events and do about them: in Python, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.api.calls import check_problem
from tests.api.stage import Stage, staged
from tests.events.event_scene import (
    TOPIC,
    acted,
    an_operator,
    dead_letter,
    published,
    read_up_to,
    refused,
    rows,
    seen,
    set_all,
)

from rota import Rota
from rota.access import Principal, Role
from rota.cli import main
from rota.clock import HOUR
from rota.database.tables.events import handles as handles_table
from rota.database.tables.events import inbox, offsets, outbox
from rota.errors import BusAway, CountChanged, InvalidInput, NotAllowed
from rota.events import Event, Handles, NonRetriable
from rota.events.buses.local import LocalBus
from rota.events.faces import pages
from rota.events.faces.pages import of_letter, of_refused, on_all
from rota.events.handle import UnknownHandle
from rota.events.operator import BATCH, EventOperator
from rota.events.part import EventsPart
from rota.events.reading import (
    DeadLetter,
    DeadQuery,
    EventFilter,
    EventReading,
    EventView,
    UnknownConsumer,
    UnknownEvent,
    known_consumers,
    views_of,
)
from rota.testing.waiting import until

T = TypeVar("T")


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def app(request: pytest.FixtureRequest) -> AsyncGenerator[Rota]:
    async with Rota(str(request.getfixturevalue(request.param))) as app:
        yield app


@pytest.fixture
async def reading(app: Rota) -> EventReading:
    return EventReading(await app.database())


@pytest.fixture
def operator(app: Rota) -> EventOperator:
    return an_operator(app)


# --- reading ---------------------------------------------------------------------------------------------------------


async def test_pages_of_events_newest_first(app: Rota, reading: EventReading) -> None:
    ids = await published(app, *"abcde")
    first = await reading.events(limit=2)
    assert [event.event_id for event in first.items] == [ids[4], ids[3]]
    second = await reading.events(limit=3, cursor=first.cursor)
    assert [event.event_id for event in second.items] == [ids[2], ids[1], ids[0]]
    assert second.cursor is None
    with pytest.raises(InvalidInput, match="none of ours"):
        await reading.events(cursor="x")


async def test_events_are_found_by_what_they_say(app: Rota, reading: EventReading) -> None:
    await published(app, "a", user_id="u1", correlation_id="c1")
    await published(app, "b", key="k")

    async def found(**wanted: Any) -> list[str]:
        return [event.aggregate_id for event in (await reading.events(EventFilter(**wanted))).items]

    assert await found(user_id="u1") == await found(correlation_id="c1") == await found(aggregate_id="a") == ["a"]
    assert await found(key="k") == ["b"]
    assert await found(event_type="Shop.Order.Created") == await found(topic=TOPIC) == ["b", "a"]
    assert await found(status=("new",)) == await found(status=("new", "dead")) == ["b", "a"]
    assert await found(status=("sent",)) == await found(topic="other") == []


async def test_an_event_with_what_each_consumer_made_of_it(app: Rota, reading: EventReading) -> None:
    (event_id,) = await published(app, "a")
    await seen(reading.database, event_id, "mail")
    await dead_letter(reading.database, event_id, "billing")
    await seen(reading.database, "from elsewhere", "mail", status="retrying", next_at=5)
    event, handled = await reading.event(event_id)
    assert event is not None
    assert event.payload == {"of": "a"}
    assert [(one.consumer, one.status) for one in handled] == [("billing", "dead"), ("mail", "done")]
    assert isinstance(handled[0], DeadLetter)
    assert handled[0].message == {"event_id": event_id, "payload": 12}
    event, handled = await reading.event("from elsewhere")
    assert event is None
    assert [(one.status, one.next_at) for one in handled] == [("retrying", 5)]
    with pytest.raises(UnknownEvent, match="rota event ls"):
        await reading.event("nothing")


async def test_retries_are_grouped_by_key(reading: EventReading) -> None:
    await seen(reading.database, "e1", status="retrying", key="k1", attempts=3, next_at=50, error="first", at=7)
    await seen(reading.database, "e2", status="retrying", key="k2", attempts=1)
    await seen(reading.database, "e3", status="retrying", key="k1")
    await seen(reading.database, "e4", key="k1")
    first, second = await reading.retries()
    assert (first.key, first.waiting, first.attempts, first.next_at, first.error) == ("k1", 2, 3, 50, "first")
    assert (first.first_event_id, first.since_at) == ("e1", 7)
    assert (second.key, second.waiting) == ("k2", 1)
    assert await reading.retries_by_consumer() == {"billing": 3}
    assert len(await reading.retries(1)) == 1


async def test_consumers_here_and_elsewhere(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(event: Event) -> None: ...

    app.consumer("Shop.Order.Created", name="world_builder")(nothing)
    database, part = await app.database(), app.host.part(EventsPart)
    await read_up_to(database, "billing", 0)
    await seen(database, "e1", "mail")
    await dead_letter(database, "e2", "mail")
    await published(app, "a", "b")
    known = await known_consumers(part)
    assert [(one.name, one.topics, one.is_here) for one in known] == [
        ("billing", (TOPIC,), False),
        ("mail", (TOPIC,), False),
        ("worldbuilder", (TOPIC,), True),
    ]
    views = {view.name: view for view in await views_of(part)}
    assert views["billing"].lag == {TOPIC: 2}
    assert views["mail"].dead == 1

    async def away(self: LocalBus, consumer: str, topics: object) -> dict[str, int]:
        raise BusAway("The bus is away.")

    monkeypatch.setattr(LocalBus, "lag", away)
    assert [view.lag for view in await views_of(part)] == [None, None, None]


# --- acting ----------------------------------------------------------------------------------------------------------


async def test_redriven_letters_are_tried_again_with_fresh_counts(
    app: Rota, reading: EventReading, operator: EventOperator
) -> None:
    for event_id, consumer in (("e1", "billing"), ("e1", "mail"), ("e2", "billing"), ("e3", "billing")):
        await dead_letter(reading.database, event_id, consumer)
    assert await operator.redrive(DeadQuery(event_ids=("e1",), consumer="billing")) == 1
    (again, *_) = await rows(reading.database, inbox)
    assert (again.status, again.attempts, again.crashes, again.lease_token) == ("retrying", 0, 0, None)
    assert again.envelope is not None
    assert 0 < again.next_at <= await reading.database.now()
    assert await operator.redrive(DeadQuery(event_ids=("e1",), consumer="billing")) == 0, "twice is harmless"
    with pytest.raises(CountChanged):
        await operator.redrive(DeadQuery(), expected=4)
    assert await operator.redrive(DeadQuery(), expected=3) == 3
    assert await reading.count_dead() == 0
    assert [one[0] for one in await acted(reading.database)] == ["event.redrive"] * 4


async def test_more_than_one_transaction_of_letters(reading: EventReading, operator: EventOperator) -> None:
    row = {"consumer": "billing", "topic": TOPIC, "key": "k", "status": "dead", "at": 1}
    many = [{**row, "event_id": f"e{number}"} for number in range(2 * BATCH + 1)]
    await reading.database.write(lambda connection: connection.execute(inbox.insert(), many))
    assert await operator.redrive(DeadQuery(consumer="billing")) == 2 * BATCH + 1
    await set_all(reading.database, inbox, status="dead")
    assert await operator.purge(DeadQuery()) == 2 * BATCH + 1
    assert await rows(reading.database, inbox) == []


async def test_a_redriven_letter_reaches_its_handler(app: Rota, reading: EventReading, operator: EventOperator) -> None:
    handled: list[str] = []
    is_mended = False

    @app.consumer("Shop.Order.Created", name="billing")
    async def bill(event: Event) -> None:
        if not is_mended:
            raise NonRetriable("not yet")
        handled.append(event.aggregate_id)

    await published(app, "a")
    await app.start()
    await until(reading.count_dead, "it is dead")
    is_mended = True
    (letter,) = (await reading.dead_letters()).items
    assert (letter.event_type, letter.error, letter.consumer) == ("Shop.Order.Created", "not yet", "billing")
    assert await operator.redrive(DeadQuery(event_ids=(letter.event_id,))) == 1
    await until(lambda: handled == ["a"], "it is handled after all")
    await app.stop(timeout=1)


async def test_purging_removes_what_is_dead_and_nothing_else(reading: EventReading, operator: EventOperator) -> None:
    await dead_letter(reading.database, "e1")
    await dead_letter(reading.database, "e2", "mail")
    await seen(reading.database, "e3")
    assert await operator.purge(DeadQuery(event_ids=("e1", "e3"))) == 1
    assert [row.event_id for row in await rows(reading.database, inbox)] == ["e2", "e3"]


async def test_what_the_bus_has_refused_is_offered_again_or_removed(
    app: Rota, reading: EventReading, operator: EventOperator
) -> None:
    ids = await refused(app, "a", "b", "c")
    assert (await reading.figures()).refused == 3
    assert await operator.retry_outbox([ids[0], "nothing"]) == 1
    first = (await rows(reading.database, outbox))[0]
    assert (first.status, first.error, first.sent_at, first.attempts) == ("new", None, None, 0)
    assert await operator.purge_outbox([ids[1]]) == 1
    assert await operator.retry_outbox() == 1
    assert await operator.retry_outbox() == 0
    assert (await reading.figures())[:3:2] == (2, 0)


async def test_a_consumer_reads_again(app: Rota, operator: EventOperator) -> None:
    database = await app.database()
    await published(app, "a")
    bus = (await app.events()).bus
    assert isinstance(bus, LocalBus)
    await bus.place(10)
    await read_up_to(database, "billing", 1)
    replayed = await operator.replay("billing", None, await database.now() - HOUR)
    assert replayed.topics == [TOPIC]
    assert set(await database.read(lambda c: c.execute(offsets.select()).scalars().all())) == {"billing"}
    assert {row.position for row in await database.read(lambda c: c.execute(offsets.select()).all())} == {0}
    with pytest.raises(UnknownConsumer, match="Did you mean 'billing'"):
        await operator.replay("biling", None, 0)
    with pytest.raises(InvalidInput, match=r"does not read the topic 'rota\.shop\.orders'"):
        await operator.replay("billing", ["rota.shop.orders"], 0)


async def test_publishing_again_is_harmless(app: Rota, reading: EventReading, operator: EventOperator) -> None:
    def event(number: int, **more: Any) -> Event:
        return Event(event_type="Shop.Order.Created", aggregate_id=f"o{number}", payload=number, **more)

    assert await operator.publish(event(1, event_id="e1")) == (["e1"], 1)
    published = await operator.publish(event(2), event(1, event_id="e1"), event(3, event_id="e3"))
    assert (published.event_ids[1:], published.added) == (["e1", "e3"], 2)
    assert [row.aggregate_id for row in await rows(reading.database, outbox)] == ["o1", "o2", "o3"]
    with pytest.raises(InvalidInput, match="the same event_id"):
        await operator.publish(event(4, event_id="x"), event(5, event_id="x"))
    with pytest.raises(InvalidInput, match="does not say what has happened"):
        await operator.publish(event(6), Event(event_type="Shop.Order.Create", aggregate_id="o6"))
    assert len(await rows(reading.database, outbox)) == 3, "all of them or none"


async def test_the_same_events_published_at_once_are_there_once(
    app: Rota, reading: EventReading, operator: EventOperator
) -> None:
    events = [Event(event_type="Shop.Order.Created", aggregate_id="o", event_id=f"e{n}") for n in range(20)]
    answers = await asyncio.gather(*(operator.publish(*events) for _ in range(5)))
    assert {tuple(answer.event_ids) for answer in answers} == {tuple(f"e{n}" for n in range(20))}
    assert len(await rows(reading.database, outbox)) == 20


async def test_a_flow_is_resumed_by_hand(app: Rota, operator: EventOperator) -> None:
    made = await operator.create_handle(
        correlation_id="c1", expected=["Shop.Order.Created"], expected_count=2, task_name="orders"
    )
    assert made.status == "pending"
    with pytest.raises(InvalidInput, match="is still open"):
        await operator.create_handle(
            correlation_id="c1", expected=["Shop.Order.Created"], expected_count=2, task_name="orders"
        )
    assert (await operator.resume_handle(made.id)).status == "ready"
    handles = Handles(await app.database())
    assert (await handles.wait("c1")).done == 0
    assert (await operator.resume_handle(made.id)).status == "resumed", "twice is harmless"
    with pytest.raises(UnknownHandle):
        await operator.resume_handle("nothing")


async def test_a_viewer_may_not_act_and_that_is_in_the_audit_log(app: Rota) -> None:
    viewer = Principal("v", "v", Role.VIEWER, "api")
    operator = EventOperator(app.host.part(EventsPart), viewer, app.database)
    wanted: dict[str, Any] = {"expected": ["Shop.Order.Created"], "expected_count": 1, "task_name": "x"}
    for refused_call in (
        operator.redrive(DeadQuery()),
        operator.purge(DeadQuery()),
        operator.retry_outbox(),
        operator.purge_outbox(),
        operator.replay("billing", None, 0),
        operator.publish(Event(event_type="Shop.Order.Created", aggregate_id="o")),
        operator.create_handle(correlation_id="c", **wanted),
        operator.resume_handle("h"),
    ):
        with pytest.raises(NotAllowed, match="needs the role operator"):
            await refused_call
    assert {outcome for _, _, outcome in await acted(await app.database())} == {"not_allowed"}
    assert len(await acted(await app.database())) == 8


# --- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def stage(sqlite_url: str) -> AsyncGenerator[Stage]:
    async with staged(sqlite_url) as made:
        yield made


async def test_the_way_of_a_flow_over_http(stage: Stage) -> None:
    """What the flow of the examples does: a handle, requests that may be sent again, results that are read."""
    handle = {
        "correlation_id": "b1",
        "flow_run_id": "8c4e5f7a-0000-4000-8000-000000000000",
        "task_name": "detail_batch",
        "expected": ["Genesis.Session.DetailBatchCreated"],
        "failed_types": ["Genesis.Session.DetailBatchFailed"],
        "expected_count": 2,
        "callback": {"kind": "prefect"},
        "timeout": "3600s",
    }
    made = await stage.operator.post("/api/handles", json=handle)
    assert made.status_code == 201
    assert (made.json()["callback"], made.json()["status"]) == ("prefect", "pending")
    (found,) = (await stage.viewer.get("/api/handles?correlation_id=b1")).json()["items"]
    assert found["id"] == made.json()["id"]
    check_problem(await stage.operator.post("/api/handles", json=handle), 422, "invalid_input")

    event = {"event_type": "Genesis.Session.DetailBatchCreated", "aggregate_id": "s1", "correlation_id": "b1"}
    events = [{**event, "event_id": f"b1/{n}", "payload": {"items": [n]}} for n in range(2)]
    for added in (2, 0):
        answer = await stage.operator.post("/api/events", json={"events": events})
        assert answer.status_code == 201
        assert answer.json() == {"event_ids": ["b1/0", "b1/1"], "added": added}
    asked = {"correlation_id": "b1", "event_type": event["event_type"], "limit": "1"}
    page = (await stage.viewer.get("/api/events", params=asked)).json()
    rest = (await stage.viewer.get("/api/events", params={**asked, "cursor": page["cursor"]})).json()
    assert [one["payload"] for one in (*page["items"], *rest["items"])] == [{"items": [1]}, {"items": [0]}]
    assert rest["cursor"] is None
    one = (await stage.viewer.get("/api/events/b1%2F0")).json()
    assert (one["event"]["event_id"], one["consumers"]) == ("b1/0", [])
    resumed = await stage.operator.post(f"/api/handles/{made.json()['id']}/resume")
    assert resumed.json()["status"] == "ready"
    assert (await stage.viewer.get(f"/api/handles/{made.json()['id']}")).json()["event_ids"] == ["b1/0", "b1/1"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/api/events", {"events": []}, 422, "invalid_request"),
        ("POST", "/api/events", {"events": [{"event_type": "x", "aggregate_id": "a"}]}, 422, "invalid_input"),
        ("POST", "/api/events", {"events": [{"event_type": "Shop.Order.Created"}]}, 422, "invalid_request"),
        (
            "POST",
            "/api/events",
            {"events": [{"event_type": "Shop.Order.Created", "aggregate_id": "a", "occurred_at": "soon"}]},
            422,
            "invalid_input",
        ),
        (
            "POST",
            "/api/events",
            {"events": [{"event_type": "Shop.Order.Created", "aggregate_id": "a", "headers": {"a b": "c"}}]},
            422,
            "invalid_input",
        ),
        ("GET", "/api/events?status=old", None, 422, "invalid_request"),
        ("GET", "/api/events?cursor=x", None, 422, "invalid_input"),
        ("GET", "/api/events?limit=201", None, 422, "invalid_request"),
        ("GET", "/api/events/nothing", None, 404, "unknown_event"),
        ("POST", "/api/events/dead/redrive", {}, 422, "invalid_input"),
        ("POST", "/api/events/dead/purge", {"all": True, "consumer": "x"}, 422, "invalid_input"),
        ("POST", "/api/events/dead/purge", {"event_ids": []}, 422, "invalid_request"),
        ("POST", "/api/events/dead/redrive", {"all": True, "expected": 3}, 409, "count_changed"),
        ("POST", "/api/events/replay", {"consumer": "billing", "last": "1h"}, 404, "unknown_consumer"),
        ("POST", "/api/events/replay", {"consumer": "billing"}, 422, "invalid_input"),
        ("POST", "/api/events/replay", {"consumer": "billing", "last": "soon"}, 422, "invalid_input"),
        ("POST", "/api/outbox/retry", {}, 422, "invalid_input"),
        ("GET", "/api/handles/nothing", None, 404, "unknown_handle"),
        ("POST", "/api/handles/nothing/resume", None, 404, "unknown_handle"),
        ("GET", "/api/handles?status=old", None, 422, "invalid_request"),
        ("POST", "/api/handles", {"correlation_id": "c"}, 422, "invalid_request"),
        (
            "POST",
            "/api/handles",
            {
                "correlation_id": "c",
                "expected": ["Shop.Order.Created"],
                "expected_count": 1,
                "task_name": "x",
                "callback": {"kind": "fax"},
            },
            422,
            "invalid_input",
        ),
    ],
)
async def test_bad_input_says_why(stage: Stage, method: str, path: str, body: object, status: int, code: str) -> None:
    check_problem(await stage.operator.request(method, path, json=body), status, code)


async def test_dead_letters_over_http(stage: Stage) -> None:
    database = await stage.app.database()
    await dead_letter(database, "e1")
    await dead_letter(database, "e2", "mail", user_id="u1")
    listed = (await stage.viewer.get("/api/events/dead?limit=1")).json()
    assert listed["items"][0]["message"] == {"event_id": "e2", "payload": 12}
    assert (await stage.viewer.get("/api/events/dead?user=u1")).json()["items"][0]["consumer"] == "mail"
    dry = await stage.operator.post("/api/events/dead/redrive", json={"all": True, "dry_run": True})
    assert dry.json() == {"matched": 2, "changed": 0}
    done = await stage.operator.post("/api/events/dead/redrive", json={"event_ids": ["e1"], "consumer": "billing"})
    assert done.json() == {"matched": 1, "changed": 1}
    groups = (await stage.viewer.get("/api/events/consumers")).json()
    assert [(one["consumer"], one["retrying"], one["dead"]) for one in groups["items"]] == [
        ("billing", 1, 0),
        ("mail", 0, 1),
    ]
    assert groups["retries"][0]["first_event_id"] == "e1"
    done = await stage.operator.post("/api/events/dead/purge", json={"user": "u1"})
    assert done.json() == {"matched": 1, "changed": 1}


async def test_the_outbox_over_http(stage: Stage) -> None:
    ids = await refused(stage.app, "a", "b")
    await published(stage.app, "c")
    figures = (await stage.viewer.get("/api/outbox")).json()
    assert (figures["waiting"], figures["refused"], figures["bus"]) == (1, 2, "local")
    done = await stage.operator.post("/api/outbox/retry", json={"event_ids": [ids[0]], "purge": True})
    assert done.json() == {"matched": 1, "changed": 1}
    done = await stage.operator.post("/api/outbox/retry", json={"all": True})
    assert done.json() == {"matched": 1, "changed": 1}
    assert (await stage.viewer.get("/api/outbox")).json()["waiting"] == 2


# --- on the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    url = f"sqlite:///{tmp_path}/rota.db?synchronous=OFF"
    monkeypatch.setenv("ROTA_STORE", url)
    return url


def behind(url: str, work: Callable[[Rota], Awaitable[T]]) -> T:
    """Do something behind the back of the command line."""

    async def run() -> T:
        async with Rota(url) as app:
            return await work(app)

    return asyncio.run(run())


@pytest.fixture
def rota(store: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def call(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*arguments]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if "--json" in arguments and code == 0 else said.out + said.err

    return call


async def _scene(app: Rota) -> list[str]:
    ids = await refused(app, "x")
    ids += await published(app, "a", correlation_id="c1")
    await dead_letter(await app.database(), ids[1])
    await dead_letter(await app.database(), ids[1], "mail")
    return ids


def test_events_are_listed_and_shown(rota: Callable[..., Any], store: str) -> None:
    assert "No events." in rota("event", "ls")
    assert "No consumers." in rota("event", "consumers")
    refused_id, event_id = behind(store, _scene)
    assert [one["event_id"] for one in rota("event", "ls", "--json")["items"]] == [event_id, refused_id]
    assert rota("event", "ls", "--correlation", "c1", "--status", "new", "--json")["items"][0]["event_id"] == event_id
    shown = rota("event", "show", event_id, "--json")
    assert [one["consumer"] for one in shown["consumers"]] == ["billing", "mail"]
    assert "it broke" in rota("event", "show", event_id)
    assert "No event has the id" in rota("event", "show", "nothing", code=2)
    assert "too large" in rota("outbox", "ls")
    assert rota("outbox", "ls", "--json")["waiting"] == 1
    assert [one["dead"] for one in rota("event", "consumers", "--json")["items"]] == [1, 1]


def test_dead_letters_on_the_command_line(rota: Callable[..., Any], store: str) -> None:
    refused_id, event_id = behind(store, _scene)
    assert [one["consumer"] for one in rota("event", "dlq", "--json")["items"]] == ["mail", "billing"]
    assert "None was named" in rota("event", "redrive", code=2)
    assert "1 dead letter would be redriven." in rota("event", "redrive", "--consumer", "mail", "--dry-run")
    assert "1 dead letter redriven." in rota("event", "redrive", event_id, "--consumer", "mail")
    assert rota("event", "purge", "--all", "--yes", "--json") == {"matching": 1, "purged": 1}
    assert "No dead letters." in rota("event", "dlq")
    assert "Which events?" in rota("outbox", "retry", code=2)
    assert "1 event offered again." in rota("outbox", "retry", refused_id)
    assert "0 events purged." in rota("outbox", "retry", "--all", "--purge", "--yes")


def test_every_command_that_the_page_shows_does_what_its_button_does(rota: Callable[..., Any], store: str) -> None:
    """Pasted into a shell as they are shown, in an order in which each has something to do."""
    refused_id, _ = behind(store, _scene)

    async def found(app: Rota) -> tuple[list[DeadLetter], EventView]:
        reading = EventReading(await app.database())
        event, _ = await reading.event(refused_id)
        assert event is not None
        return (await reading.dead_letters()).items, event

    letters, event = behind(store, found)
    shown = [of_letter(letters[0])[0], of_letter(letters[1])[1], *of_refused(event)]
    for action, done in zip(shown, ("redriven", "purged", "offered again", "purged"), strict=True):
        assert done in rota(*shlex.split(action.command)[1:]), action.command
    for action in (on_all("redrive", 0), on_all("purge", 0)):
        assert "0 dead letters" in rota(*shlex.split(action.command)[1:])
    template = (Path(pages.__file__).parent / "templates" / "events.html").read_text(encoding="utf-8")
    commands = set(re.findall(r'"(rota [a-z ]+)"', template))
    assert len(commands) >= 5
    for command in commands:
        rota(*shlex.split(command)[1:])
    assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|\|\s*safe\b|https?://", template)


def test_replaying_on_the_command_line(rota: Callable[..., Any], store: str) -> None:
    assert "Nothing has been consumed yet." in rota("event", "replay", "--consumer", "x", "--since", "1h", code=2)

    async def scene(app: Rota) -> None:
        await read_up_to(await app.database(), "billing", 0)

    behind(store, scene)
    assert rota("event", "replay", "--consumer", "billing", "--since", "1h", "--json")["topics"] == [TOPIC]
    since = rota("event", "replay", "--consumer", "billing", "--since", "2026-01-31T09:30", "--json")["since"]
    assert since == "2026-01-31T09:30:00.000Z"
    assert "is no moment" in rota("event", "replay", "--consumer", "billing", "--since", "soon", code=2)
    assert "Did you mean 'billing'" in rota("event", "replay", "--consumer", "bill", "--since", "1h", code=2)


def test_handles_on_the_command_line(rota: Callable[..., Any], store: str) -> None:
    assert "No flow waits for events." in rota("handle", "ls")

    async def scene(app: Rota) -> str:
        wanted: dict[str, Any] = {"expected": ["Shop.Order.Created"], "expected_count": 2, "task_name": "orders"}
        return (await an_operator(app).create_handle(correlation_id="c1", **wanted)).id

    handle_id = behind(store, scene)
    assert [one["id"] for one in rota("handle", "ls", "--status", "pending", "--json")["items"]] == [handle_id]
    assert rota("handle", "show", handle_id, "--json")["event_ids"] == []
    assert f"The handle {handle_id} is ready." in rota("handle", "resume", handle_id)

    async def fail(app: Rota) -> None:
        await set_all(await app.database(), handles_table, status="expired")

    behind(store, fail)
    assert "leads nowhere" in rota("handle", "resume", handle_id, code=4)
    assert "No handle has the id" in rota("handle", "show", "nothing", code=2)
