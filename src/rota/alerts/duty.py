"""Two duties beside the worker: the watch looks at the rules, the courier tells the sinks.

They are apart so that a sink that hangs never keeps anybody from looking. Any number of instances may run them: one
watches at a time, and an alert is handed over by whoever takes it on first. An instance that dies between handing an
alert over and noting it leaves it to be handed over again, under the same id; otherwise once is once.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.alerts.alert_store import AlertNotice, AlertStore
from rota.alerts.delivery import Delivered, Tried
from rota.alerts.kinds import kinds_of, look_at, rules_of
from rota.alerts.section import ALERTS_SECTION
from rota.alerts.sinks import Sink, make_sinks
from rota.clock import MINUTE, SECOND, Clock, Instant, Millis
from rota.config import Config
from rota.core.alert import ENGINE_KINDS, AlertChange, AlertKind
from rota.core.task_type import did_you_mean
from rota.database import Database
from rota.errors import InvalidConfig, InvalidInput, WebhookRefused
from rota.logs import get_logger
from rota.part import PartHost
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.health import Pulse
from rota.stores.base import Store
from rota.webhooks import Webhooks

__all__ = ["AlertCourier", "AlertDuty", "CourierReport", "WatchReport", "make_duties", "try_sink"]

HOLD_MS: Final[Millis] = 30 * SECOND
"""For so long a notice is its courier's: longer than any sink may take."""
AT_ONCE: Final = 8
"""Rules and subjects whose sinks are told at the same time."""
FAREWELL_SECONDS: Final = 3.0
"""For so long an instance that is told to stop waits for the sinks that it is telling."""
_PRUNE_EVERY: Final = 240
"""Looks between two prunings of the history."""

OpenAlertStore = Callable[[], Awaitable[AlertStore | None]]
"""Gives the alerts of the database; None where nobody wants one."""

log = get_logger("rota.alerts")


def _sinks_of(config: Config) -> dict[str, Sink]:
    webhooks = Webhooks(allow_private=config.webhooks.allow_private, allow_http=config.webhooks.allow_http)
    try:
        return make_sinks(ALERTS_SECTION.of(config).sinks, webhooks)
    except (WebhookRefused, InvalidInput) as error:
        raise InvalidConfig(f"alerts.sinks: {error}") from None


async def try_sink(config: Config, name: str, now: Instant) -> None:
    """Send a test alert to one sink, at once; raises what the sink raises."""
    sinks = _sinks_of(config)
    if name not in sinks:
        raise InvalidInput(f"There is no sink {name!r}. {did_you_mean(name, sinks)}")
    words = f"This is a test of the sink {name}. Nothing is wrong."
    notice = AlertNotice(0, now, "test", name, AlertChange.FIRING, "-", words, Delivered.to([name]))
    await sinks[name].send(notice, now)


@dataclass(frozen=True, slots=True)
class WatchReport:
    """Whether this instance was the one to look, and what changed."""

    was_ours: bool
    changes: int = 0


class _Watch(Duty[WatchReport]):
    name = "alerts"

    def __init__(
        self,
        store: Store,
        alert_store: OpenAlertStore,
        config: Config,
        kinds: Mapping[str, AlertKind],
        *,
        check_ms: Millis,
        on_change: Callable[[], None],
        pulse: Pulse,
        chance: Callable[[], float],
    ) -> None:
        super().__init__(pulse, chance)
        self._store = store
        self._open = alert_store
        self._kinds = kinds
        self._rules = rules_of(config, kinds)
        self._limits = {name: kinds[rule.kind].shown_limit(rule) for name, rule in self._rules.items()}
        self._check_ms = check_ms
        self._on_change = on_change
        self._looks = 0
        self._has_turn = False
        self._failed: Counter[str] = Counter()
        """How often in a row a kind could not be measured."""

    async def run_once(self, now: Instant | None = None) -> WatchReport:
        alert_store = await self._open()
        if alert_store is None or not await alert_store.turn.take(3 * self._check_ms):
            self._note_failures({})  # whoever has the turn knows more
            return WatchReport(was_ours=False)
        self._has_turn = True
        # A part that takes longer would cost everybody the turn.
        patience = 2 * self._check_ms / SECOND
        look = await look_at(self._rules.values(), self._kinds, self._store, alert_store.database, seconds=patience)
        # A look that comes late is still the next look; one that comes much later knows nothing of what was between.
        notices = await alert_store.apply(
            look.readings,
            self._rules,
            gap_ms=3 * self._check_ms + MINUTE,
            unmeasured=look.unmeasured,
            limits=self._limits,
        )
        if notices:
            self._on_change()
        self._looks += 1
        if self._looks % _PRUNE_EVERY == 1:
            await alert_store.prune()
        self._note_failures(look.failures)
        return WatchReport(was_ours=True, changes=len(notices))

    def _note_failures(self, failures: Mapping[str, Exception]) -> None:
        """The health is red for as long as a kind cannot be measured, and the log says so now and then. The look itself
        has not failed: the next one comes when it is due."""
        for kind in self._failed.keys() - failures.keys():
            self._pulse.good(f"alert kind {kind}")
            del self._failed[kind]
        for kind, error in failures.items():
            self._failed[kind] += 1
            self._pulse.bad(f"alert kind {kind}", error)
            times = self._failed[kind]
            if times & (times - 1) == 0:
                log.error("alert kind not measured", kind=kind, failures=times, exc_info=error)

    def pause_after(self, report: WatchReport) -> float:
        return self._check_ms / SECOND

    async def close(self) -> None:
        alert_store = await self._open() if self._has_turn else None
        if alert_store is not None:
            await alert_store.turn.give_back()


@dataclass(frozen=True, slots=True)
class CourierReport:
    """How many sinks were told, how many were not, and when the next try is due (ms from now)."""

    told: int = 0
    failed: int = 0
    next_ms: Millis | None = None


class AlertCourier(Duty[CourierReport]):
    """Hands over what is still to be told."""

    name = "alert courier"

    def __init__(
        self,
        alert_store: OpenAlertStore,
        sinks: Mapping[str, Sink],
        *,
        check_ms: Millis,
        pulse: Pulse,
        chance: Callable[[], float],
    ) -> None:
        super().__init__(pulse, chance)
        self._open = alert_store
        self.sinks = dict(sinks)
        self._check_ms = check_ms
        self._telling: set[asyncio.Task[Delivered | None]] = set()

    async def run_once(self, now: Instant | None = None) -> CourierReport:
        """Tell what is due, the oldest first."""
        alert_store = await self._open()
        if alert_store is None:
            return CourierReport()
        at, notices = await alert_store.undelivered()
        chains: defaultdict[tuple[str, str], list[AlertNotice]] = defaultdict(list)
        for notice in notices:
            chains[notice.rule, notice.subject].append(notice)
        # A sink that hangs costs its own deadline, and the others wait for that only if many hang.
        room = asyncio.Semaphore(AT_ONCE)
        results = await asyncio.gather(
            *(self._work_off(alert_store, chain, at, room) for chain in chains.values()), return_exceptions=True
        )
        reports: list[CourierReport] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            reports.append(result)
        return CourierReport(
            told=sum(report.told for report in reports),
            failed=sum(report.failed for report in reports),
            next_ms=min((report.next_ms for report in reports if report.next_ms is not None), default=None),
        )

    def pause_after(self, report: CourierReport) -> float:
        next_ms = self._check_ms if report.next_ms is None else min(report.next_ms, self._check_ms)
        return next_ms / SECOND

    async def _work_off(
        self, alert_store: AlertStore, chain: Sequence[AlertNotice], at: Instant, room: asyncio.Semaphore
    ) -> CourierReport:
        """The notices of one rule and subject. Each sink hears them in order: the next only after the one before."""
        told = failed = 0
        waits: list[Millis] = []
        busy: set[str] = set()
        for notice in chain:
            standing, wait_ms = notice.delivered, notice.delivered.wait_ms(at)
            names = [name for name in standing.left() if name not in busy]
            if names and not wait_ms:
                async with room:
                    after = await self._deliver(alert_store, notice, names)
                standing, wait_ms = (standing, HOLD_MS) if after is None else (after, after.pause_ms)
                told += sum(standing.sinks[name].ok for name in names)
                failed += 0 if after is None else sum(not after.sinks[name].ok for name in names)
            busy.update(standing.left())
            waits += [wait_ms] if wait_ms and standing.left() else []
        return CourierReport(told, failed, min(waits, default=None))

    async def _deliver(self, alert_store: AlertStore, notice: AlertNotice, names: Sequence[str]) -> Delivered | None:
        """How it stands after these sinks were tried; None if the notice is somebody else's."""
        taken = await alert_store.acquire(notice, HOLD_MS)
        if taken is None:
            return None
        # What was begun is finished and noted even if this instance is told to stop meanwhile.
        telling = asyncio.create_task(self._tell_all(alert_store, names, *taken), name="rota-alert-telling")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        return await asyncio.shield(telling)

    async def _tell_all(
        self, alert_store: AlertStore, names: Sequence[str], now: Instant, held: AlertNotice
    ) -> Delivered | None:
        answers = await asyncio.gather(*(self._tell(name, held, now) for name in names))
        return await alert_store.record_outcomes(held, dict(zip(names, answers, strict=True)))

    async def close(self) -> None:
        """Wait for what is being told, though not for a sink that hangs: that one is told again by somebody else."""
        if not self._telling:
            return
        _, late = await asyncio.wait(self._telling, timeout=FAREWELL_SECONDS)
        for telling in late:
            telling.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _tell(self, name: str, notice: AlertNotice, now: Instant) -> Tried:
        tried = notice.delivered.sinks[name]
        sink = self.sinks.get(name)
        if sink is None:
            return tried.failed(now, "No sink of this name is configured here.", is_final=False)
        try:
            await sink.send(notice, now)
        except Exception as error:
            log.warning("alert not delivered", sink=name, rule=notice.rule, tries=tried.tries + 1, error=str(error))
            is_final = isinstance(error, WebhookRefused) or bool(getattr(error, "is_final", False))
            return tried.failed(now, str(error) or type(error).__name__, is_final=is_final)
        return tried.succeeded(now)


def make_duties(host: PartHost, context: DutyContext) -> list[Duty[Any]]:
    """The watch and the courier of one worker. Where nobody wants a database there is nothing to remember alerts in,
    and neither does anything."""
    alert_store: AlertStore | None = None

    async def open_alert_store() -> AlertStore | None:
        nonlocal alert_store
        if alert_store is None and host.wants_database:
            alert_store = AlertStore(await host.database(), context.instance)
        return alert_store

    kinds = kinds_of(host.parts.values())
    return list(_make(context.store, open_alert_store, host.config, kinds, context.pulse, context.chance))


def _make(
    store: Store,
    alert_store: OpenAlertStore,
    config: Config,
    kinds: Mapping[str, AlertKind],
    pulse: Pulse,
    chance: Callable[[], float],
) -> tuple[_Watch, AlertCourier]:
    check_ms = ALERTS_SECTION.of(config).check_ms
    courier = AlertCourier(alert_store, _sinks_of(config), check_ms=check_ms, pulse=pulse, chance=chance)
    watch = _Watch(
        store, alert_store, config, kinds, check_ms=check_ms, on_change=courier.wake, pulse=pulse, chance=chance
    )
    return watch, courier


class AlertDuty:
    """Looks at the rules and tells the sinks without a worker, until stopped. Store and database stay open.

    `kinds` are all that its rules may be of (`kinds_of(app.host.parts.values())`): the engine's, unless said.
    """

    def __init__(
        self,
        store: Store,
        database: Database,
        config: Config,
        *,
        clock: Clock,
        chance: Callable[[], float] = random.random,
        instance: str | None = None,
        kinds: Mapping[str, AlertKind] = ENGINE_KINDS,
    ) -> None:
        self.rules = rules_of(config, kinds)
        self.pulse = Pulse(clock)
        self.alert_store = AlertStore(database, instance or uuid.uuid4().hex)

        async def open_alert_store() -> AlertStore:
            return self.alert_store

        self.watch, self.courier = _make(store, open_alert_store, config, kinds, self.pulse, chance)

    async def run(self) -> None:
        """Until stopped or cancelled. Whatever fails is logged and tried again."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.watch.run(), name="rota-alerts")
                group.create_task(self.courier.run(), name="rota-alert-courier")
        finally:
            await self._farewell()

    async def run_once(self) -> tuple[WatchReport, CourierReport]:
        """One look, and one round of deliveries."""
        return await self.watch.run_once(), await self.courier.run_once()

    def stop(self) -> None:
        """End after what is under way."""
        self.watch.stop()
        self.courier.stop()

    async def _farewell(self) -> None:
        try:
            await self.courier.close()
            await self.watch.close()
        except Exception as error:
            log.warning("turn not given back", error=str(error))
