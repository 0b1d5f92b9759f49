"""Judgements that every face shows: each has one answer, and every face gives it."""

from __future__ import annotations

import msgspec
import pytest
from tests.api.stage import staged

from rota.app.overview import overview
from rota.app.views import (
    SWITCHES,
    alive,
    filters_of,
    is_alive,
    is_filtered,
    off_by,
    state_of,
    state_words,
    task_query,
)
from rota.clock import SECOND
from rota.core.history import REASONS, SET_ASIDE, add, failed_in, of_run, set_aside_in
from rota.core.liveness import GRACE_MS
from rota.core.task import TaskStatus
from rota.core.task_type import TaskType
from rota.errors import InvalidInput
from rota.stores.base import Beat, Instance, Overrides, TaskQuery, TypeRecord
from rota.stores.memory import MemoryStore
from rota.telemetry.metrics import Metrics
from rota.testing import FakeClock

LEASE = 10 * SECOND


def an_instance(name: str = "i", *types: str, seen_at: int = 0) -> Instance:
    return Instance(beat=Beat(instance=name, types=types, lease_ms=LEASE), seen_at=seen_at)


@pytest.mark.parametrize(
    ("silent", "lives"), [(0, True), (LEASE, True), (LEASE + GRACE_MS, True), (LEASE + GRACE_MS + 1, False)]
)
def test_who_is_silent_for_longer_than_the_lease_and_a_few_seconds_is_presumed_dead(silent: int, lives: bool) -> None:
    assert is_alive(an_instance(), silent) is lives
    assert is_alive(an_instance(seen_at=1_000), 0), "the store's clock may be behind what it was"


def test_those_alive_of_a_type_can_run_it() -> None:
    known = [an_instance("one", "work"), an_instance("two", "rest"), an_instance("dead", "work", seen_at=-3_600_000)]
    assert [each.beat.instance for each in alive(known, 0)] == ["one", "two"]
    assert [each.beat.instance for each in alive(known, 0, "work")] == ["one"]


async def test_every_face_says_the_same_of_an_instance(clock: FakeClock) -> None:
    """Between the lease and its grace the command line called it lost; and metrics, the live feed and the list of a
    type's instances counted those that had been dead for hours."""
    async with staged("memory://", store=MemoryStore(clock)) as stage:
        store = await stage.app.store()
        await store.tick(Beat(instance="one", types=("job",), lease_ms=LEASE))
        for wait, lives in (("12s", True), ("1m", False)):
            clock.advance(wait)
            (listed,) = (await stage.viewer.get("/api/instances")).json()["items"]
            (queue,) = [q for q in (await stage.viewer.get("/api/queues")).json()["items"] if q["task_type"] == "job"]
            (shown,) = (await overview(stage.app)).instances
            of_type = (await stage.viewer.get("/api/types/job")).json()["instances"]
            metrics = (await Metrics(stage.app).render())[1].decode()
            assert listed["is_alive"] is lives
            assert shown.is_silent is not lives
            assert queue["handlers"] == int(lives)
            assert of_type == (["one"] if lives else [])
            assert (await stage.service.look()).instances == int(lives)
            assert f"rota_instances {float(lives)}" in metrics


@pytest.mark.parametrize(
    ("configured", "overrides", "state", "words"),
    [
        (True, Overrides(), "on", "on"),
        (True, Overrides(enabled=False), "off", "off (operator)"),
        (False, Overrides(), "off", "off (config)"),
        (False, Overrides(enabled=False, frozen=True), "off", "off (config)"),
        (True, Overrides(frozen=True), "frozen", "frozen"),
        (True, Overrides(draining=True), "draining", "draining"),
        (True, Overrides(frozen=True, draining=True), "frozen", "frozen and draining"),
    ],
)
def test_how_a_type_stands(configured: bool, overrides: Overrides, state: str, words: str) -> None:
    record = TypeRecord(TaskType(name="work", enabled=configured), overrides)
    assert (state_of(record), state_words(record)) == (state, words)
    assert (off_by(record) is None) == (state != "off")


def test_every_switch_is_taken_back_by_another() -> None:
    for verb, back in (("disable", "enable"), ("freeze", "thaw"), ("drain", "thaw")):
        both = {**SWITCHES[verb], **SWITCHES[back]}
        assert state_of(TypeRecord(TaskType(name="work"), msgspec.convert(both, Overrides))) == "on"
        assert state_of(TypeRecord(TaskType(name="work"), msgspec.convert(SWITCHES[verb], Overrides))) != "on"


def test_what_somebody_wanted_so_is_no_failure() -> None:
    assert SET_ASIDE < REASONS
    (piece,) = add(of_run("work", "cron", 0, reason=reason, late_ms=None, took_ms=1) for reason in (*REASONS, None))
    assert failed_in(piece) == len({"error", "timeout", "lost", "poison", "other"})
    assert (set_aside_in(piece), piece.success) == (len(SET_ASIDE), 1)
    assert failed_in(piece) + set_aside_in(piece) + piece.success == piece.runs


def test_a_filter_means_the_same_wherever_it_is_written() -> None:
    query = task_query(type="work", status="failed", without=TaskStatus.PAUSED, user="u", owner="o", search="s")
    assert query == TaskQuery(
        task_type="work", status=TaskStatus.FAILED, without=TaskStatus.PAUSED, user_id="u", owner="o", search="s"
    )
    assert task_query(**filters_of(query)) == query  # pyright: ignore[reportArgumentType] -- all of them are texts
    assert is_filtered(query)
    assert is_filtered(task_query(schedules=True))
    assert not is_filtered(task_query(cursor="c", limit=3))
    with pytest.raises(InvalidInput, match="Did you mean 'failed'"):
        task_query(status="faild")
