"""`python -m bench.peers.cron_rate croniter|apscheduler`: next fires a second, as one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bench.peers.cron_expressions import COUNT, NOW, ZONE, expressions

SAMPLE = COUNT // 10
"""Of the same mixture: these libraries are slower, and a rate is a rate."""


def _croniter(now: datetime) -> list[Callable[[], Any]]:
    from croniter import croniter

    made = [croniter(expression, now) for expression in expressions(SAMPLE)]
    return [lambda one=one: one.get_next(datetime, start_time=now) for one in made]


def _apscheduler(now: datetime) -> list[Callable[[], Any]]:
    from apscheduler.triggers.cron import CronTrigger

    made = [CronTrigger.from_crontab(expression, timezone=ZONE) for expression in expressions(SAMPLE)]
    return [lambda one=one: one.get_next_fire_time(None, now) for one in made]


def main(library: str) -> None:
    calls = {"croniter": _croniter, "apscheduler": _apscheduler}[library](NOW.astimezone(ZoneInfo(ZONE)))
    started = time.perf_counter()
    for call in calls:
        assert call() is not None
    print(json.dumps({"rate": len(calls) / (time.perf_counter() - started)}))


if __name__ == "__main__":
    main(sys.argv[1])
