"""Again and again: every so often, or when the clock on the wall says so."""

from __future__ import annotations

from datetime import UTC, datetime

from rota import Rota
from rota.testing import FakeClock


async def test_every_runs_at_once_and_then_on_its_grid(app: Rota, clock: FakeClock):
    """The first run comes when the type is first declared, the next ones a day apart."""
    runs: list[datetime] = []

    @app.every("24h")
    async def data_cleanup() -> None:
        runs.append(datetime.fromtimestamp(clock.now() / 1000, UTC))

    async with app:
        assert await app.run_until_idle() == 1
        clock.advance("23h")
        assert await app.run_until_idle() == 0
        clock.advance("1h")
        assert await app.run_until_idle() == 1

    assert runs == [datetime(2026, 1, 5, 9, tzinfo=UTC), datetime(2026, 1, 6, 9, tzinfo=UTC)]


async def test_a_restart_fires_nothing_again(url: str, clock: FakeClock):
    """The series lives in the store: a process that comes back finds it where it was."""
    runs: list[str] = []

    def program() -> Rota:
        app = Rota(url, clock=clock)

        @app.every("24h")
        async def data_cleanup() -> None:
            runs.append("cleanup")

        return app

    await program().run_until_idle()
    clock.advance("1h")
    await program().run_until_idle()

    assert runs == ["cleanup"]


async def test_run_on_start_false_waits_one_interval(app: Rota, clock: FakeClock):
    @app.every("1h", run_on_start=False)
    async def statistics_update() -> None: ...

    async with app:
        assert await app.run_until_idle() == 0
        clock.advance("1h")
        assert await app.run_until_idle() == 1


async def test_cron_goes_by_the_wall_clock_of_its_zone(app: Rota, clock: FakeClock):
    """Nine o'clock in Shanghai is one o'clock in London, on weekdays."""

    @app.cron("0 9 * * 1-5", timezone="Asia/Shanghai")
    async def morning_report() -> None: ...

    async with app:
        task = await app.tasks.get("morning_report")
        assert task is not None
        assert task.next_fire == datetime(2026, 1, 6, 1, 0, tzinfo=UTC)

        clock.set(datetime(2026, 1, 6, 1, 0, tzinfo=UTC))
        assert await app.run_until_idle() == 1


async def test_missed_fires_are_one_run_and_one_row(app: Rota, clock: FakeClock):
    """After a night without a worker the latest fire runs, and the log says what became of the others."""

    @app.every("1h", run_on_start=False)
    async def statistics_update() -> None: ...

    async with app:
        clock.advance("10h")
        assert await app.run_until_idle() == 1
        ran, missed = (await app.runs("statistics_update")).items

    assert ran.status == "success"
    assert (missed.status, missed.fires) == ("coalesced", 9)


async def test_one_type_comes_after_another(app: Rota, clock: FakeClock):
    """When a user's memory is compressed, that user's profile is updated."""
    order: list[str] = []

    @app.on_activity(after="30m")
    async def memory_compression(user_id: str) -> None:
        order.append(f"compressed {user_id}")

    @app.after("memory_compression")
    async def profile_update(user_id: str) -> None:
        order.append(f"updated {user_id}")

    async with app:
        await memory_compression.touch(user_id="u1")
        clock.advance("30m")
        assert await app.run_until_idle() == 2

    assert order == ["compressed u1", "updated u1"]
