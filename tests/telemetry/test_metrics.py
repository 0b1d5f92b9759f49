"""Metrics: valid text, bounded labels, figures that agree with what ran, and no scrape that fails with the store."""

from __future__ import annotations

import asyncio

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rota import Rota
from rota.core.task import NewTask, Task, TaskStatus
from rota.core.task_type import TaskType
from rota.runtime import Snooze
from rota.stores.memory import MemoryStore
from rota.telemetry import Metrics
from rota.telemetry.metrics import MAX_TYPES
from rota.testing import FakeClock
from rota.testing.faulty import FaultyStore
from rota.testing.waiting import until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(metrics: Metrics) -> Samples:
    content_type, text = await metrics.render()
    assert content_type.startswith("text/plain")
    families: list[Metric] = list(text_string_to_metric_families(text.decode()))
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    assert all(family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


async def test_what_ran_is_what_is_shown(clock: FakeClock) -> None:
    app = Rota("memory://", clock=clock)

    @app.on_activity(after="0s", max_retries=0)
    async def work(user_id: str) -> bool | Snooze:
        return Snooze("1h") if user_id == "snoozy" else user_id != "bad"

    async with app:
        for user in ("a", "a", "b", "bad", "snoozy"):
            await work.touch(user_id=user)
        clock.advance("3s")
        await app.run_until_idle()
        samples = await scrape(Metrics(app, clock=clock))
    assert value(samples, "rota_runs_total", type="work", status="success", reason="") == 2
    assert value(samples, "rota_runs_total", type="work", status="error", reason="error") == 1
    assert value(samples, "rota_runs_total", type="work", status="skipped", reason="snoozed") == 1
    assert value(samples, "rota_run_duration_seconds_count", type="work") == 3
    assert value(samples, "rota_lateness_seconds_count", type="work") == 3
    assert value(samples, "rota_lateness_seconds_bucket", type="work", le="2.0") == 0
    assert value(samples, "rota_lateness_seconds_bucket", type="work", le="5.0") == 3
    assert value(samples, "rota_lateness_seconds_sum", type="work") == 9.0
    assert value(samples, "rota_touches_total", type="work", outcome="created") == 4
    assert value(samples, "rota_touches_total", type="work", outcome="coalesced") == 1
    assert value(samples, "rota_coalesced_ratio", type="work") == 0.2
    assert value(samples, "rota_queue_depth", type="work", state="pending") == 1
    assert value(samples, "rota_queue_depth", type="work", state="failed") == 1
    assert value(samples, "rota_claimed_tasks_total") == 4
    assert value(samples, "rota_store_up") == 1
    assert value(samples, "rota_running") == 0


async def test_the_oldest_pending_is_counted_from_its_due_time(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    async with Rota("memory://", clock=clock, store=store) as app:
        await store.put_types([TaskType(name="work")])
        await store.schedule([NewTask(task_type="work", key="k", scheduled_at=clock.now() + 10_000)])
        metrics = Metrics(app, clock=clock)
        assert value(await scrape(metrics), "rota_oldest_pending_seconds", type="work") == 0
        clock.advance("70s")
        assert value(await scrape(metrics), "rota_oldest_pending_seconds", type="work") == 60


async def test_loops_and_instances_of_a_worker_at_work() -> None:
    app = Rota("memory://")

    @app.on_activity(after="0s")
    async def work() -> None: ...

    async with app:
        await app.start()
        await until(lambda: app.health().ok)
        await until(app.instances)
        samples = await scrape(Metrics(app))
        assert value(samples, "rota_ready") == 1
        assert value(samples, "rota_instances") == 1
        assert value(samples, "rota_tick_age_seconds", loop="sweeper") < 60
        await app.stop(timeout=0)


async def test_types_beyond_the_limit_are_one_and_keep_their_places(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    async with Rota("memory://", clock=clock, store=store) as app:
        names = [f"type_{number:03}" for number in range(MAX_TYPES + 50)]
        await store.put_types([TaskType(name=name) for name in names])
        await store.schedule([NewTask(task_type=name, key="k") for name in names])
        metrics = Metrics(app, clock=clock)
        for _ in range(2):
            samples = await scrape(metrics)
            labels = {dict(found)["type"] for name, found in samples if name == "rota_queue_depth"}
            assert len(labels) == MAX_TYPES + 1
            assert value(samples, "rota_queue_depth", type="other", state="pending") == 50
            clock.advance("10s")
        for name in names:
            app.host.stats.touches[name]["created"] += 1
        samples = await scrape(metrics)
        assert value(samples, "rota_touches_total", type="other", outcome="created") == 50
        assert value(samples, "rota_touches_total", type="type_000", outcome="created") == 1


async def test_ten_thousand_types_make_no_more_series_than_a_hundred_and_one(clock: FakeClock) -> None:
    async with Rota("memory://", clock=clock) as app:
        for name in (f"type_{number}" for number in range(10_000)):
            app.host.stats.touches[name]["created"] += 1
            app.host.stats.reaped(a_task(name), clock.now())
        samples = await scrape(Metrics(app, clock=clock))
    labels = {dict(found).get("type") for _, found in samples} - {None}
    assert len(labels) == MAX_TYPES + 1
    assert value(samples, "rota_runs_total", type="other", status="lost", reason="lost") == 10_000 - MAX_TYPES
    assert value(samples, "rota_touches_total", type="other", outcome="created") == 10_000 - MAX_TYPES
    per_type = len([name for name, found in samples if dict(found).get("type") == "other"])
    assert len(samples) <= (MAX_TYPES + 1) * per_type + 50


def a_task(name: str) -> Task:
    return Task(name, "k", TaskStatus.PENDING, 0, 0, 0)


async def test_no_key_and_no_user_ever_appears(clock: FakeClock) -> None:
    app = Rota("memory://", clock=clock)

    @app.on_activity(after="0s", max_retries=0)
    async def work(user_id: str) -> None:
        raise ValueError(user_id)

    async with app:
        await work.touch(user_id="ada-lovelace")
        await app.run_until_idle()
        _, text = await Metrics(app, clock=clock).render()
    assert b"ada" not in text


async def test_a_store_that_is_away_does_not_fail_the_scrape(clock: FakeClock) -> None:
    faulty = FaultyStore(MemoryStore(clock))
    async with Rota("memory://", clock=clock, store=faulty) as app:
        metrics = Metrics(app, clock=clock)
        assert value(await scrape(metrics), "rota_store_up") == 1
        with faulty.down():
            clock.advance("6s")
            samples = await scrape(metrics)
            assert value(samples, "rota_store_up") == 0
            assert not any(name == "rota_instances" for name, _ in samples)
        clock.advance("6s")
        assert value(await scrape(metrics), "rota_store_up") == 1


async def test_the_store_is_asked_at_most_once_in_five_seconds(clock: FakeClock) -> None:
    faulty = FaultyStore(MemoryStore(clock))
    async with Rota("memory://", clock=clock, store=faulty) as app:
        metrics = Metrics(app, clock=clock)
        await asyncio.gather(*(metrics.render() for _ in range(20)))
        assert faulty.calls["counts"] == 1
        clock.advance("4s")
        await metrics.render()
        assert faulty.calls["counts"] == 1
        clock.advance("1s")
        await metrics.render()
        assert faulty.calls["counts"] == 2


async def test_an_app_that_is_not_connected_can_be_scraped() -> None:
    samples = await scrape(Metrics(Rota("memory://")))
    assert value(samples, "rota_store_up") == 0


async def test_two_instances_in_one_process_have_registries_of_their_own(clock: FakeClock) -> None:
    async with Rota("memory://", clock=clock) as one, Rota("memory://", clock=clock) as other:
        one.host.stats.touches["work"]["created"] += 1
        samples = await scrape(Metrics(one, clock=clock)), await scrape(Metrics(other, clock=clock))
    assert value(samples[0], "rota_touches_total", type="work", outcome="created") == 1
    assert not any(name == "rota_touches_total" for name, _ in samples[1])
