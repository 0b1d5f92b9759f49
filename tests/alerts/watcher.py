"""One instance in a process of its own that looks at the rules until it is killed: `watcher.py STORE WEBHOOK`."""

from __future__ import annotations

import asyncio
import sys

from rota import Rota
from rota.alerts import AlertDuty, duty
from rota.clock import SystemClock


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
    # What a dead courier holds is free again sooner than in earnest, so that the test need not wait for half a minute.
    duty.HOLD_MS = 1_500  # pyright: ignore[reportAttributeAccessIssue] -- final everywhere else
    asyncio.run(main(*sys.argv[1:]))
