"""Groups and the ledger on both databases: what two instances do at once, what is kept, and what is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from rota.agents.groups import ChannelSettings, Groups
from rota.agents.ledger import RESULTS_KEPT, Ledger, Proposal, Provenance, Result
from rota.database import Database
from rota.errors import InvalidInput, LimitExceeded, RotaError


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Database]:
    url: str = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/x.db"
    opened = Database(url)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


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


def waiting(number: int) -> Provenance:
    proposal = Proposal(kind="create", payload="{}", trigger="{}", digest="d")
    return Provenance(id=f"t{number}", folder="g", made_by="agent:g", depth=1, approval="waiting", proposal=proposal)


async def test_a_wish_is_kept_until_it_is_decided(database: Database) -> None:
    ledger = Ledger(database)
    made = await ledger.add(waiting(1), max_waiting=2)
    assert (await ledger.get(["t1", "t2"])) == {"t1": made}
    await ledger.add(waiting(2), max_waiting=2)
    with pytest.raises(LimitExceeded, match="2 is the most"):
        await ledger.add(waiting(3), max_waiting=2)
    assert [one.id for one in await ledger.waiting("g")] == ["t1", "t2"]
    decided = await ledger.decide("t1", "approved", "ann", "d")
    assert (decided.approval, decided.proposal, decided.decided_by) == ("approved", None, "ann")
    assert (await ledger.decide("t2", "rejected", "ann", "d")).proposal is not None
    assert await ledger.waiting() == []


async def test_a_run_is_shown_and_stopped_by_its_own_token_alone(database: Database) -> None:
    ledger, groups = Ledger(database), Groups(database)
    await groups.add("g")
    await ledger.begin("t1", "g", 7)
    assert await ledger.beat("t1", "g", 7, "x" * 10_000) is None
    (row,) = await ledger.running("g")
    assert (row.token, len(row.output)) == (7, 8_000)
    await ledger.begin("t1", "g", 8)  # the instance of 7 died; its late beat and end change nothing
    assert await ledger.ask_to_stop("t1", "ann")
    assert await ledger.beat("t1", "g", 7, "late") is None
    await ledger.end("t1", 7)
    assert await ledger.beat("t1", "g", 8, "on") == "It was stopped by ann."
    await ledger.end("t1", 8)
    assert not await ledger.ask_to_stop("t1", "ann")
    await groups.switch_off("*", "bob", "enough")
    assert "bob" in (await ledger.beat("t1", "g", 9, "") or "")


async def test_results_are_kept_within_limits_and_failures_are_counted(database: Database) -> None:
    ledger = Ledger(database)
    await ledger.add(Provenance(id="t1", folder="g", made_by="ann"))

    async def record(token: int, status: str, text: str = "x") -> int:
        result = Result(id="t1", folder="g", token=token, at=0, status=status, reason=None, result=text, error=None)
        return await ledger.record(result, f"run {token}")

    assert [await record(n, "error") for n in range(3)] == [1, 2, 3]
    assert await record(3, "success") == 0
    for token in range(4, RESULTS_KEPT + 10):
        await record(token, "success", "a\0b\ud800" * 200_000 if token == 4 else "x")
    kept = await ledger.results("t1", 100)
    assert [one.token for one in kept] == list(range(RESULTS_KEPT + 9, 9, -1))
    assert all(one.at > 0 for one in kept)
    assert (await ledger.get(["t1"]))["t1"].last_result == f"run {RESULTS_KEPT + 9}"
