"""One instance as a process of its own, with the configuration that it is given: works until its stdin is closed."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from rota import Rota
from rota.memory import install_memory


async def main(configuration: dict[str, Any]) -> None:
    app = Rota(configuration)
    install_memory(app)
    async with app:
        await app.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
