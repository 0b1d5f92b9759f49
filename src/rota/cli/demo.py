"""`rota demo`: a story of twenty seconds, with real processes and a real kill, and the facts at its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from rota.cli.exits import ExitCode
from rota.cli.invocation import Cli, program_name
from rota.clock import MINUTE, SECOND, SystemClock
from rota.errors import InvalidInput

if TYPE_CHECKING:
    from rota.demo.story import Facts, Story
    from rota.demo.view import DemoView

__all__ = ["demo"]

# A terminal that is closed says SIGHUP; other platforms do not know the word.
_GO: Final = tuple(number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP"))

KeepOption = Annotated[
    Path | None, typer.Option("--keep", metavar="FILE", help="Keep the SQLite file of the story under this name.")
]


async def demo(cli: Cli, keep: KeepOption = None) -> None:
    """Watch Rota work for twenty seconds: users, a killed worker, a cron job, a dead letter."""
    _check(cli, keep)
    clock = SystemClock()
    started = clock.monotonic()
    with tempfile.TemporaryDirectory(prefix="rota-demo-") as folder, _being_told_to_go_is_an_interrupt():
        file = Path(folder) / "demo.db" if keep is None else keep.absolute()
        facts = await _tell(_view(cli), f"sqlite:///{quote(str(file))}", Path(folder))
    _sum_up(cli, facts, keep, clock.monotonic() - started)


def _check(cli: Cli, keep: Path | None) -> None:
    if cli.options.store is not None:
        raise InvalidInput("The demo has a store of its own. Leave --store out; --keep FILE keeps what it made.")
    if keep is None:
        return
    if keep.exists():
        raise InvalidInput(f"--keep {str(keep)!r} exists already. Name a file that does not, or remove it.")
    if not keep.absolute().parent.is_dir():
        raise InvalidInput(f"The folder of --keep {str(keep)!r} does not exist. Create it first.")


def _view(cli: Cli) -> DemoView:
    from rota.demo.view import Lines, LivePicture, Silence

    if cli.output.as_json:
        return Silence()
    return LivePicture() if cli.output.on_terminal else Lines()


@contextmanager
def _being_told_to_go_is_an_interrupt() -> Generator[None]:
    """Being told to go is a reason to tidy up, as Ctrl-C is."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # not every platform's loop can hand signals on
        for number in _GO:
            loop.add_signal_handler(number, task.cancel)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        with suppress(NotImplementedError):
            for number in _GO:
                loop.remove_signal_handler(number)


async def _tell(view: DemoView, url: str, folder: Path) -> Facts:
    from rota.cli.logs import log_to_stderr
    from rota.demo.app import build
    from rota.demo.crew import Crew
    from rota.demo.story import Story
    from rota.stores import open_store

    log_to_stderr(logging.WARNING, as_json=False)
    app, clock = build(url), SystemClock()
    async with app:
        store = open_store(url, clock, call_timeout=MINUTE / SECOND)
        await store.open()
        try:
            # The crew is the inner one: its workers are gone before the facts are read and the store is closed.
            with Crew(url, folder) as crew, view.watching():
                story = Story(app, store, crew, view, clock)
                await _watched(story, pictures=view.wants_pictures)
            return await story.facts()
        finally:
            await store.close()


async def _watched(story: Story, *, pictures: bool) -> None:
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(story.watch()) if pictures else None
        await story.tell()
        if watching is not None:
            watching.cancel()


# --- the summary -----------------------------------------------------------------------------------------------------


def _sum_up(cli: Cli, facts: Facts, keep: Path | None, seconds: float) -> None:
    checks = list(facts.checks())
    happened = all(check.holds for check in checks)
    if cli.output.as_json:
        cli.output.one(
            {
                "ok": happened,
                "seconds": round(seconds, 1),
                "touches": facts.touches,
                "tasks": facts.created,
                "coalesced": facts.coalesced,
                "coalesced_ratio": round(facts.ratio, 3),
                "runs": {"success": facts.succeeded, "error": facts.errored, "lost": facts.lost},
                "recovered_in_seconds": round(facts.recovered_ms / SECOND, 2),
                "cron_fires": facts.cron_fires,
                "dead_letters": facts.dead_letters,
                "checks": [{"claim": check.claim, "holds": check.holds} for check in checks],
                "kept": None if keep is None else str(keep),
            }
        )
    else:
        for line in _lines(facts, keep, seconds):
            cli.output.say(line)
    for check in checks:
        if not check.holds:
            sys.stderr.write(f"error: The demo did not happen as told: it is not true that {check.claim}.\n")
    if not happened:
        raise typer.Exit(ExitCode.FAILED)


def _lines(facts: Facts, keep: Path | None, seconds: float) -> Iterator[str]:
    yield ""
    yield f"What the store says after {seconds:.0f} s:"
    yield f"  {facts.touches} activities of users became {facts.created} tasks ({facts.ratio:.0%} coalesced)"
    yield f"  {facts.succeeded} runs succeeded, {facts.errored} failed, {facts.lost} lost with the killed worker"
    yield f"  the lost task was running again {facts.recovered_ms / SECOND:.1f} s after the kill"
    yield f"  the cron job fired {facts.cron_fires} times"
    yield f"  {facts.dead_letters} dead letter: {facts.dead_error}"
    yield ""
    yield "Try next:"
    program = program_name()
    if keep is None:
        yield f"  {program} demo --keep demo.db                # the same, and look around in it afterwards"
        yield f"  {program} schedule explain '0 9 * * 1-5' --timezone Asia/Shanghai"
        yield f"  {program} up                                 # the service, with its dashboard"
    else:
        url = f"sqlite:///{quote(str(keep))}"
        yield f"  {program} run ls --store {url}"
        yield f"  {program} dlq ls --store {url}"
        yield f"  {program} up --store {url}"
