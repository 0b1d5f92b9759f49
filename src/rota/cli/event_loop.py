"""The event loop that a command runs on: uvloop's where it is installed and the command works for long."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Final

__all__ = ["run_on_loop"]

_BY_DEFAULT: Final = (700, 10, 10)
_SELDOM: Final = (50_000, 20, 20)
"""So many new objects are waited for before Python looks for cycles among them: a busy worker makes 700 in a few
milliseconds, all of which go by themselves, and a tenth of its time went into looking."""


def run_on_loop(main: Coroutine[object, object, None], *, fast: bool) -> None:
    """Run a command to its end. `fast`: on uvloop, if there is one; importing it costs more than it saves elsewhere."""
    if not fast:
        asyncio.run(main)
        return
    _collect_seldom()
    try:
        from uvloop import new_event_loop
    except ImportError:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def _collect_seldom() -> None:
    """Unless the application has said how often."""
    if gc.get_threshold() == _BY_DEFAULT:
        gc.freeze()
        gc.set_threshold(*_SELDOM)
