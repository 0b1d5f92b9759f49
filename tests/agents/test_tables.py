"""Groups, origins and runs on both databases: what is done at once, what is kept, what is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest
from tests.opening import opened

from rota.agents.groups import ChannelSettings, Groups
from rota.agents.runs.run_store import RESULTS_KEPT, RunEnd, RunOutput, RunStart, RunStore
from rota.agents.schedules.agent_task import Origin, Proposal
from rota.agents.schedules.origins import Origins
from rota.database import Database
from rota.database.tables.agents import running
from rota.errors import InvalidInput, LeaseLost, LimitExceeded, RotaError


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    url: str = request.getfixturevalue(f"{request.param}_url")
    async with opened(Database(url)) as database:
        yield database


async def test_groups_that_are_added_at_once_have_numbers_of_their_own(database: Database) -> None:
    groups = Groups(database)
    await asyncio.gather(*(groups.add(f"g{n}") for n in range(6)))
    assert sorted(group.number for group in await groups.list()) == [1, 2, 3, 4, 5, 6]
    both = await asyncio.gather(*(groups.add(f"m{n}", is_main=True) for n in range(4)), return_exceptions=True)
    assert sum(not isinstance(one, RotaError) for one in both) == 1
    assert [group.is_main for group in await groups.list()].count(True) == 1


async def test_sessions_and_switches_are_set_at_once_without_harm(database: Database) -> None:
    groups = Groups(database)
    await groups.add("g")
    await asyncio.gather(*(groups.save_session("g", f"s{n}") for n in range(5)))
    assert (await groups.session("g") or "").startswith("s")
    thrown = await asyncio.gather(*(groups.switch_off("g", f"p{n}", "x") for n in range(5)))
    assert len(await groups.switches()) == 1
    assert (await groups.switch_over("g")) in thrown
    await groups.remove("g")
    assert await groups.session("g") is None


async def test_channels_are_checked_and_their_secrets_stay(database: Database) -> None:
    groups = Groups(database)
    hook = ChannelSettings(kind="webhook", url="https://example.org/hook", secret="hunter2")
    group = await groups.add("g", channels=[hook])
    assert (await groups.get("g")).channels == (hook,)
    assert "hunter2" not in str(group.to_dict())
    for url in (None, "http://169.254.169.254/", "https://127.0.0.1/", "file:///etc/passwd"):
        with pytest.raises(RotaError):
            await groups.add("h", channels=[ChannelSettings(kind="webhook", url=url)])
    with pytest.raises(InvalidInput, match="8 is the most"):
        await groups.add("h", channels=[hook] * 9)


def waiting(number: int) -> Origin:
    proposal = Proposal(kind="create", payload="{}", trigger="{}", digest="d")
    return Origin(id=f"t{number}", folder="g", made_by="agent:g", depth=1, approval="waiting", proposal=proposal)


async def test_a_wish_is_kept_until_it_is_decided(database: Database) -> None:
    origins = Origins(database)
    made = await origins.add(waiting(1), max_waiting=2)
    assert (await origins.get(["t1", "t2"])) == {"t1": made}
    await origins.add(waiting(2), max_waiting=2)
    with pytest.raises(LimitExceeded, match="2 is the most"):
        await origins.add(waiting(3), max_waiting=2)
    assert [one.id for one in await origins.waiting("g")] == ["t1", "t2"]
    decided = await origins.decide(made, "approved", "ann", "d")
    assert decided is not None
    assert (decided.approval, decided.proposal, decided.decided_by) == ("approved", None, "ann")
    assert (await origins.get(["t1"])) == {"t1": decided}
    assert await origins.decide(made, "rejected", "bob", "d") is None, "it was decided on already"
    second = (await origins.get(["t2"]))["t2"]
    other = Proposal(kind="create", payload="{}", trigger="{}", digest="another")
    unseen = msgspec.structs.replace(second, proposal=other)
    assert await origins.decide(unseen, "approved", "ann", "d") is None, "not what waits"
    rejected = await origins.decide(second, "rejected", "ann", "d")
    assert rejected is not None
    assert rejected.proposal is not None
    assert await origins.waiting() == []


async def test_many_who_ask_at_once_share_the_places_that_are_left(database: Database) -> None:
    origins = Origins(database)
    asked = (origins.add(waiting(number), max_waiting=5) for number in range(20))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, LimitExceeded) for answer in answers) == 15
    assert len(await origins.waiting("g")) == 5


async def test_one_of_those_who_decide_at_once_has_decided(database: Database) -> None:
    origins = Origins(database)
    made = await origins.add(waiting(1))
    answers = await asyncio.gather(
        *(origins.decide(made, "rejected" if n % 2 else "approved", f"p{n}", "d") for n in range(8))
    )
    (won,) = [answer for answer in answers if answer is not None]
    assert (await origins.get(["t1"]))["t1"] == won


def said(token: int, text: str = "", schedule_id: str = "t1") -> RunOutput:
    return RunOutput(id=schedule_id, folder="g", token=token, text=text)


def begun(token: int, schedule_id: str = "t1") -> RunStart:
    return RunStart(id=schedule_id, folder="g", token=token)


async def test_a_run_is_shown_and_stopped_by_its_own_token_alone(database: Database) -> None:
    groups, runs = Groups(database), RunStore(database)
    await groups.add("g")
    assert await runs.start(begun(7)) is None
    assert (await runs.heartbeat(said(7, "x" * 10_000))).stop is None
    (row,) = await runs.running("g")
    assert (row.token, len(row.output)) == (7, 8_000)
    await runs.start(begun(8))  # the instance of 7 died; its late beat and end change nothing
    assert not await runs.ask_to_stop("t1", 7, "ann")
    assert await runs.ask_to_stop("t1", 8, "ann")
    with pytest.raises(LeaseLost, match="taken over"):
        await runs.heartbeat(said(7, "late"))
    await runs.remove("t1", 7)
    assert (await runs.heartbeat(said(8, "on"))).stop == "It was stopped by ann."
    await runs.remove("t1", 8)
    assert not await runs.ask_to_stop("t1", 8, "ann")


async def test_a_run_that_was_held_up_does_not_begin_in_the_place_of_its_successor(database: Database) -> None:
    runs = RunStore(database)
    await runs.start(begun(8))
    with pytest.raises(LeaseLost, match="before it had begun"):
        await runs.start(begun(7))
    assert (await runs.heartbeat(said(8))).stop is None
    assert (await runs.finish(ended(8))).failures == 0


async def test_what_a_dead_instance_has_left_on_the_list_holds_up_nobody(database: Database) -> None:
    """Also if its token is the greater one: the tasks may have moved to another store since, which counts anew."""
    runs = RunStore(database)
    await runs.start(begun(8))
    await database.write(
        lambda connection: connection.execute(running.update().values(seen_at=running.c.seen_at - 60_000))
    )
    assert await runs.start(begun(7)) is None
    assert (await runs.heartbeat(said(7))).stop is None


async def test_a_thrown_switch_lets_nothing_begin_and_ends_what_runs(database: Database) -> None:
    groups, runs = Groups(database), RunStore(database)
    await groups.add("g")
    await runs.start(begun(1))
    thrown = await groups.switch_off("*", "bob", "enough")
    assert "bob" in ((await runs.heartbeat(said(1))).stop or "")
    assert await runs.start(begun(2, "t2")) == thrown
    assert [row.id for row in await runs.running()] == ["t1"]


def ended(token: int, status: str | None = "success", text: str = "x", session: str | None = None) -> RunEnd:
    return RunEnd(id="t1", folder="g", token=token, summary=f"run {token}", status=status, result=text, session=session)


async def test_results_are_kept_within_limits_and_failures_are_counted(database: Database) -> None:
    origins, runs = Origins(database), RunStore(database)
    await origins.add(Origin(id="t1", folder="g", made_by="ann"))

    async def record(token: int, status: str | None, text: str = "x") -> int:
        await runs.start(begun(token))
        return (await runs.finish(ended(token, status, text))).failures

    assert [await record(n, "error") for n in range(3)] == [1, 2, 3]
    assert await record(3, None) == 3, "a run that woke nobody counts as neither"
    assert await record(4, "success") == 0
    for token in range(5, RESULTS_KEPT + 10):
        await record(token, "success", "a\0b\ud800" * 200_000 if token == 5 else "x")
    kept = await runs.results("t1", 100)
    assert [one.token for one in kept] == list(range(RESULTS_KEPT + 9, 9, -1))
    assert all(one.at > 0 for one in kept)
    assert (await origins.get(["t1"]))["t1"].last_result == f"run {RESULTS_KEPT + 9}"
    assert await runs.running() == []


async def test_the_same_end_twice_is_one_and_that_of_an_old_run_is_none(database: Database) -> None:
    origins, groups, runs = Origins(database), Groups(database), RunStore(database)
    await origins.add(Origin(id="t1", folder="g", made_by="ann"))
    await runs.start(begun(1))
    assert [(await runs.finish(ended(1, "error", session="s1"))).failures for _ in range(3)] == [1, 1, 1]
    await runs.start(begun(2))
    await runs.start(begun(3))  # 2 was taken over
    with pytest.raises(LeaseLost, match="not kept"):
        await runs.finish(ended(2, "success", session="stale"))
    assert (await origins.get(["t1"]))["t1"].failures == 1
    assert await groups.session("g") == "s1"
    await runs.finish(ended(3, "success", session="s3"))
    await runs.start(begun(4))
    assert [(await runs.finish(ended(4, None))).failures for _ in range(2)] == [0, 0], "also if nobody was woken"
    with pytest.raises(LeaseLost, match="not kept"):
        await runs.finish(ended(5))
    assert (await groups.session("g"), [one.token for one in await runs.results("t1")]) == ("s3", [3, 1])


async def test_runs_that_come_at_once_share_a_transaction_but_no_trouble(database: Database) -> None:
    origins, groups, runs = Origins(database), Groups(database), RunStore(database)
    await groups.add("main", is_main=True)
    await groups.add("g", timezone="Asia/Tokyo")
    await origins.add(waiting(0))
    made = [Origin(id=f"s{n}", folder="g", made_by="code", digest=f"d{n}") for n in range(40)]
    for n, origin in enumerate(made):
        assert (await runs.start(RunStart(id=origin.id, folder="g", token=n, origin=origin))) is None
    contexts = await asyncio.gather(*(runs.context(one.id, "g") for one in made), runs.context("t0", "main"))
    assert [one.origin.digest for one in contexts[:-1] if one.origin] == [one.digest for one in made]
    assert all(one.zones == {"g": "Asia/Tokyo"} and [w.id for w in one.waiting] == ["t0"] for one in contexts[:-1])
    assert set(contexts[-1].zones) == {"main", "g"}
    assert (await runs.context("s1", "nobody")).group is None
    ends = [RunEnd(id=f"s{n}", folder="g", token=n if n != 7 else 99, summary="x", status="success") for n in range(40)]
    answers = await asyncio.gather(*(runs.finish(end) for end in ends), return_exceptions=True)
    assert [n for n, answer in enumerate(answers) if isinstance(answer, Exception)] == [7]
    assert [row.id for row in await runs.running()] == ["s7"]


async def test_a_run_that_is_ended_twice_at_once_is_kept_once(database: Database) -> None:
    origins, runs = Origins(database), RunStore(database)
    await origins.add(Origin(id="t1", folder="g", made_by="ann"))
    await runs.start(begun(1))
    await runs.start(begun(2, "t2"))
    other = RunEnd(id="t2", folder="g", token=2, summary="x", status="error", error="no")
    answers = await asyncio.gather(
        runs.finish(other), *(runs.finish(ended(1, "error")) for _ in range(3)), runs.finish(other)
    )
    assert [answer.failures for answer in answers] == [0, 1, 1, 1, 0], "what has no origin is not counted"
    assert [len(await runs.results(name)) for name in ("t1", "t2")] == [1, 1]
    assert await runs.running() == []
