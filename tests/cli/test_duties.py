"""What runs beside the worker."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from rota.cli.duties import beside
from rota.testing.waiting import until


async def test_a_duty_that_breaks_is_in_the_log_and_the_others_go_on() -> None:
    beats: list[int] = []
    ended: list[str] = []

    async def broken() -> None:
        raise RuntimeError("the moon is full")

    async def steady() -> None:
        try:
            while True:
                beats.append(1)
                await asyncio.sleep(0)
        finally:
            ended.append("steady")

    with capture_logs() as log:
        async with beside([broken, steady]):
            await until(lambda: bool(log) and len(beats) > 10, "one broke and one goes on")

    assert [(line["event"], line["log_level"]) for line in log] == [("duty ended", "error")]
    assert "the moon is full" in str(log[0]["exc_info"])
    assert ended == ["steady"], "whoever leaves the block ends them"
