"""`Memory`: everything that can be done with users' memories, in one place, for the faces and the handlers.

It owns no connection. It asks for the database when it needs it, since the app that it belongs to opens and closes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from rota.clock import Clock, Millis, SystemClock, isoformat
from rota.database import Database
from rota.errors import InvalidInput, UnknownTaskType
from rota.keys import UserKeyConfig
from rota.logs import get_logger
from rota.memory.capture import Anonymous, Capture
from rota.memory.cleanup import RETENTION_DAYS, Cleaned, Cleanup
from rota.memory.compression import BATCH_SIZE, SETTLING_MS, Budget, Compressed, Compression
from rota.memory.context import Context, Owner, Scope
from rota.memory.contexts import Contexts
from rota.memory.embedding import Embedder, HashingEmbedder
from rota.memory.grouping import THRESHOLD
from rota.memory.merging import Merger, RuleMerger
from rota.memory.person import erase_user, export_user
from rota.memory.pushes import (
    ChatMessagePush,
    ChatPush,
    DocumentPush,
    MessageAnswer,
    PushAnswer,
    ScreenshotPush,
)
from rota.memory.refresh import Refresh, Refreshed
from rota.memory.search import Found, search
from rota.memory.statistics import Figures, Statistics, StatisticsRun
from rota.memory.summary import BACKFILL_DAYS, Summaries, Summarised
from rota.memory.touches import Touch, Touches
from rota.memory.types import MEMORY_COMPRESSION

__all__ = ["Lineage", "Memory", "MemorySettings"]

log = get_logger("rota.memory")

OVERDUE_OWNERS = 1_000
"""How many owners a look for overdue upkeep reads at once."""


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How memories are kept."""

    anonymous: Anonymous = "default"
    threshold: float = THRESHOLD
    batch_size: int = BATCH_SIZE
    settling_ms: Millis = SETTLING_MS
    retention_days: int = RETENTION_DAYS
    backfill_days: int = BACKFILL_DAYS
    timezone: str = "UTC"


class Lineage(NamedTuple):
    """A context and what was merged into it."""

    context: Context
    sources: list[Context]

    def to_dict(self) -> dict[str, object]:
        return {**self.context.to_dict(), "sources": [source.to_dict() for source in self.sources]}


class Memory:
    """The memories of one application.

    `database` gives the open database; `touch` tells the scheduler that a user was active (`Rota.touch`), for each of
    `task_types()`. `keys` says which ids make up a user's key, and so what one task stands for. `changing` gives the
    database for captures and upkeep, or refuses where they would be lost on everybody: looking is harmless.
    """

    def __init__(
        self,
        database: Callable[[], Awaitable[Database]],
        touch: Touch,
        task_types: Callable[[], Sequence[str]],
        *,
        embedder: Embedder | None = None,
        merger: Merger | None = None,
        settings: MemorySettings | None = None,
        keys: UserKeyConfig | None = None,
        clock: Clock | None = None,
        changing: Callable[[], Awaitable[Database]] | None = None,
    ) -> None:
        self._database = database
        self._changing = changing or database
        self.embedder: Embedder = embedder or HashingEmbedder()
        self._merger: Merger = merger or RuleMerger()
        self.settings = settings or MemorySettings()
        self._keys = keys or UserKeyConfig()
        self._clock: Clock = clock or SystemClock()
        self._touch = touch
        self._touches = Touches(touch, task_types)

    async def contexts(self) -> Contexts:
        """The contexts themselves."""
        return Contexts(await self._database())

    # --- capturing ---

    async def push(self, push: ChatPush | ScreenshotPush | DocumentPush) -> PushAnswer:
        """Keep messages, a screenshot or a document."""
        return await (await self._capture()).push(push)

    async def push_message(self, push: ChatMessagePush) -> MessageAnswer:
        """Keep one message."""
        return await (await self._capture()).push_message(push)

    async def drain(self) -> None:
        """Wait until the scheduler has heard of everything."""
        await self._touches.drain()

    async def _capture(self) -> Capture:
        contexts, anonymous = Contexts(await self._changing()), self.settings.anonymous
        return Capture(contexts, self.embedder, self._touches, anonymous=anonymous, keys=self._keys)

    # --- queries ---

    async def search(self, user_id: str, text: str, *, limit: int = 10) -> list[Found]:
        """The live contexts of a user that are most similar to a text."""
        return await search(await self.contexts(), self.embedder, Scope(user_id), text, limit=limit)

    async def lineage(self, user_id: str, context_id: int) -> Lineage | None:
        """A context of a user with its sources; None if that user has no such context."""
        contexts = await self.contexts()
        context = await contexts.get(user_id, context_id)
        return None if context is None else Lineage(context, await contexts.sources(user_id, context_id))

    async def figures(self, user_id: str) -> Figures:
        """A user's figures, counted now."""
        return await Statistics(await self.contexts()).of_user(user_id)

    async def statistics(self) -> dict[str, object]:
        """All users together: counted now if there are few contexts, else as they were last counted."""
        figures, counted_at = await Statistics(await self.contexts()).in_all()
        return {**figures.to_dict(), "counted_at": isoformat(counted_at)}

    async def export_user(self, user_id: str) -> list[dict[str, object]]:
        """Everything that is kept of a user, newest first; `kind` says what each is."""
        return [kept.to_dict() async for kept in export_user(await self._database(), user_id)]

    async def erase_user(self, user_id: str) -> int:
        """Delete everything that is kept of a user; how many contexts it were."""
        return await erase_user(await self._database(), user_id)

    # --- upkeep ---

    def scope_of(self, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> Scope:
        """What a task with these ids stands for."""
        return Scope.of(user_id, device_id, agent_id, self._keys)

    def budget(self, total_ms: Millis | None) -> Budget:
        return Budget(self._clock, total_ms)

    async def compress(
        self, scope: Scope, budget: Budget | None = None, report: Callable[[Compressed], None] | None = None
    ) -> Compressed:
        """Compress what has settled."""
        settings = self.settings
        compression = Compression(
            Contexts(await self._changing()),
            self.embedder,
            self._merger,
            threshold=settings.threshold,
            batch_size=settings.batch_size,
            settling_ms=settings.settling_ms,
        )
        return await compression.compress(scope, budget or self.budget(None), report)

    async def periodic_memory_compression_for_user(
        self, user_id: str, device_id: str | None = None, agent_id: str | None = None, interval_seconds: int = 1800
    ) -> Compressed:
        """Compress what has settled since the last time, whatever the interval says."""
        if interval_seconds <= 0:
            raise InvalidInput(f"interval_seconds is {interval_seconds}. Use a number of seconds above 0.")
        return await self.compress_and_come_again(user_id, device_id, agent_id)

    async def compress_and_come_again(
        self,
        user_id: str,
        device_id: str | None = None,
        agent_id: str | None = None,
        budget: Budget | None = None,
        report: Callable[[Compressed], None] | None = None,
    ) -> Compressed:
        """Compress what has settled. If there is more, which has not, the scheduler hears of it.

        The activity that brought it has joined the very task that runs: without this nobody would come for it, should
        the user fall silent now.
        """
        done = await self.compress(self.scope_of(user_id, device_id, agent_id), budget, report)
        if done.is_finished and done.has_unsettled:
            keys = self._keys
            owner = Owner(user_id, device_id or keys.default_device_id, agent_id or keys.default_agent_id)
            await self._ask_for_compression(owner)
        return done

    async def _ask_for_compression(self, owner: Owner) -> None:
        try:
            await self._touch(MEMORY_COMPRESSION.name, owner.user_id, owner.device_id, owner.agent_id)
        except UnknownTaskType as error:
            # The application compresses by itself, without the built-in type: nobody can be asked to come again.
            log.warning("memory_compression_unknown", user_id=owner.user_id, error=str(error))

    async def cleanup_expired_data(
        self,
        budget: Budget | None = None,
        report: Callable[[Cleaned], None] | None = None,
        *,
        dry_run: bool = False,
    ) -> Cleaned:
        """Delete what has outlived its retention."""
        cleanup = Cleanup(await self.contexts(), self.settings.retention_days)
        return await cleanup.cleanup_expired_data(budget, report, dry_run=dry_run)

    async def refresh(
        self, scope: Scope, budget: Budget | None = None, report: Callable[[Refreshed], None] | None = None
    ) -> Refreshed:
        """Compute missing and outdated embeddings."""
        refresh = Refresh(await self.contexts(), self.embedder, batch_size=self.settings.batch_size)
        return await refresh.refresh(scope, budget or self.budget(None), report)

    async def count(
        self, budget: Budget | None = None, report: Callable[[StatisticsRun], None] | None = None
    ) -> StatisticsRun:
        """Count all memories anew."""
        return await Statistics(await self.contexts()).count(budget or self.budget(None), report)

    async def summaries(self) -> Summaries:
        """The summaries of days and weeks."""
        settings = self.settings
        return Summaries(
            await self.contexts(),
            timezone=settings.timezone,
            backfill_days=settings.backfill_days,
            settling_ms=settings.settling_ms,
        )

    async def summarise(self, scope: Scope, budget: Budget | None = None) -> Summarised:
        """Summarise the days and weeks that have ended."""
        return await (await self.summaries()).summarise(scope, budget or self.budget(None))

    async def remind(self, overdue_ms: Millis) -> int:
        """Touch the owners whose contexts have waited for compression longer than they should; how many it were."""
        contexts = await self.contexts()
        before = await contexts.database.now() - self.settings.settling_ms - overdue_ms
        reminded, last = 0, None
        # Page after page: some of them may be blocked, and must not hide the others behind them.
        while owners := await contexts.forgotten(before, after=last, limit=OVERDUE_OWNERS):
            for owner in owners:
                await self._ask_for_compression(owner)
            reminded, last = reminded + len(owners), owners[-1]
        return reminded
