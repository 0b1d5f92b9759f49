"""The event loop that a command runs on: uvloop's where it is installed and the command works for long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

__all__ = ["run_on_loop"]


def run_on_loop(main: Coroutine[object, object, None], *, fast: bool) -> None:
    """Run a command to its end. `fast`: on uvloop, if there is one; importing it costs more than it saves elsewhere."""
    if not fast:
        asyncio.run(main)
        return
    try:
        from uvloop import new_event_loop
    except ImportError:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)
