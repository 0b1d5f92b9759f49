"""The seeds' interface, by its own names: the same object as `Rota`, seen from the programs that were written for it.

scheduler = init_scheduler("sqlite:///rota.db", config)          # config: the content of `scheduler:`
scheduler.register_handler("memory_compression", compress)       # compress(user_id, device_id, agent_id) -> bool
await scheduler.start()
await scheduler.schedule_user_task("memory_compression", "u1", "phone")
await scheduler.stop()
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from rota.app.background import Background
from rota.app.connection import Connection
from rota.app.manual_claims import ManualClaims
from rota.app.registry import Registry
from rota.app.results import Touch
from rota.app.settings import load_config
from rota.clock import SECOND, Clock, Instant, SystemClock
from rota.config import Config
from rota.config.model import default_database, default_spool
from rota.core.outcome import Touched, TouchOutcome
from rota.core.task import Activity, Identity, Task, TaskStatus
from rota.core.task_type import TaskConfig, TaskType, TriggerMode, did_you_mean
from rota.errors import InvalidConfig, InvalidInput, RotaError, StoreUnavailable, UnknownTaskType
from rota.forking import forget_in_children, keep_for_ever
from rota.keys import IUserKeyBuilder, UserKeyBuilder, UserKeyConfig
from rota.logs import get_logger
from rota.runtime import Health, Worker, WorkerSettings, declare
from rota.runtime.belonging import Belonging, place_of
from rota.runtime.ledger import Ledger
from rota.runtime.observer import Observer, Producer
from rota.runtime.spool import Spool, spool_at
from rota.stores import database_for, open_store, url_of_client
from rota.stores.base import Counts, Store, TypeRecord

if TYPE_CHECKING:
    from rota.database import Database

__all__ = [
    "ITaskScheduler",
    "IUserKeyBuilder",
    "RedisClient",
    "RedisTaskScheduler",
    "TaskConfig",
    "TaskHandler",
    "TaskInfo",
    "TaskScheduler",
    "TaskStatus",
    "TriggerMode",
    "UserKeyBuilder",
    "UserKeyConfig",
    "get_scheduler",
    "init_scheduler",
    "set_scheduler",
]


class RedisClient(Protocol):
    """A redis-py client, blocking or not."""

    @property
    def connection_pool(self) -> Any: ...


TaskHandler = Callable[[str, str | None, str | None], Awaitable[bool] | bool]
"""(user_id, device_id, agent_id) -> success; three None for periodic types. One that is not async runs in a thread."""

log = get_logger("rota.scheduler")

FINISH_SECONDS: Final = 10.0
"""How long closing waits for what was begun in the background."""

_MADE_A_TASK = frozenset({TouchOutcome.CREATED, TouchOutcome.DEFERRED, TouchOutcome.SPOOLED})


@dataclass
class TaskInfo:
    """One task as the seeds' interface knows it: times are Unix seconds, `lock_token` is the token of its lease.

    `user_id` is None for a task that runs for nobody in particular.
    """

    task_type: str
    user_key: str
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    status: TaskStatus
    created_at: int
    scheduled_at: int
    last_activity: int
    retry_count: int = 0
    lock_token: str | None = None

    def to_dict(self) -> dict[str, str]:
        """Texts, as a Redis hash keeps them; None is an empty one."""
        return {field.name: _text(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> TaskInfo:
        """From what `to_dict` gave. Fields that are not known here are passed over: a newer version wrote them."""
        return cls(
            task_type=_required(data, "task_type"),
            user_key=_required(data, "user_key"),
            user_id=_optional(data, "user_id"),
            device_id=_optional(data, "device_id"),
            agent_id=_optional(data, "agent_id"),
            status=_status(data),
            created_at=_whole(data, "created_at"),
            scheduled_at=_whole(data, "scheduled_at"),
            last_activity=_whole(data, "last_activity"),
            retry_count=_whole(data, "retry_count"),
            lock_token=_optional(data, "lock_token"),
        )

    @classmethod
    def of(cls, task: Task) -> TaskInfo:
        """What of a task this face can say."""
        return cls(
            task_type=task.task_type,
            user_key=task.key,
            user_id=task.user_id,
            device_id=task.device_id,
            agent_id=task.agent_id,
            status=task.status,
            created_at=task.created_at // SECOND,
            scheduled_at=task.scheduled_at // SECOND,
            last_activity=_seconds(task.last_activity_at, task.created_at),
            retry_count=task.errors,
            lock_token=str(task.token) if task.token else None,
        )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _seconds(at: Instant | None, otherwise: Instant) -> int:
    return (otherwise if at is None else at) // SECOND


def _optional(data: Mapping[str, object], name: str) -> str | None:
    value = data.get(name)
    return None if value is None or value == "" else str(value)


def _required(data: Mapping[str, object], name: str) -> str:
    value = _optional(data, name)
    if value is None:
        raise InvalidInput(f"A TaskInfo needs {name!r}, which is missing. Give what to_dict() gave.")
    return value


def _whole(data: Mapping[str, object], name: str) -> int:
    value = _optional(data, name) or "0"
    try:
        return int(value)
    except ValueError:
        raise InvalidInput(f"{name} of a TaskInfo is {value!r}. Use a whole number of seconds.") from None


def _status(data: Mapping[str, object]) -> TaskStatus:
    value = _required(data, "status")
    try:
        return TaskStatus(value)
    except ValueError:
        hint = did_you_mean(value, [status.value for status in TaskStatus])
        raise InvalidInput(f"status of a TaskInfo is {value!r}. {hint}") from None


class ITaskScheduler(ABC):
    """What a scheduler can do, in the seeds' words."""

    @abstractmethod
    async def register_task_type(self, config: TaskConfig) -> bool:
        """Register a task type."""

    @abstractmethod
    def register_handler(self, task_type: str, handler: TaskHandler) -> bool:
        """Register the handler of a type, in this process."""

    @abstractmethod
    async def schedule_user_task(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """A user was active; True if that made a task."""

    @abstractmethod
    async def get_pending_task(self, task_type: str) -> TaskInfo | None:
        """Claim a due task by hand."""

    @abstractmethod
    async def complete_task(self, task_type: str, user_key: str, lock_token: str, success: bool = True) -> None:
        """Say how a task that was claimed by hand ended."""

    @abstractmethod
    async def get_task_config(self, task_type: str) -> TaskConfig | None:
        """The settings of a type."""

    @abstractmethod
    async def start(self) -> None:
        """Work in the background."""

    @abstractmethod
    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the seeds' signature
        """Stop working: running work may finish for `timeout` seconds."""

    @abstractmethod
    def is_running(self) -> bool:
        """Whether it works in the background."""


class TaskScheduler(ITaskScheduler):
    """A scheduler over one store.

    `redis` (or `redis_cache`) is the store, under the names that the seeds gave it: its URL, a redis-py client, what
    holds one, or a `Store`. `config` is the content of `scheduler:`, or a whole `Config`. The store is opened when it
    is first needed, and closed by `stop`.
    """

    def __init__(
        self,
        redis: str | Store | RedisClient | None = None,
        config: Config | Mapping[str, object] | None = None,
        *,
        redis_cache: object = None,
        clock: Clock | None = None,
    ) -> None:
        engine = _engine_of(_one_of(redis, redis_cache))
        self._config = config if isinstance(config, Config) else _seeds_config(engine, config)
        self._clock: Clock = clock or SystemClock()
        # Unless a test brings one, the store's own clock rules: instances may be minutes apart.
        self._given_clock = clock
        self._engine = engine
        self._registry = Registry(self._config)
        self._keys = UserKeyBuilder(self._config.user_key)
        self._connection = Connection(self._make_store, self._prepare, self._finish, self._release)
        self._database: Database | None = None
        self._kept_database: Database | None = None
        self._spool = self._make_spool()
        self._kept_open = False
        self.ledger = Ledger()
        """What this process has seen of touches and runs; the metrics read it."""
        self.observers: list[Observer] = []
        """Who else wants to know of every run. They are told by workers that start after they came."""
        self.producer: Producer | None = None
        """Who wants to stand around every call that makes work."""
        self.before_closing: list[Callable[[], Awaitable[None]]] = []
        """Who has begun something in the background: each is awaited before the store is closed, within limits."""
        self.belonging = Belonging(
            self._connection.store,
            self.database,
            lambda: place_of(self._database_url(self._store_url)),
            clock=self._clock,
            call_timeout=self._call_timeout,
        )
        """Whether the database of this process is the one that the tasks of memory and agents belong to."""
        self._background = self._make_background()
        self._manual_claims = ManualClaims(self._clock, self._config.lease_ms)
        self._types_elsewhere: dict[str, TaskType] = {}
        self.declares = True
        """Whether the store is told of this process's types. Who serves none of them leaves that to those who do."""
        self._off: set[str] = set()
        """The types that take nothing on, as the store last said."""
        self._is_left_behind = False
        """Whether the store that was given is open in the process that this one was forked from."""
        forget_in_children(self)

    @property
    def config(self) -> Config:
        """The settings that this process runs with."""
        return self._config

    @property
    def declared(self) -> Mapping[str, TaskType]:
        """The types of this process, from its code and its configuration."""
        return MappingProxyType(self._registry.types)

    @property
    def user_key_builder(self) -> UserKeyBuilder:
        """Builds the keys of users' tasks."""
        return self._keys

    # --- types and handlers ---

    async def register_task_type(self, config: TaskConfig | TaskType) -> bool:
        """Register a type, here and in the store. Always True: what is impossible raises `InvalidConfig`."""
        self._registry.register_type(config if isinstance(config, TaskType) else config.to_task_type())
        await self._ready()
        self._background.serve(self._registry.servable())
        return True

    def register_handler(
        self, task_type: str, handler: TaskHandler, *, trigger_mode: TriggerMode | None = None
    ) -> bool:
        """Register the handler of a type; it gets (user_id, device_id, agent_id), or three None without a user.

        A worker that runs serves it from now on. `trigger_mode` says what the handler was written for; a configuration
        that contradicts it is refused.
        """
        self._registry.register_handler(task_type, handler, trigger_mode)
        self._background.serve(self._registry.servable())
        return True

    async def get_task_config(self, task_type: str) -> TaskConfig | None:
        """The settings of a type that this process or, failing that, the store knows; None if neither does."""
        known = await self._find_type(task_type)
        return None if known is None else TaskConfig.from_task_type(known)

    async def get_queue_depths(self) -> dict[str, int]:
        """How many tasks of each registered type are pending."""
        store = await self._ready()
        counts = await store.counts()
        names = [record.task_type.name for record in await store.list_types()]
        return {name: counts.get(name, Counts()).pending for name in names}

    # --- activity ---

    async def schedule_user_task(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """A user was active. True if that made a task; a type that is unknown or not user_activity gives False."""
        known = await self._find_type(task_type)
        if known is None or known.trigger_mode is not TriggerMode.USER_ACTIVITY:
            reason = "unknown type" if known is None else f"the type is {known.trigger_mode}, not user_activity"
            log.warning("skip", task_type=task_type, reason=reason)
            return False
        touched = await self._touch(task_type, user_id, device_id, agent_id)
        return touched.outcome in _MADE_A_TASK

    async def touch(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> Touch:
        """A user was active: what that led to. A type that is unknown or not user_activity is an error."""
        known = await self._find_type(task_type)
        if known is None:
            raise UnknownTaskType(
                f"There is no task type {task_type!r}. {did_you_mean(task_type, self._registry.types or ['none yet'])}"
            )
        if known.trigger_mode is not TriggerMode.USER_ACTIVITY:
            raise InvalidInput(
                f"The type {task_type!r} is {known.trigger_mode}, and only user_activity types are touched."
                " Schedule it, or run it now."
            )
        return Touch.of(await self._touch(task_type, user_id, device_id, agent_id))

    async def _touch(self, task_type: str, user_id: str, device_id: str | None, agent_id: str | None) -> Touched:
        key = self._keys.build_key(user_id, device_id, agent_id)
        if not self._config.enabled:
            return Touched(TouchOutcome.DISABLED, None, 0)
        activity = Activity(
            task_type=task_type,
            key=key,
            user_id=user_id,
            device_id=device_id or self._keys.default_device_id,
            agent_id=agent_id or self._keys.default_agent_id,
        )
        if self.producer is None:
            touched = await self._offer(activity)
        else:
            with self.producer.making("touch", task_type) as note:
                touched = await self._offer(activity)
                note(touched.outcome)
        self.ledger.touched(task_type, touched.outcome)
        return touched

    async def _offer(self, activity: Activity) -> Touched:
        # Every touch comes through here, so it is one coroutine, not three inside each other.
        is_declared_again = False
        while True:
            try:
                if self._spool is not None:
                    touched = await self._spool.touch(activity)
                else:
                    (touched,) = await (await self._ready()).touch([activity])
            except UnknownTaskType:
                if is_declared_again or activity.task_type not in self._registry.types:
                    raise
                await self._declare_again([activity.task_type])
                is_declared_again = True
            else:
                if touched.outcome is TouchOutcome.DISABLED:
                    self._off.add(activity.task_type)
                elif self._off and touched.outcome is not TouchOutcome.SPOOLED:
                    self._off.discard(activity.task_type)
                return touched

    def _takes(self, task_type: str) -> bool:
        """Whether a type takes activity on, as far as that is known without the store."""
        known = self._registry.types.get(task_type) or self._types_elsewhere.get(task_type)
        return (known is None or known.enabled) and task_type not in self._off

    def _learn(self, records: Collection[TypeRecord]) -> None:
        """What the store says of types, for when it is away."""
        self._off -= {record.task_type.name for record in records}
        self._off |= {record.task_type.name for record in records if not record.accepts}

    # --- work claimed by hand ---

    async def get_pending_task(self, task_type: str) -> TaskInfo | None:
        """Claim a due task, to be settled by `complete_task` within the type's timeout; None if nothing is due."""
        if await self._find_type(task_type) is None:
            log.warning("skip", task_type=task_type, reason="unknown type")
            return None
        task = await self._manual_claims.claim(await self._ready(), task_type)
        return None if task is None else TaskInfo.of(task)

    async def complete_task(self, task_type: str, user_key: str, lock_token: str, success: bool = True) -> None:
        """Say how a claimed task ended; failed ones are retried. A stale token changes nothing: `LeaseLost`."""
        identity = Identity(task_type, user_key)
        await self._manual_claims.settle(await self._ready(), identity, lock_token, success=success)

    # --- working in the background ---

    async def start(self) -> None:
        """Work in the background of this event loop, until `stop`. Starting again is harmless.

        A shared store that is away is waited for, in the background too: an outage ends no application, not even one
        that starts during it.
        """
        if not self._may_work() or self._background.is_running:
            return
        self._warn_of_gaps()
        await self._background.start()

    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the seeds' signature
        """Stop working: running work may finish for `timeout` seconds, then it is released to run elsewhere."""
        if not timeout >= 0:
            raise InvalidInput(f"stop was given the timeout {timeout!r}. Use seconds from 0 (at once).")
        await self._background.stop(timeout)
        if self._kept_open or self._connection.loop is None:
            # First of all: offering touches may be what connects.
            await self._finish()
            await self._release()
        if self._kept_open:
            self._kept_open = False
            await self._connection.let_go()

    def is_running(self) -> bool:
        """Whether it works in the background."""
        return self._background.is_running

    def has_worker(self) -> bool:
        """Whether a worker was started here and nobody stopped it: it works, or it has ended by an error."""
        return self._background.is_started

    def health(self) -> Health:
        """Whether the worker of this process can do its work now, and if not, why."""
        health = self._background.health()
        if self._background.is_started and self.belonging.reasons:
            health = replace(health, ok=False, reasons=(*health.reasons, *self.belonging.reasons))
        return health if self._spool is None else self._spool.seen_in(health)

    def _can_be_away(self) -> bool:
        """Whether the store is one that others run: a file of this host is there, or something is wrong with it."""
        return self._spool is not None or default_spool(self._store_url) is not None

    def _may_work(self) -> bool:
        if not self._config.enabled:
            source = self._config.sources.get("scheduler.enabled", "default")
            log.warning("no worker", reason=f"scheduler.enabled is false ({source}); this process runs nothing")
        return self._config.enabled

    def _warn_of_gaps(self) -> None:
        for name in self._registry.unknown_types():
            log.warning("handler without a type", task_type=name, advice="register the type, or configure it")
        for name in self._registry.idle_types():
            log.warning("type without a handler", task_type=name, advice="this process will not run it")

    def _new_worker(self, store: Store) -> Worker:
        settings = WorkerSettings(
            lease_ms=self._config.lease_ms,
            sweep_ms=self._config.sweep_ms,
            check_interval_ms=self._config.check_interval_ms,
            max_concurrent=self._config.max_concurrent,
            call_timeout=self._call_timeout,
        )
        return Worker(
            store,
            self._registry.servable(),
            self._registry.types,
            settings,
            clock=self._clock,
            ledger=self.ledger,
            observers=self.observers,
            withheld=None if self._shares_database(store.url) else self.belonging.withheld,
        )

    def _make_background(self) -> Background:
        return Background(self._connection, self._new_worker, waits=self._can_be_away())

    # --- the store ---

    def forget_parent(self) -> None:
        """In a forked child: nothing is connected and no worker runs; the next call connects anew."""
        if isinstance(self._engine, Store) and self._connection.loop is not None:
            self._is_left_behind = True
        keep_for_ever(self._database, self._kept_database, self._spool, self._background)
        self._connection.forget_parent()
        self._database = self._kept_database = None
        self._spool = self._make_spool()
        self._background = self._make_background()
        self._manual_claims = ManualClaims(self._clock, self._config.lease_ms)
        self._kept_open = False

    async def _ready(self) -> Store:
        """The open store, which knows every type that was declared so far."""
        store = self._connection.store()
        if store is None:
            store = await self._unconnected()
        if self._has_news:
            await self._declare(store)
        return store

    @property
    def _has_news(self) -> bool:
        """Whether there are types that the store is to be told of."""
        return self.declares and bool(self._registry.undeclared)

    async def _unconnected(self) -> Store:
        """The seeds have no word for connecting: the first call connects, and `stop` ends it."""
        store = await self._connection.hold()
        if self._kept_open:
            await self._connection.let_go()
        self._kept_open = True
        return store

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
        path, url = self._config.spool_path, self._store_url
        if path is None and "spool" not in self._config.sources:
            path = default_spool(url)
        if path is None:
            return None
        return spool_at(
            path,
            url,
            self._ready_store,
            self._ready,
            clock=self._clock,
            call_timeout=self._call_timeout,
            declare_again=self._declare_again,
            takes=self._takes,
        )

    def _ready_store(self) -> Store | None:
        """What `_ready` would give without waiting; None if it would have to wait."""
        return None if self._has_news else self._connection.store()

    async def hand_over(self) -> None:
        """Give the store what waits in the spool, or say in the log that it waits on: for a process that is about to
        end. Closing does so by itself."""
        if self._spool is not None:
            await self._spool.hand_over()

    async def _finish(self) -> None:
        for finish in self.before_closing:
            try:
                async with asyncio.timeout(FINISH_SECONDS):
                    await finish()
            except TimeoutError:
                log.warning("left unfinished", what=getattr(finish, "__qualname__", str(finish)), after=FINISH_SECONDS)
        await self.hand_over()

    async def _release(self) -> None:
        if self._spool is not None:
            await self._spool.close()
        if self._database is not None:
            database, self._database = self._database, None
            await database.close()

    async def database(self) -> Database:
        """The open database for what has no place in the store: access, alerts, memory.

        It is opened when it is first asked for, and closed with the store. A SQL store shares its own; one that lies
        elsewhere is there while the store is away.
        """
        self._connection.store()  # which refuses another event loop than the store's
        if self._database is None:
            database = self._make_database(await self._store_of_database())
            await database.open()
            if self._database is not None:  # somebody else was faster
                await database.close()
            else:
                self._database = database
        return self._database

    async def _store_of_database(self) -> Store | None:
        """The store, which may share its database; None if it is away and the database lies elsewhere."""
        try:
            return await self._ready()
        except StoreUnavailable:
            if self._spool is None or self._database_url(self._store_url) == self._store_url:
                raise
            return None

    def _make_database(self, store: Store | None) -> Database:
        url = self._database_url(self._store_url if store is None else store.url)
        made = self._kept_database or database_for(store, url, self._given_clock, call_timeout=self._call_timeout)
        if made.is_in_memory:
            self._kept_database = made  # what is in memory would not be found again in another one
        return made

    async def database_of(self, part: str, *, settle: bool = False) -> Database:
        """The database for what is of a part: memory, agents. `DatabaseElsewhere` if the store's tasks of that part
        belong to another one; with `settle` they belong to this one from now on, if to none yet."""
        if self._shares_database(self._store_url):
            return await self.database()
        return await self.belonging.check(part, settle=settle)

    def _shares_database(self, store_url: str) -> bool:
        """Whether there is no question which database belongs to the store: it is the store."""
        return self._database_url(store_url) == store_url

    async def database_troubles(self) -> list[str]:
        """Why some of the tasks that this process could run are not run here, as far as that can be known now."""
        store = self._connection.store()
        if store is None or self._shares_database(store.url):
            return []
        try:
            return await self.belonging.troubles(store)
        except StoreUnavailable:
            return []  # who serves asks again and again

    @property
    def _call_timeout(self) -> float:
        return self._config.call_timeout_ms / SECOND

    @property
    def _store_url(self) -> str:
        return self._engine if isinstance(self._engine, str) else self._engine.url

    def _database_url(self, store_url: str) -> str:
        given = self._config.database_url if "database" in self._config.sources else None
        return given or default_database(store_url)

    async def _prepare(self, store: Store) -> None:
        for warning in self._config.warnings:
            log.warning("configuration", warning=warning)
        if self.declares:
            self._registry.undeclared.update(self._registry.types)
            await self._declare(store)
        if self._spool is not None:
            self._spool.start()

    async def _declare(self, store: Store) -> None:
        self._registry.check()
        await self._check_followed(store)
        names, self._registry.undeclared = self._registry.undeclared, set()
        try:
            self._learn(await declare(store, [self._registry.types[name] for name in sorted(names)]))
        except BaseException:
            self._registry.undeclared |= names
            raise

    async def _check_followed(self, store: Store) -> None:
        """Refuse a type that comes after one that nobody knows, neither here nor in the store: it would never run."""
        missing = self._registry.followed_elsewhere()
        if not missing:
            return
        known = {record.task_type.name for record in await store.list_types()} | self._registry.types.keys()
        for name, follower in sorted(missing.items()):
            if name not in known:
                raise InvalidConfig(
                    f"The type {follower!r} comes after {name!r}, which nobody has declared, neither this process nor"
                    f" another one with this store. {did_you_mean(name, known - {follower})} If another app declares"
                    " it, start that one first."
                )

    async def _declare_again(self, names: Collection[str]) -> bool:
        """Tell the store once more of this process's types: one that was emptied does not know them any longer.

        False if none of the names is of this process, or if the store knows them all.
        """
        types = self._registry.types
        if not any(name in types for name in names):
            return False
        store = await self._ready()
        known = {record.task_type.name for record in await store.list_types()}
        wanted = types if self.declares else {name: types[name] for name in names if name in types}
        forgotten = [task_type for name, task_type in sorted(wanted.items()) if name not in known]
        if forgotten:
            await declare(store, forgotten)
            log.warning(
                "types declared",
                reason="the store did not know them",
                types=[task_type.name for task_type in forgotten],
            )
        return bool(forgotten)

    async def _find_type(self, task_type: str) -> TaskType | None:
        """A type of this process, else one that another process has registered with the store."""
        known = self._registry.types.get(task_type) or self._types_elsewhere.get(task_type)
        if known is None:
            store = await self._ready()
            records = await store.list_types()
            self._learn(records)
            self._types_elsewhere = {record.task_type.name: record.task_type for record in records}
            known = self._types_elsewhere.get(task_type)
        return known


class RedisTaskScheduler(TaskScheduler):
    """The seeds' own name for a scheduler on Redis; `redis` is a URL or a redis-py client.

    Of a client only the address is taken: the scheduler makes connections of its own.
    """


def _one_of(redis: object, redis_cache: object) -> object:
    if (redis is None) is (redis_cache is None):
        given = "twice, as redis and as redis_cache" if redis is not None else "not at all"
        raise InvalidConfig(f"The store is given {given}. Give it once: init_scheduler('redis://localhost:6379/0').")
    return redis_cache if redis is None else redis


def _engine_of(redis: object) -> str | Store:
    engine = redis if isinstance(redis, str | Store) else url_of_client(redis)
    if engine is None:
        raise InvalidConfig(
            f"The store is a {type(redis).__name__}, which cannot be used."
            " Give a URL, like 'sqlite:///rota.db', 'postgresql://...' or 'redis://...', or a redis-py client."
        )
    return engine


def _seeds_config(redis: str | Store, config: Mapping[str, object] | None) -> Config:
    flags = {"store": redis} if isinstance(redis, str) else None
    return load_config({"scheduler": dict(config or {})}, flags=flags)


# --- one scheduler per process ---------------------------------------------------------------------------------------

_scheduler: TaskScheduler | None = None


def get_scheduler() -> TaskScheduler | None:
    """The scheduler of this process; None if there is none, or if `scheduler.enabled` is false."""
    return _scheduler if _scheduler is not None and _scheduler.config.enabled else None


def set_scheduler(scheduler: TaskScheduler | None) -> None:
    """Make it the scheduler of this process; None for none."""
    global _scheduler
    _scheduler = scheduler


def init_scheduler(
    redis: str | Store | RedisClient | None = None,
    config: Mapping[str, object] | None = None,
    *,
    redis_cache: object = None,
) -> TaskScheduler:
    """Make a scheduler, and make it the one of this process.

    `redis` (or `redis_cache`) is the store's URL or a redis-py client, under the names that the seeds gave it; `config`
    is the content of `scheduler:`.
    """
    scheduler = TaskScheduler(redis, config, redis_cache=redis_cache)
    set_scheduler(scheduler)
    return scheduler
