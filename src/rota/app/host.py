"""The host: what one process owns of Rota, whichever face its program uses.

It holds the connection to the store, the database beside it, the spool, the types and handlers that the program has
declared, and the worker in the background; and it closes what it has opened. `Rota` and the scheduler interface are two
faces over one, and a part is installed in one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace as replace_in

from rota.app.background import Background
from rota.app.connection import Connection
from rota.app.duties import run_with_duties
from rota.app.known_types import KnownTypes
from rota.app.manual_claims import ManualClaims
from rota.app.own_database import OwnDatabase
from rota.app.parts import built_in_parts
from rota.app.registry import Registry
from rota.app.schedules import Schedules
from rota.app.signals import run_until_signalled
from rota.app.tasks import Tasks
from rota.clock import SECOND, Clock, SystemClock
from rota.config import Config
from rota.config.model import default_spool
from rota.core.outcome import Touched, TouchOutcome
from rota.core.task import Activity
from rota.core.task_type import TaskType, TriggerMode, did_you_mean
from rota.errors import InvalidInput, RotaError, StoreUnavailable, UnknownTaskType
from rota.forking import forget_in_children, keep_for_ever
from rota.keys import UserKeyBuilder
from rota.logs import get_logger
from rota.part import Attention, Part
from rota.runtime import Health, Worker, WorkerSettings
from rota.runtime.database_owner import DatabaseOwnership
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.handler import HandlerFunction
from rota.runtime.observer import Observer, Producer
from rota.runtime.spool import Spool, spool_at
from rota.runtime.stats import InstanceStats
from rota.stores import open_store
from rota.stores.base import Store

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from rota.database import Database

__all__ = ["Host"]

P = TypeVar("P", bound=Part)

log = get_logger("rota.scheduler")

FINISH_SECONDS: Final = 10.0
"""How long closing waits for what was begun in the background."""


class Host:
    """One process's own Rota.

    `engine` is the store's URL, or a store that the program has made itself. With `connects_by_itself` the first call
    connects and `stop` ends it, as the scheduler interface wants it, which has no word for connecting; otherwise the
    calls are made inside `enter` and `leave`.
    """

    def __init__(
        self,
        engine: str | Store,
        config: Config,
        *,
        clock: Clock | None = None,
        parts: Iterable[Part] = (),
        connects_by_itself: bool = False,
    ) -> None:
        self.keys = UserKeyBuilder(config.user_key)
        self.registry = Registry(config)
        self._settle(engine, config, clock, connects_by_itself=connects_by_itself)
        self.tasks = Tasks(self.ready, self.keys, self.config.timezone)
        self.schedules = Schedules(self.ready, config.timezone, lambda: self.clock.now())
        self.schedules.producer = lambda: self.producer
        self.observers: list[Observer] = []
        """Who else wants to know of every run. They are told by workers that start after they came."""
        self.producer: Producer | None = None
        """Who wants to stand around every call that makes work."""
        self.tracer: Tracer | None = None
        """What makes spans, for the parts that make some."""
        self.before_closing: list[Callable[[], Awaitable[None]]] = []
        """Who has begun something in the background: each is awaited before the store is closed, within limits."""
        self.parts: dict[str, Part] = {}
        """Every part by its name, whether it is at work here or in another process."""
        self._at_work: dict[str, Part] = {}
        for part in built_in_parts():
            self.attach(part)
        for part in parts:
            self.add(part)
        forget_in_children(self)

    def _settle(self, engine: str | Store, config: Config, clock: Clock | None, *, connects_by_itself: bool) -> None:
        """All that depends on which store this is, and on whose clock; nothing is connected yet."""
        self.config = config
        self.clock: Clock = clock or SystemClock()
        # Unless a test brings one, the store's own clock rules: instances may be minutes apart.
        self._given_clock = clock
        self._engine = engine
        self._call_timeout = config.call_timeout_ms / SECOND
        self._connects_by_itself = connects_by_itself
        self.types = KnownTypes(self.registry, self.ready)
        self.connection = Connection(self._make_store, self._prepare, self._finish, self._close_beside)
        self.own_database = OwnDatabase(
            config,
            lambda: self.store_url,
            self.connection.store,
            self.ready,
            clock=self.clock,
            given_clock=clock,
            survives_outages=lambda: self.spool is not None,
        )
        self.spool = self._make_spool()
        self.stats = InstanceStats()
        """What this process has seen of touches and runs; the metrics read it."""
        self.background = self._make_background()
        self.manual_claims = ManualClaims(self.clock, config.lease_ms)
        self._kept_open = False
        """Whether the connection is held by a call that connected by itself."""
        self._blocks_without_store = 0
        """How many blocks were entered while the store was away, and do not hold it yet."""
        self._is_left_behind = False
        """Whether the store that was given is open in the process that this one was forked from."""

    def move(self, engine: str | Store, config: Config, clock: Clock) -> None:
        """Go on with another store and by another clock, with all that was declared; calls connect by themselves.

        What was connected stays open, and is not seen any more: this is for a test of the program that made the app,
        which brings everything back (`rota.app.moved`).
        """
        declares, owner = self.types.declares, self.own_database.owner
        self.registry = self.registry.copy()
        self.parts, self._at_work = self.parts.copy(), self._at_work.copy()
        self.observers, self.before_closing = self.observers.copy(), self.before_closing.copy()
        self._settle(engine, config, clock, connects_by_itself=True)
        self.types.declares = declares
        self.own_database.owner.follow(owner)
        for part in self.parts.values():
            part.moved()

    # --- parts ---

    def add(self, part: P) -> P:
        """Bring a part in, and have it at work in this process."""
        self.attach(part)
        part.install()
        self._at_work[part.name] = part
        return part

    def part(self, kind: type[P]) -> P:
        """The part of a kind, whether it is at work here or not."""
        found = self.parts.get(kind.name)
        if not isinstance(found, kind):
            raise RotaError(f"This app has no part {kind.name!r}. Give it one: Rota(..., parts=[{kind.__name__}()]).")
        return found

    async def attention(self) -> list[Attention]:
        """What a person should look at now, as the parts say."""
        found = await asyncio.gather(*(part.attention() for part in self.parts.values()))
        return [one for several in found for one in several]

    async def badges(self) -> dict[str, int]:
        """How much waits for somebody, by the entries of the menu, as the parts say."""
        found: Counter[str] = Counter()
        for badges in await asyncio.gather(*(part.badges() for part in self.parts.values())):
            found.update(badges)
        return dict(found)

    def attach(self, part: Part) -> None:
        """Know a part, which may be at work in another process. It takes the place of one with its name."""
        part.attach(self)
        self.parts[part.name] = part

    def duties(self, context: DutyContext) -> list[Duty[Any]]:
        """What runs beside a worker of this process."""
        at_work = [part for part in self.parts.values() if part.is_always_at_work or part.name in self._at_work]
        return [duty for part in at_work for duty in part.duties(context)]

    def check_schedule_first(self, task_type: str, check: Callable[[str], Awaitable[None]]) -> None:
        """Ask `check` before a schedule of this type is made or changed as any other is (`Schedules.check_first`)."""
        self.schedules.check_first(task_type, check)

    @property
    def declared(self) -> Mapping[str, TaskType]:
        """The types of this process, from its code and its configuration."""
        return MappingProxyType(self.registry.types)

    @property
    def database_owner(self) -> DatabaseOwnership:
        """Which database the tasks of a part belong to."""
        return self.own_database.owner

    @property
    def store_url(self) -> str:
        return self._engine if isinstance(self._engine, str) else self._engine.url

    # --- types and handlers: a worker that runs serves them from now on ---

    def declare(
        self,
        name: str,
        function: HandlerFunction,
        mode: TriggerMode,
        settings: Mapping[str, object],
        *,
        decorator: str,
        process: bool = False,
    ) -> None:
        """A type and its handler. File, environment and flags win over these settings."""
        self.registry.declare(name, function, mode, settings, decorator=decorator, process=process)
        self.background.serve(self.registry.servable())

    async def register_type(self, task_type: TaskType) -> None:
        """A type as a program builds it, here and in the store."""
        self.registry.register_type(task_type)
        await self.ready()
        self.background.serve(self.registry.servable())

    def register_handler(self, name: str, function: HandlerFunction, mode: TriggerMode | None) -> None:
        """The handler of a type, which is called with the three ids."""
        self.registry.register_handler(name, function, mode)
        self.background.serve(self.registry.servable())

    # --- activity ---

    async def touch(self, task_type: str, user_id: str, device_id: str | None, agent_id: str | None) -> Touched:
        """A user was active. A type that is unknown or not user_activity is an error."""
        known = self.registry.types.get(task_type) or await self.types.find(task_type)
        if known is None:
            raise UnknownTaskType(
                f"There is no task type {task_type!r}. {did_you_mean(task_type, self.declared or ['none yet'])}"
            )
        if known.trigger_mode is not TriggerMode.USER_ACTIVITY:
            raise InvalidInput(
                f"The type {task_type!r} is {known.trigger_mode}, and only user_activity types are touched."
                " Schedule it, or run it now."
            )
        key = self.keys.build_key(user_id, device_id, agent_id)
        if not self.config.enabled:
            return Touched(TouchOutcome.DISABLED, None, 0)
        activity = Activity(
            task_type=task_type,
            key=key,
            user_id=user_id,
            device_id=device_id or self.keys.default_device_id,
            agent_id=agent_id or self.keys.default_agent_id,
        )
        if self.producer is None:
            touched = await self._offer(activity)
        else:
            with self.producer.making("touch", task_type) as making:
                touched = await self._offer(replace_in(activity, trace=making.trace))
                making.led_to(touched.outcome)
        self.stats.touches[task_type][str(touched.outcome)] += 1
        return touched

    async def _offer(self, activity: Activity) -> Touched:
        # Every touch comes through here, so it is one coroutine, not three inside each other.
        is_declared_again = False
        while True:
            try:
                if self.spool is not None:
                    touched = await self.spool.touch(activity)
                else:
                    (touched,) = await (await self.ready()).touch([activity])
            except UnknownTaskType:
                if is_declared_again or activity.task_type not in self.registry.types:
                    raise
                await self.types.declare_again([activity.task_type])
                is_declared_again = True
            else:
                is_off = touched.outcome is TouchOutcome.DISABLED
                if (is_off or self.types.off) and touched.outcome is not TouchOutcome.SPOOLED:
                    self.types.heard(activity.task_type, is_off=is_off)
                return touched

    # --- at work ---

    async def start(self) -> None:
        """Work in the background of this event loop, until `stop`. Starting again is harmless.

        A shared store that is away is waited for, in the background too: an outage ends no application, not even one
        that starts during it.
        """
        if not self._may_work() or self.background.is_running:
            return
        self._warn_of_gaps()
        await self.background.start()

    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - how long running work may finish
        """Stop working: running work may finish for `timeout` seconds, then it is released to run elsewhere."""
        if not timeout >= 0:
            raise InvalidInput(f"stop was given the timeout {timeout!r}. Use seconds from 0 (at once).")
        await self.background.stop(timeout)
        if self._kept_open or self.connection.loop is None:
            # First of all: offering touches may be what connects.
            await self._finish()
            await self._close_beside()
        if self._kept_open:
            self._kept_open = False
            await self.connection.release()

    async def run(self, timeout: float) -> None:  # noqa: ASYNC109 - how long stopping may take
        """Work until stopped: by `stop`, by cancellation, or by a signal."""
        if not self._may_work():
            return
        if self.background.is_running:
            raise RotaError("This app is already running. Await one run(), or stop() it first.")
        self._warn_of_gaps()
        async with self.connection.held() as store:
            await run_until_signalled(self.background.make_worker(store), timeout)

    async def run_until_idle(self) -> int:
        """Work off everything that is due, with the follow-ups that become due by it; how many runs that were. Events
        that the consumers of this process are for are handled, too, if their bus is the local one."""
        if not self._may_work():
            return 0
        async with self.connection.held() as store:
            return await run_with_duties(self, lambda: self.make_worker(store).run_until_idle())

    def health(self) -> Health:
        """Whether the worker of this process can do its work now, and if not, why."""
        health = self.background.health()
        troubles = (*self.database_owner.reasons, *self.own_database.deafness)
        if self.background.is_started and troubles:
            health = replace(health, ok=False, reasons=(*health.reasons, *troubles))
        return health if self.spool is None else self.spool.seen_in(health)

    def make_worker(self, store: Store) -> Worker:
        """A worker with the handlers of this process, for somebody who runs it."""
        settings = WorkerSettings(
            lease_ms=self.config.lease_ms,
            sweep_ms=self.config.sweep_ms,
            check_interval_ms=self.config.check_interval_ms,
            max_concurrent=self.config.max_concurrent,
            call_timeout=self._call_timeout,
        )
        return Worker(
            store,
            self.registry.servable(),
            self.registry.types,
            settings,
            clock=self.clock,
            stats=self.stats,
            observers=self.observers,
            duties=self.duties,
            blocked_types=None if self.own_database.is_the_store else self.database_owner.blocked_types,
        )

    def _may_work(self) -> bool:
        if not self.config.enabled:
            source = self.config.sources.get("scheduler.enabled", "default")
            log.warning("no worker", reason=f"scheduler.enabled is false ({source}); this process runs nothing")
        return self.config.enabled

    def _warn_of_gaps(self) -> None:
        for name in self.registry.unknown_types():
            log.warning("handler without a type", task_type=name, advice="register the type, or configure it")
        for name in self.registry.idle_types():
            log.warning("type without a handler", task_type=name, advice="this process will not run it")

    def _make_background(self) -> Background:
        # A file of this host is there, or something is wrong with it; a store that others run may be away for a while.
        waits = self.spool is not None or default_spool(self.store_url) is not None
        return Background(self.connection, self.make_worker, waits=waits)

    # --- coming and going ---

    async def enter(self) -> None:
        """Connect, until `leave`: the store is open and knows the types. Nothing is run.

        If the store is away and there is a spool, touches are taken all the same, and the first call that finds the
        store connects. Every other call raises `StoreUnavailable` until then.
        """
        try:
            await self.connection.acquire()
        except StoreUnavailable as error:
            if self.spool is None:
                raise
            log.warning("store away", at="start", error=str(error))
            self._blocks_without_store += 1

    async def leave(self) -> None:
        """Undo one `enter`; the last one ends the worker, if there is one, and closes everything."""
        try:
            if self.background.is_started:
                await self.stop()
        finally:
            await self._release()

    async def _release(self) -> None:
        if self._blocks_without_store and self.connection.loop is None:
            # Handing the spool over may find the store: then the block holds it by now.
            await self._finish()
        if not self._blocks_without_store:
            await self.connection.release()
            return
        self._blocks_without_store -= 1
        if self.connection.loop is None:
            # Never connected: what was spooled stays in the file, for the next process.
            await self._close_beside()

    async def ready(self) -> Store:
        """The open store, which knows every type that was declared so far."""
        store = self.connection.store()
        if store is None:
            store = await self._connect()
        if self.registry.undeclared and self.types.has_news:
            await self.types.declare(store)
        return store

    async def _connect(self) -> Store:
        if not self._connects_by_itself and not self._blocks_without_store:
            raise RotaError(
                "The app is not connected. Use it inside `async with app:`, or through `app.sync` without an event"
                " loop."
            )
        store = await self.connection.acquire()
        if self._blocks_without_store:
            # From now on the block holds it, as if it had begun with it.
            self._blocks_without_store -= 1
        elif self._connects_by_itself and not self._kept_open:
            self._kept_open = True
        else:
            await self.connection.release()
        return store

    async def hand_over(self) -> None:
        """Give the store what waits in the spool, or say in the log that it waits on: for a process that is about to
        end. Closing does so by itself."""
        if self.spool is not None:
            await self.spool.hand_over()

    def forget_parent(self) -> None:
        """In a forked child: nothing is connected and no worker runs; the next call connects anew."""
        if isinstance(self._engine, Store) and self.connection.loop is not None:
            self._is_left_behind = True
        keep_for_ever(self.spool, self.background)
        self.connection.forget_parent()
        self.own_database.forget_parent()
        self.spool = self._make_spool()
        self.background = self._make_background()
        self.manual_claims = ManualClaims(self.clock, self.config.lease_ms)
        self._kept_open = False
        self._blocks_without_store = 0

    # --- the store, and what is opened and closed with it ---

    def _make_store(self) -> Store:
        if isinstance(self._engine, Store):
            self._refuse_parents_store(self._engine)
            return self._engine
        store = open_store(self._engine, self._given_clock, call_timeout=self._call_timeout)
        if self._engine == store.url == "memory://":
            self._engine = store  # what is in memory would not be found again in another one
        return store

    def _refuse_parents_store(self, store: Store) -> None:
        """What is in memory, or was made by the program itself, cannot be opened a second time by its URL."""
        if self._is_left_behind:
            raise RotaError(
                f"The store {store.url} was open in the process that this one was forked from, and is that one's."
                " Fork before the app connects, or make the app with a URL that both can open: 'sqlite:///rota.db',"
                " 'postgresql://...' or 'redis://...'."
            )

    def _make_spool(self) -> Spool | None:
        path, url = self.config.spool_path, self.store_url
        if path is None and "spool" not in self.config.sources:
            path = default_spool(url)
        if path is None:
            return None
        return spool_at(
            path,
            url,
            self._ready_store,
            self.ready,
            clock=self.clock,
            call_timeout=self._call_timeout,
            declare_again=self.types.declare_again,
            takes=self.types.takes,
        )

    def _ready_store(self) -> Store | None:
        """What `ready` would give without waiting; None if it would have to wait."""
        return None if self.registry.undeclared and self.types.has_news else self.connection.store()

    async def _prepare(self, store: Store) -> None:
        for warning in self.config.warnings:
            log.warning("configuration", warning=warning)
        await self.types.declare_all(store)
        if self.spool is not None:
            self.spool.start()

    async def _finish(self) -> None:
        # What was begun last may need what was begun before it; and whoever has finished is no longer on the list.
        for finish in reversed(self.before_closing.copy()):
            try:
                async with asyncio.timeout(FINISH_SECONDS):
                    await finish()
            except TimeoutError:
                log.warning("left unfinished", what=getattr(finish, "__qualname__", str(finish)), after=FINISH_SECONDS)
        await self.hand_over()

    async def _close_beside(self) -> None:
        if self.spool is not None:
            await self.spool.close()
        await self.own_database.close()

    # --- the database ---

    async def database(self) -> Database:
        """The open database, for what has no place in the store."""
        return await self.own_database.open()

    @property
    def wants_database(self) -> bool:
        """Whether somebody wants a database here: it is the store, it is configured, or it is in use already."""
        return self.own_database.is_chosen

    async def database_of(self, part: str, *, settle: bool = False) -> Database:
        """The database for what is of a part (`OwnDatabase.of_part`)."""
        return await self.own_database.of_part(part, settle=settle)
