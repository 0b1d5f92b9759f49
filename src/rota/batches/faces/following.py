"""A batch is followed from a terminal: to its end, or until whoever watches has seen enough."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

import typer

from rota.app.views import alive
from rota.batches.batch import Batch, BatchStatus
from rota.batches.faces.follow_views import FollowView, short_span, view_for
from rota.batches.faces.words import account_of
from rota.batches.names import DETAIL_BATCH
from rota.batches.part import BatchesPart
from rota.cli.exits import ExitCode
from rota.cli.invocation import Cli
from rota.stores.base import Store

__all__ = ["Follower", "be_interrupted", "many"]

_SILENCE_SECONDS: Final = 5.0
"""After so long without an event it is looked why nothing comes."""
_NOBODY: Final = """\
Nobody is at work on batches, so they wait. Start `rota up`, or `rota worker`
with an app that uses `app.batches`."""


def many(number: int, thing: str) -> str:
    """So many of them, in words."""
    plural = f"{thing}es" if thing.endswith("ch") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else plural}"


def be_interrupted(cli: Cli, words: str) -> typer.Exit:
    """Ctrl-C was pressed: what goes on without whoever did it is said, and the command ends in peace."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    cli.output.note(words)
    return typer.Exit(ExitCode.INTERRUPTED)


class Follower:
    """Follows batches, for one call of `rota`."""

    def __init__(self, cli: Cli, part: BatchesPart, store: Store) -> None:
        self._cli = cli
        self._part = part
        self._store = store
        self._seen = 0
        """The number of the last event."""

    async def why_nothing_comes(self, batch_id: str) -> str | None:
        """What keeps a batch from going on, if a person has to do something about it."""
        batch = await self._part.batches.get(batch_id)
        if batch.status is BatchStatus.PAUSED:
            return f"It is paused: nothing more of it is begun.\n`rota batch resume {batch.id}` lets it go on."
        return await self.why_nobody_works() if batch.status.is_open else None

    async def why_nobody_works(self) -> str | None:
        """What to do if no instance that makes items is at work."""
        instances = await self._store.instances()
        return None if alive(instances, await self._store.now(), DETAIL_BATCH) else _NOBODY

    async def follow_to_the_end(self, batch: Batch, after: int = 0) -> None:
        """Show what comes, and sum it up. Whoever presses Ctrl-C is told that the batch goes on."""
        self._seen = after
        view = view_for(self._cli.output, batch)
        try:
            # Whoever has seen the end already would wait for another one.
            if batch.status.is_open or after < batch.events:
                with view.watching():
                    await self._show(batch, view)
            ended = await self._part.batches.get(batch.id)
        except asyncio.CancelledError:
            raise be_interrupted(
                self._cli,
                "The batch goes on without you.\n"
                f"rota batch follow {batch.id} --after {self._seen}  # the rest\n"
                f"rota batch cancel {batch.id}  # ends it",
            ) from None
        await self._sum_up(ended)

    async def _show(self, batch: Batch, view: FollowView) -> None:
        said = await self.why_nothing_comes(batch.id)
        if said is not None:
            view.remark(said)
        feed = (await self._part.work()).feed
        async with aclosing(feed.follow(batch.id, self._seen, patience=_SILENCE_SECONDS)) as events:
            async for event in events:
                if event is not None:
                    self._seen = event.number
                    view.tell(event)
                elif (why := await self.why_nothing_comes(batch.id)) != said:
                    said = why
                    if why is not None:
                        view.remark(why)

    async def _sum_up(self, batch: Batch) -> None:
        """What has come of it, and an exit code that says whether that is all."""
        cli = self._cli
        cli.output.note(
            f"{batch.items:,} of {many(batch.count, 'item')} in {short_span(batch.took_ms or 0)};"
            f" {many(batch.duplicates, 'duplicate')} dropped; {many(batch.expected, 'subtask')},"
            f" {batch.failed:,} failed; {many(batch.tokens, 'token')}."
        )
        if batch.status is BatchStatus.COMPLETED and batch.shortfall <= 0:
            return
        cli.output.alarm(account_of(batch, await self._part.batches.subtasks(batch.id)))
        cli.output.note(f"`rota batch show {batch.id}` has more.")
        raise typer.Exit(ExitCode.INCOMPLETE)
