"""Brings the ends of runs to the store, in groups, while the next runs go on.

A run's end is handed over by a plain call: no run waits for it, and none has a task or a future for it. What ends while
groups are under way forms the next one. A group that is answered is closed in one go.

An outcome is tried for as long as it takes: nobody but us knows how the run ended, its token keeps a late one harmless,
and only a stale one is worthless. What the store does not take leaves its group and comes back after a pause that grows
with its own failures, so nobody waits for another one's trouble. A text that cannot be kept is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from rota.core.outcome import Answer, Settled
from rota.core.task import Settlement
from rota.runtime.duty import back_off_seconds
from rota.runtime.health import Pulse
from rota.runtime.leaving import left_by
from rota.runtime.run_log import RunLog
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict
from rota.stores.base import Store

__all__ = ["Settler"]

_MOST_GROUPS: Final = 2
"""Under way at a time: while the store writes one, the next is made ready or closed."""
_UNWRITABLE: Final = (ValueError, TypeError)
"""They say that a text cannot be kept (`InvalidInput` is a ValueError): how the run ended can be, without its texts."""
# Looking a member up in its enum costs as much as all the rest that is done for a run here.
_OK: Final = Answer.OK
_ALREADY: Final = Answer.ALREADY
_failures_of = attrgetter("failures")


class Settler:
    """The outcomes of one instance that are on their way. `close` is told of runs whose end is written, refused
    or given up on, and `refused` before that of those that somebody else owns by now."""

    def __init__(
        self,
        store: Store,
        close: Callable[[Sequence[Running]], None],
        refused: Callable[[Running], None],
        *,
        chance: Callable[[], float],
        pulse: Pulse,
        log: RunLog,
    ) -> None:
        self._store = store
        self._close = close
        self._refused = refused
        self._chance = chance
        self._pulse = pulse
        self._log = log
        self._has_given_up = False
        self._waiting: list[Running] = []
        self._under_way: dict[asyncio.Task[None], list[Running]] = {}
        self._pausing: set[Running] = set()
        """What the store did not take, until it is tried again."""

    def settle(self, running: Running, verdict: Verdict) -> None:
        """Take over a run that has ended like this."""
        task = running.task
        left = left_by(running, verdict)
        running.settlement = Settlement(
            task_type=task.task_type,
            key=task.key,
            token=task.token,
            transition=verdict.transition,
            duration_ms=running.took_ms,
            reason=verdict.reason,
            error=left.error,
            result=verdict.result,
            after_ms=verdict.after_ms,
            chance=self._chance(),
            failure=left.failure,
            details=left.details,
        )
        self._bring([running])

    def give_up(self) -> None:
        """Wait no longer for the store, and try what comes from now on once."""
        self._has_given_up = True
        dropped = [*self._waiting, *self._pausing]
        self._waiting.clear()
        self._pausing.clear()
        for group in self._under_way:
            group.cancel()
        if dropped:
            self._close(dropped)

    # --- groups ---

    def _bring(self, outcomes: Sequence[Running]) -> None:
        # Whoever finds others waiting need not begin a group: either that is called already, or all are under way.
        is_first = not self._waiting
        self._waiting += outcomes
        if is_first:
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Send off what waits, as far as groups may be under way."""
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._under_way) < _MOST_GROUPS:
            group = self._waiting[: self._store.group_size]
            del self._waiting[: len(group)]
            settling = loop.create_task(self._settle(group))
            self._under_way[settling] = group
            settling.add_done_callback(self._end)

    async def _settle(self, group: list[Running]) -> None:
        """One group. The store's own deadline bounds it."""
        settlements = [running.settlement for running in group if running.settlement is not None]
        try:
            answers = await self._store.settle_runs(settlements)
        except Exception as error:
            answers = [error] * len(group)
        self._take(group, answers)

    def _end(self, settling: asyncio.Task[None]) -> None:
        group = self._under_way.pop(settling)
        if settling.cancelled():
            # It was given up, or the loop itself is ending.
            self._close(group)
        else:
            settling.result()
        self._begin()

    # --- answers ---

    def _take(self, group: Sequence[Running], answers: Sequence[Settled | Exception]) -> None:
        """Close what was answered, and see to what was not written."""
        closed: list[Running] = []
        failed: list[tuple[Running, Exception]] = []
        has_recovered = False
        for running, answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                failed.append((running, answer))
                continue
            has_recovered = has_recovered or running.failures > 0
            code = answer.answer
            if code is _OK or code is _ALREADY:
                running.landed = True
                self._log.settled(running, answer.status)
            else:
                self._refused(running)
            closed.append(running)
        if failed:
            closed += self._try_again(failed)
        elif has_recovered:
            self._pulse.good("settling")
        if closed:
            self._close(closed)

    def _try_again(self, failed: Sequence[tuple[Running, Exception]]) -> list[Running]:
        """Those that are not tried again."""
        bare: list[Running] = []
        later: list[Running] = []
        for running, error in failed:
            running.failures += 1
            self._pulse.bad("settling", error)
            self._log.waits(running, error)
            (bare if isinstance(error, _UNWRITABLE) and _leave_out_texts(running) else later).append(running)
        if bare:
            self._bring(bare)
        if self._has_given_up:
            return later
        self._pausing.update(later)
        for failures, outcomes in groupby(sorted(later, key=_failures_of), key=_failures_of):
            pause = back_off_seconds(failures, self._chance())
            asyncio.get_running_loop().call_later(pause, self._come_back, list(outcomes))
        return []

    def _come_back(self, outcomes: Sequence[Running]) -> None:
        """The pause is over. What was given up meanwhile does not come back."""
        back = [running for running in outcomes if running in self._pausing]
        self._pausing.difference_update(back)
        if back:
            self._bring(back)


def _leave_out_texts(running: Running) -> bool:
    """Settle the run without its texts; False if it has none."""
    assert running.settlement is not None
    bare = replace(running.settlement, error=None, result=None, details=None)
    if running.settlement == bare:
        return False
    running.settlement = bare
    return True
