"""`rota top`: everything at a glance, once a second, in a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.cli.invocation import Cli
from rota.errors import RotaError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from rota.app.rota import Rota
    from rota.cli.top_view import Look

__all__ = ["top"]

REFRESH_SECONDS: Final = 1.0
RECENT_RUNS: Final = 10


async def top(
    cli: Cli,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    minutes: Annotated[
        int, typer.Option("--minutes", metavar="N", min=1, max=1_440, help="How far the figures look back.")
    ] = 60,
) -> None:
    """Watch throughput, lateness, queues, failures and instances, live. Keys: q quits, p pauses, ? helps."""
    from rota.cli.top_view import frame

    async with cli.session() as session:
        look = await _look(session.app, minutes)
        if cli.output.as_json:
            cli.output.one(look.to_dict())
            return
        console = _console()
        # A terminal that cannot move its cursor shows one picture, as a file would.
        if once or not cli.output.on_terminal or console.is_dumb_terminal:
            console.print(frame(look, width=console.width))
        else:
            await _watch(session.app, console, look, minutes)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


async def _look(app: Rota, minutes: int) -> Look:
    from rota.app.overview import overview
    from rota.cli.top_view import Look

    seen, runs = await asyncio.gather(overview(app, minutes), app.runs(limit=RECENT_RUNS))
    return Look(app.config.store_url, seen, tuple(runs.items))


# --- live ------------------------------------------------------------------------------------------------------------


class _Keys:
    """What the person has pressed so far."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_paused = False
        self.wants_help = False
        self.pressed = asyncio.Event()

    def take(self, characters: str) -> None:
        for character in characters:
            match character:
                case "q" | "Q" | "\x03" | "\x04":
                    self.is_over = True
                case "p" | " ":
                    self.is_paused = not self.is_paused
                case "?" | "h":
                    self.wants_help = not self.wants_help
                case _:
                    continue
            self.pressed.set()


async def _watch(app: Rota, console: Console, look: Look, minutes: int) -> None:
    from rich.live import Live

    keys = _Keys()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live, _reading(keys.take):
            _draw(live, look, keys)
            while not keys.is_over:
                await _pause(keys)
                if not keys.is_paused:
                    look = await _next(app, look, minutes)
                _draw(live, look, keys)
    except asyncio.CancelledError:
        # Ctrl-C is the usual way to leave, and no failure.
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()


def _draw(live: Live, look: Look, keys: _Keys) -> None:
    from rota.cli.top_view import frame

    size = live.console.size
    live.update(
        frame(look, width=size.width, height=size.height, is_paused=keys.is_paused, wants_help=keys.wants_help),
        refresh=True,
    )


async def _pause(keys: _Keys) -> None:
    """Until the next look is due, or a key was pressed."""
    try:
        async with asyncio.timeout(REFRESH_SECONDS):
            await keys.pressed.wait()
    except TimeoutError:
        return
    keys.pressed.clear()


async def _next(app: Rota, last: Look, minutes: int) -> Look:
    """What there is to see now; what was seen last, with the trouble, if the store does not answer."""
    try:
        return await _look(app, minutes)
    except RotaError as error:
        return last.with_trouble(str(error))


@contextmanager
def _reading(take: Callable[[str], None]) -> Generator[None]:
    """Hand every key on as it is pressed; how the terminal was is put back."""
    if not sys.stdin.isatty():
        yield
        return
    try:
        import termios
        import tty
    except ImportError:  # a platform without terminals of this kind: Ctrl-C still ends it
        yield
        return
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, lambda: take(_typed(terminal)))
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _typed(terminal: int) -> str:
    return os.read(terminal, 64).decode(errors="replace")
