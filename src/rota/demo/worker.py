"""A worker of `rota demo`, as a process of its own: `python -m rota.demo.worker URL`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from rota.cli.logs import log_to_stderr
from rota.demo.app import build

__all__ = ["main"]


def main() -> None:
    """Work until told to stop, or until whoever started this process is gone."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    log_to_stderr(as_json=False)
    asyncio.run(build(sys.argv[1]).run())


def _leave_with_parent() -> None:
    # The pipe ends when the parent does, however it does: no worker is ever left behind.
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
