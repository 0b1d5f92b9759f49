"""One instance as a process of its own, with worker, relay, agents and collector: works until it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from rota import Rota
from rota.batches import BatchesPart, Generated, GenerationRequest
from rota.batches.generators.offline import OfflineGenerator
from rota.llm import Throttled


class NotingGenerator(OfflineGenerator):
    """Takes a moment, and notes when it was asked. If it throttles, it does so once, at its third call."""

    def __init__(self, seconds: float, log: Path, *, throttles: bool) -> None:
        super().__init__()
        self._seconds = seconds
        self._log = log
        self._calls_to_no = 3 if throttles else 0

    async def generate(self, request: GenerationRequest) -> Generated:
        self._calls_to_no -= 1
        if self._calls_to_no == 0:
            raise Throttled("Too many.", retry_after=1.0)
        with self._log.open("a") as log:
            log.write(f"{time.time()} {os.getpid()} {request.subtask_id}\n")
        await asyncio.sleep(self._seconds)
        return await super().generate(request)


async def main(configuration: dict[str, Any], seconds: float, log: Path, *, throttles: bool) -> None:
    generator = NotingGenerator(seconds, log, throttles=throttles)
    app = Rota(configuration, parts=[BatchesPart(generator=generator)])
    async with app:
        await app.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        await app.stop()


if __name__ == "__main__":
    config, pause, path, manner = sys.argv[1:]
    asyncio.run(main(json.loads(config), float(pause), Path(path), throttles=manner == "throttling"))
