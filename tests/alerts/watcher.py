"""One instance in a process of its own that looks at the rules until it is killed: `watcher.py STORE WEBHOOK HOLD`.

HOLD is for how many milliseconds a notice is its courier's.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from rota import Rota
from rota.alerts import AlertDuty, duty
from rota.clock import SystemClock
from rota.testing.waiting import PATIENCE
from rota.webhooks import Webhooks


async def main(store_url: str, webhook_url: str) -> None:
    app = Rota(
        {
            "store": store_url,
            "spool": "off",
            "webhooks": {"allow_private": True, "allow_http": True},
            "alerts": {
                "check_interval": "1s",
                "defaults": False,
                "sinks": {"there": {"webhook": webhook_url}},
                "rules": {"dead": {"kind": "dead_letters", "for": "0s", "to": ["there"]}},
            },
        }
    )
    async with app:
        await AlertDuty(await app.store(), await app.database(), app.config, clock=SystemClock()).run()


if __name__ == "__main__":
    store_url, webhook_url, hold_ms = sys.argv[1:]
    duty.HOLD_MS = int(hold_ms)  # pyright: ignore[reportAttributeAccessIssue] -- final everywhere else
    # A call that is given up is made again; a busy machine must not be the reason.
    duty.Webhooks = partial(Webhooks, timeout=PATIENCE)  # pyright: ignore[reportAttributeAccessIssue] -- a class everywhere else
    asyncio.run(main(store_url, webhook_url))
