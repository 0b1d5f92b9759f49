"""The app that chaos workers run: every run tells the oracle before and after."""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path

from chaos import oracle
from chaos.names import STORM_TYPES
from rota import Rota, Run

LOG = Path(os.environ["CHAOS_LOG"])
LEASE = os.environ.get("CHAOS_LEASE", "10s")

app = Rota({"store": os.environ["CHAOS_STORE"], "lease": LEASE})


@app.task(timeout="5m", max_retries=3)
async def note(run: Run) -> None:
    """Done at once."""
    oracle.write(LOG, "start", run.key, run.token)
    oracle.write(LOG, "end", run.key, run.token)


@app.task(timeout="5m", max_retries=3)
async def hold(run: Run) -> None:
    """Hangs on its first attempt, so that somebody can be killed in the middle of it; then done at once."""
    oracle.write(LOG, "start", run.key, run.token)
    if run.attempt == 1:
        await asyncio.sleep(120)
    oracle.write(LOG, "end", run.key, run.token)


async def storm(run: Run) -> None:
    """1 to 50 ms of work, by its key: long enough to be killed in the middle of it."""
    oracle.write(LOG, "start", run.key, run.token)
    await asyncio.sleep(zlib.crc32(run.key.encode()) % 50 / 1_000 + 0.001)
    oracle.write(LOG, "end", run.key, run.token)


for name in STORM_TYPES:
    app.task(name=name, timeout="5m", max_retries=3)(storm)
