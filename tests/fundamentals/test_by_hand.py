"""Work that a program asks for: now, later, in order, one at a time."""

from __future__ import annotations

from datetime import UTC, datetime

from rota import Rota
from rota.testing import FakeClock


async def test_a_task_runs_with_its_payload(app: Rota):
    sent: list[object] = []

    @app.task
    async def send_mail(payload: dict[str, str]) -> None:
        sent.append(payload)

    async with app:
        await send_mail.schedule({"to": "ada@example.org"})
        assert await app.run_until_idle() == 1

    assert sent == [{"to": "ada@example.org"}]


async def test_later_is_a_delay_or_a_time(app: Rota, clock: FakeClock):
    @app.task
    async def remind() -> None: ...

    async with app:
        soon = await remind.schedule(delay="10m")
        assert soon.scheduled_at == datetime(2026, 1, 5, 9, 10, tzinfo=UTC)
        at_noon = await remind.schedule(at="2026-01-05T12:00:00Z")
        assert at_noon.scheduled_at == datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

        clock.advance("10m")
        assert await app.run_until_idle() == 1


async def test_the_same_key_is_the_same_task(app: Rota):
    """A key makes asking twice harmless: the task that waits is kept."""

    @app.task
    async def index(payload: str) -> None: ...

    async with app:
        first = await index.schedule("page 1", key="document-7")
        again = await index.schedule("page 1", key="document-7")
        assert (first.outcome, again.outcome) == ("created", "exists")
        assert await app.run_until_idle() == 1


async def test_higher_priority_goes_first(url: str, clock: FakeClock):
    order: list[str] = []
    app = Rota(url, clock=clock, max_concurrent=1)

    @app.task
    async def answer(payload: str) -> None:
        order.append(payload)

    async with app:
        await answer.schedule("newsletter", priority=1)
        await answer.schedule("customer", priority=9)
        await app.run_until_idle()

    assert order == ["customer", "newsletter"]


async def test_one_serial_at_a_time(app: Rota):
    """Tasks that share a serial never run together, though others do."""
    at_work: set[str] = set()
    together: set[str] = set()

    @app.task
    async def agent_turn(payload: str) -> None:
        if payload in at_work:
            together.add(payload)
        at_work.add(payload)
        await app.counts()  # give the others a chance to run
        at_work.discard(payload)

    async with app:
        for group in ("red", "red", "blue", "red", "blue"):
            await agent_turn.schedule(group, serial=group)
        assert await app.run_until_idle() == 5

    assert together == set()
