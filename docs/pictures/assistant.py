"""The application in the pictures: what a chat product does in the background. Its work takes as long as it is told."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any, Final

from rota import Retry, Rota, Run
from rota.agents import AgentSettings, install_agents
from rota.memory import install_memory
from rota.testing import FakeClock

__all__ = ["Invoices", "Pace", "Payments", "assistant"]

log = logging.getLogger("assistant")

RETRY: Final = {"base": "20s", "factor": 2, "max": "2m"}
QUICK: Final = {"base": "100ms", "factor": 1, "max": "100ms"}


class Pace:
    """How long work takes: on a clock that is moved it moves the clock, else it sleeps."""

    def __init__(self, clock: FakeClock | None = None, *, seed: int = 7) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - nobody's secret
        self._clock = clock

    async def work(self, seconds: float) -> None:
        took = seconds * self.chance.lognormvariate(0, 0.5)
        if self._clock is None:
            await asyncio.sleep(took)
        else:
            self._clock.advance(f"{max(1, round(took * 1_000))}ms")


class PaymentError(Exception):
    """The provider has answered, and not with a payment."""


class Payments:
    """A payment provider, which is away at times."""

    def __init__(self) -> None:
        self.is_away = False

    async def charge(self, order: int, cents: int) -> str:
        if self.is_away:
            raise ConnectionError(f"POST /v1/charges for order {order}: no answer within 10 s")
        if cents > 500_00:
            raise PaymentError(f"order {order}: {cents / 100:.2f} EUR is above the limit of this card")
        return f"ch_{order:06}"


class Invoices:
    """Sends invoices, once they are paid."""

    def __init__(self, payments: Payments, pace: Pace) -> None:
        self._payments = payments
        self._pace = pace

    async def send(self, order: int, cents: int, run: Run) -> dict[str, Any]:
        with run.step("charge"):
            await self._pace.work(0.2)
            charge = await self._payments.charge(order, cents)
        with run.step("render"):
            await self._pace.work(0.1)
        with run.step("send"):
            await self._pace.work(0.15)
        log.info("invoice of order %s sent", order)
        return {"order": order, "charge": charge}


def assistant(
    url: str, folder: Path, pace: Pace, payments: Payments, clock: FakeClock | None = None, *, quick: bool = False
) -> Rota:
    """The application on a store. Each worker has one of its own. If it is `quick`, nobody waits for a retry."""
    log.setLevel(logging.INFO)
    retry = QUICK if quick else RETRY
    app = Rota({"store": url, "spool": "off"}, clock=clock, max_concurrent=4 if clock is None else 1)
    install_memory(app)
    install_agents(app, AgentSettings(groups_dir=folder / "groups", isolation="process", uid_base=None))
    invoices = Invoices(payments, pace)

    @app.task(description="Charge an order and send its invoice", max_retries=1, retry=retry)
    async def send_invoice(payload: dict[str, int], run: Run) -> dict[str, Any]:
        log.info("order %s: charging %.2f EUR", payload["order"], payload["cents"] / 100)
        if run.attempt > 1:
            log.warning("order %s: attempt %s", payload["order"], run.attempt)
        return await invoices.send(payload["order"], payload["cents"], run)

    @app.on_activity(after="10m", cooldown="defer", description="Refresh what is known of a user")
    async def profile_refresh(user_id: str) -> str:
        await pace.work(0.4)
        if pace.chance.random() < 0.03:
            raise Retry(after="30s", reason="rate_limited")
        return f"refreshed {user_id}"

    @app.task(description="Put a long conversation into a few sentences", max_retries=1, retry=retry)
    async def summarise(payload: dict[str, Any], run: Run) -> dict[str, int]:
        messages = payload["messages"]
        run.progress({"read": len(messages)})
        await pace.work(0.3)
        return {"words": sum(len(str(message["content"]).split()) for message in messages)}

    @app.every("5m", description="Fetch what is new in calendars", timeout="2m")
    async def sync_calendars(run: Run) -> dict[str, int]:
        with run.step("fetch"):
            await pace.work(0.6)
        return {"events": pace.chance.randint(0, 30)}

    @app.cron("0 9 * * 1-5", timezone="Europe/Berlin", description="What changed since yesterday")
    async def morning_brief() -> None:
        await pace.work(0.5)

    # Batches are a part that is there once it was asked for, and a worker serves what is there when it starts.
    _ = (app.batches, send_invoice, profile_refresh, summarise, sync_calendars, morning_brief)
    return app
