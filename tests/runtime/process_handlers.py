"""Handlers that run in a process of their own, and so must stand in a module that a process can import."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

from rota.runtime import Retry, Run


def echo(user_id: str, payload: object) -> dict[str, object]:
    print("what a handler prints is not its answer")  # noqa: T201  # that is what is tried
    return {"user_id": user_id, "payload": payload, "is_own_process": os.getpid() != os.getppid()}


async def awaited(user_id: str) -> str:
    await asyncio.sleep(0)
    return f"awaited {user_id}"


def by_position(user_id: str, device_id: str, agent_id: str) -> str:
    return f"{user_id} {device_id} {agent_id}"


def fails() -> None:
    raise ValueError("broken in the child")


def asks_for_a_retry() -> None:
    raise Retry(after="9s", reason="rate_limited")


def dies() -> None:
    os._exit(7)


def reports(run: Run, payload: object) -> str:
    """Says how far it is, then waits for a file to appear."""
    run.progress({"attempt": run.attempt})
    _wait_for(Path(str(payload)))
    return "reported"


def hangs(payload: object) -> None:
    """Starts a process itself, writes down both, and never ends by itself; it does not even listen to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    path = Path(cast("str", payload))
    path.with_suffix(".part").write_text(f"{os.getpid()} {grandchild.pid}")
    path.with_suffix(".part").rename(path)
    while True:
        time.sleep(1)


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def leaves(user_id: str, payload: object, run: Run) -> None:
    import logging

    logging.getLogger("shop").info("charging %s", user_id)
    run.progress({"done": 1})
    with run.step("charge"):
        print("api_key=sk-very-secret-0123456789")  # noqa: T201  # that is what is tried
    sys.stdout.write("no line end")
    raise ConnectionError("the gateway hung up")


def leaves_and_dies(run: Run) -> None:
    print("last words", flush=True)  # noqa: T201  # that is what is tried
    os._exit(7)
