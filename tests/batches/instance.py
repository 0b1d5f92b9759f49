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


class NotingGenerator(OfflineGenerator):
    """Takes a moment, and notes when it was asked."""

    def __init__(self, seconds: float, log: Path) -> None:
        super().__init__()
        self._seconds = seconds
        self._log = log

    async def generate(self, request: GenerationRequest) -> Generated:
        with self._log.open("a") as log:
            log.write(f"{time.time()} {os.getpid()} {request.subtask_id}\n")
        await asyncio.sleep(self._seconds)
        return await super().generate(request)


async def main(configuration: dict[str, Any], seconds: float, log: Path) -> None:
    app = Rota(configuration, parts=[BatchesPart(generator=NotingGenerator(seconds, log))])
    async with app:
        await app.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        await app.stop()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])))
