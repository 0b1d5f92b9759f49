"""A program whose worker is a process of its own: what its handler does next, a test says by files that it makes."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from rota import Rota, Run
from rota.testing.waiting import until

log = logging.getLogger("shop")

app = Rota(spool="off")


class PaymentError(Exception):
    """The bank says no."""


@app.task(max_retries=1, retry={"base": "100ms", "factor": 1, "max": "100ms"})
async def charge_card(payload: dict[str, str], run: Run) -> str:
    folder = Path(os.environ["SHOP_FOLDER"])
    with run.step("look up"):
        log.warning("charging %s with api_key=%s", payload["card"], "sk-live-0123456789abcdef")
        print(f"attempt {run.attempt} has begun")  # noqa: T201 - what is printed is shown, too
        run.progress({"looked_up": payload["card"]})
        await until((folder / f"looked-up-{run.attempt}").exists, "the test lets it go on")
    with run.step("charge"):
        await asyncio.sleep(0.01)
        log.warning("the bank was asked")
        await until((folder / f"asked-{run.attempt}").exists, "the test lets it go on")
        if payload["card"] == "declined":
            raise PaymentError(f"card was declined, api_key={'sk-live-0123456789abcdef'}")
    return "paid"
