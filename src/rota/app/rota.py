"""`Rota`: declare what is to be done, say when users are active, and run it.

app = Rota("sqlite:///rota.db")

@app.on_activity(after="30m", cooldown="defer")
async def memory_compression(user_id: str) -> None: ...

await memory_compression.touch(user_id="u1")     # inside `async with app:`
await app.run()                                  # until stopped
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from rota.app.failures import FailureInfo
from rota.app.host import Host
from rota.app.making import schedule_one
from rota.app.results import Receipt, RunInfo, Touch, encode_json
from rota.app.schedules import instant_of
from rota.app.seeds import SchedulerInterface
from rota.app.settings import load_config
from rota.app.sync import SyncRota, SyncTask
from rota.app.time_range import time_range_in
from rota.app.views import SWITCHES, choice
from rota.batches.part import BatchesPart
from rota.clock import Clock, Instant, parse_duration
from rota.config import Config
from rota.core.run_details import RunDetails, decode_details
from rota.core.task import NewTask, RunStatus
from rota.core.task_type import Option, RateLimit, RetryPolicy, TriggerMode
from rota.errors import InvalidConfig, InvalidInput
from rota.events.part import EventsPart
from rota.keys import check_id, check_task_type
from rota.logs import get_logger
from rota.part import Part
from rota.runtime import Health, declare
from rota.runtime.signals import Duration
from rota.stores.base import DEFAULT_PAGE, Counts, Instance, Page, RunQuery, RunRef, RunSort, Store, TypeRecord

if TYPE_CHECKING:
    # Importing Rota imports no engine.
    from rota.batches.agents.registry import GeneratorFunction
    from rota.batches.service import Batches
    from rota.database import Database
    from rota.events.consumer import ConsumerFunction
    from rota.events.delivery import Classify
    from rota.events.events import Events

__all__ = ["Rota", "ScheduleOptions", "TaskHandle", "TypeSettings"]

log = get_logger("rota.app")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
F = TypeVar("F", bound="ConsumerFunction")
G = TypeVar("G", bound="GeneratorFunction")


class TypeSettings(TypedDict, total=False):
    """The settings of a task type, by the names that they have in a configuration."""

    enabled: bool
    description: str
    interval: Duration
    timezone: str
    timeout: Duration
    task_ttl: Duration
    dead_ttl: Duration
    max_retries: int
    mode: Literal["delay", "debounce"]
    max_wait: Duration
    cooldown: Literal["skip", "defer"]
    on_busy: Literal["rerun", "ignore"]
    priority: int
    aging: Duration
    max_pending: int
    concurrency: int
    slots: Literal["shared", "own"]
    rate_limit: RateLimit | Mapping[str, float]
    start_limit: RateLimit | Mapping[str, float]
    misfire: Literal["latest", "all", "skip"]
    overlap: Literal["skip", "queue"]
    jitter: Duration
    grace: Duration
    run_on_start: bool
    retry: RetryPolicy | Mapping[str, Duration]
    version: int
    options: Mapping[str, Option]


class ScheduleOptions(TypedDict, total=False):
    """How a task is made by hand.

    Without a key it gets a new one, so that every call makes a task; with one, a live task of that key is kept
    (`replace=True` changes it). A `user_id` without a key means the user's own task.
    """

    key: str | None
    at: str | datetime | None
    delay: Duration | None
    priority: int | None
    serial: str | None
    permits: int
    cost: int
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    expires: str | datetime | None
    replace: bool
    allow_past: bool


class TaskHandle(Generic[P, R_co]):
    """A function that does the work of a task type. Called, it is still the plain function."""

    __name__: str

    def __init__(self, app: Rota, name: str, function: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, function)
        self.app = app
        self.name = name
        self.function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    async def touch(self, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> Touch:
        """A user was active: what that led to."""
        return await self.app.touch(self.name, user_id, device_id, agent_id)

    async def schedule(self, payload: object = None, **options: Unpack[ScheduleOptions]) -> Receipt:
        """Make a task of this type, now, `at` a time or after a `delay`."""
        return await self.app.schedule(self.name, payload, **options)

    @property
    def sync(self) -> SyncTask:
        """The same calls for code without an event loop."""
        return SyncTask(self.name, self.app.sync)

    def __repr__(self) -> str:
        return f"<task type {self.name!r}>"


class _AsyncTaskHandle(TaskHandle[P, Coroutine[Any, Any, T]]):
    """The same for an async function, so that whoever inspects it sees that calling it must be awaited."""

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.function(*args, **kwargs)


class _Decorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> TaskHandle[P, R]: ...


class Rota(SchedulerInterface):
    """An application's tasks, and the store that they live in.

    `source` is a store's URL, the path of a YAML file, a mapping of the same shape, or a `Config`; without one the
    environment and `rota.yaml` count. `flags` are single settings that win over all others (`max_concurrent=50`).
    `store` is another URL, or a `Store` that the program has made itself. `parts` plug more into it (`rota.part`).
    """

    def __init__(
        self,
        source: str | Path | Mapping[str, object] | Config | None = None,
        *,
        clock: Clock | None = None,
        store: Store | str | None = None,
        parts: Iterable[Part] = (),
        **flags: object,
    ) -> None:
        parts = tuple(parts)
        config = _config(source, {**flags, "store": store} if isinstance(store, str) else flags, parts)
        engine = store if isinstance(store, Store) else config.store_url
        self._serve(Host(engine, config, clock=clock, parts=parts))

    def _serve(self, host: Host) -> None:
        self.host = host
        self.tasks = host.tasks
        self.schedules = host.schedules
        self.sync = SyncRota(self)

    @property
    def config(self) -> Config:
        """The settings that this process runs with."""
        return self.host.config

    # --- declaring ---

    @overload
    def on_activity(self, function: Callable[P, R], /) -> TaskHandle[P, R]: ...

    @overload
    def on_activity(
        self,
        /,
        *,
        after: Duration | None = None,
        name: str | None = None,
        process: bool = False,
        **settings: Unpack[TypeSettings],
    ) -> _Decorator: ...

    def on_activity(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        after: Duration | None = None,
        name: str | None = None,
        process: bool = False,
        **settings: Unpack[TypeSettings],
    ) -> TaskHandle[P, R] | _Decorator:
        """A type that runs for a user, some time `after` their activity (30 minutes unless said)."""
        given = _either(settings, "interval", "after", after, "@app.on_activity")
        decorator = self._decorator("@app.on_activity", TriggerMode.USER_ACTIVITY, given, name, process=process)
        return decorator if function is None else decorator(_function(function, "@app.on_activity", "after='30m'"))

    def every(
        self, interval: Duration, /, *, name: str | None = None, process: bool = False, **settings: Unpack[TypeSettings]
    ) -> _Decorator:
        """A type that runs again and again: the first time at once (unless `run_on_start=False`), then on its grid."""
        _refuse_function(interval, "@app.every", "@app.every('24h')")
        given = _either(settings, "interval", "its first argument", interval, "@app.every")
        return self._decorator("@app.every", TriggerMode.PERIODIC, given, name, process=process)

    def cron(
        self,
        expression: str,
        /,
        *,
        tz: str | None = None,
        name: str | None = None,
        process: bool = False,
        **settings: Unpack[TypeSettings],
    ) -> _Decorator:
        """A type that runs when the clock on the wall of `timezone` (once called `tz`) matches the expression."""
        _refuse_function(expression, "@app.cron", "@app.cron('0 9 * * 1-5', timezone='Europe/Berlin')")
        given = _either(settings, "timezone", "tz", tz, "@app.cron")
        return self._decorator("@app.cron", TriggerMode.CRON, {"cron": expression, **given}, name, process=process)

    @overload
    def task(self, function: Callable[P, R], /) -> TaskHandle[P, R]: ...

    @overload
    def task(
        self, /, *, name: str | None = None, process: bool = False, **settings: Unpack[TypeSettings]
    ) -> _Decorator: ...

    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        process: bool = False,
        **settings: Unpack[TypeSettings],
    ) -> TaskHandle[P, R] | _Decorator:
        """A type that runs when it is scheduled: by `handle.schedule(...)` or by a schedule made at run time."""
        decorator = self._decorator("@app.task", TriggerMode.ONCE, settings, name, process=process)
        return decorator if function is None else decorator(_function(function, "@app.task", "name='...'"))

    def after(
        self, *types: str, name: str | None = None, process: bool = False, **settings: Unpack[TypeSettings]
    ) -> _Decorator:
        """A type that runs for a key when every one of `types` has completed for that key.

        The store remembers the type: once it has left the code, what completes still makes it due, one task for each
        key, which waits for a process that serves it. Declare it with `enabled=False` to be rid of that.
        """
        for one in types:
            _refuse_function(one, "@app.after", "@app.after('memory_compression')")
        names = [one.name if isinstance(one, TaskHandle) else one for one in types]
        return self._decorator("@app.after", TriggerMode.AFTER, {"after": names, **settings}, name, process=process)

    def _decorator(
        self, decorator: str, mode: TriggerMode, settings: Mapping[str, object], name: str | None, *, process: bool
    ) -> _Decorator:
        def declare(function: Callable[P, R], /) -> TaskHandle[P, R]:
            _function(function, decorator, "...")
            task_type = name if name is not None else str(getattr(function, "__name__", function))
            self.host.declare(task_type, function, mode, settings, decorator=decorator, process=process)
            return _handle(self, task_type, function)

        return declare

    def consumer(
        self,
        *event_types: str,
        name: str | None = None,
        concurrency: int = 10,
        timeout: Duration = "5m",
        max_attempts: int | None = None,
        topics: Sequence[str] = (),
        classify: Callable[[Exception], Classify] | None = None,
    ) -> Callable[[F], F]:
        """A function that handles events of these types, wherever a worker of this app runs. What it returns is None,
        or its effect: a function of a connection, committed together with the note that the event is done."""
        for one in event_types:
            _refuse_function(one, "@app.consumer", "@app.consumer('Genesis.Session.NameCreated')")

        def declare(function: F) -> F:
            from rota.events.consumer import Consumer, canonical

            known_as = name if name is not None else str(getattr(function, "__name__", function))
            self.host.part(EventsPart).consumers.add(
                Consumer(
                    name=canonical(known_as),
                    event_types=event_types,
                    function=function,
                    topics=tuple(topics),
                    concurrency=concurrency,
                    timeout_ms=parse_duration(timeout, what="timeout of a consumer"),
                    max_attempts=max_attempts,
                    classify=classify,
                )
            )
            return function

        return declare

    @property
    def batches(self) -> Batches:
        """Batches of items: asked for, made by agents wherever a worker runs, streamed back as they come."""
        return self._batches_part().batches

    def generator(
        self,
        type: str,  # noqa: A002 - the word of requests
        /,
        *,
        agent: str | None = None,
        size: int = 20,
        similarity: float = 0.95,
    ) -> Callable[[G], G]:
        """A function that makes items of a type: `size` of them a call, as a rule, and none that are more alike than
        `similarity`. It is asked with a `GenerationRequest`, and returns texts, mappings with a name, or `Item`s."""
        _refuse_function(type, "@app.generator", "@app.generator('recipe')")

        def declare(function: G) -> G:
            self._batches_part().add_generator(type, function, agent=agent, size=size, similarity=similarity)
            return function

        return declare

    def _batches_part(self) -> BatchesPart:
        part = self.host.part(BatchesPart)
        if not part.is_installed:
            self.host.add(part)
        return part

    async def events(self) -> Events:
        """The outbox, the bus, and flows that wait for events."""
        return await self.host.part(EventsPart).events()

    # --- coming and going ---

    async def __aenter__(self) -> Self:
        """Connected: the store is open and knows the types. Nothing is run.

        If the store is away and there is a spool, touches are taken all the same, and the first call that finds the
        store connects. Every other call raises `StoreUnavailable` until then.
        """
        await self.host.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.host.leave()

    async def run(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - how long stopping may take, not the call
        """Work until stopped: by `stop`, by cancellation, or by SIGINT or SIGTERM in the main thread.

        The first signal lets running work finish for `timeout` seconds, the second one ends it at once. What is not
        finished is released, and runs elsewhere.
        """
        await self.host.run(timeout)

    async def run_until_idle(self) -> int:
        """Work off everything that is due, with the follow-ups that become due by it; how many runs that were."""
        return await self.host.run_until_idle()

    def health(self) -> Health:
        """Whether the worker of this process can do its work now, and if not, why."""
        return self.host.health()

    # --- making work ---

    async def touch(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> Touch:
        """A user was active: what that led to. A type that is unknown or not user_activity is an error."""
        return Touch.of(await self.host.touch(task_type, user_id, device_id, agent_id))

    async def schedule(self, task_type: str, payload: object = None, **options: Unpack[ScheduleOptions]) -> Receipt:
        """Make a task of a type, now, `at` a time or after a `delay`. What is not accepted is an error."""
        check_task_type(task_type)
        store = await self.host.ready()
        # Most tasks are due at once: only those that are not need to know what time it is at the store.
        timed = any(options.get(name) is not None for name in ("at", "delay", "expires"))
        new = self._new_task(task_type, payload, await store.now() if timed else 0, **options)
        if self.host.producer is None:
            (scheduled,) = await store.schedule([new])
        else:
            scheduled = await schedule_one(store, new, self.host.producer)
        return Receipt.of(scheduled, new.identity)

    def _new_task(
        self,
        task_type: str,
        payload: object,
        now: Instant,
        *,
        key: str | None = None,
        at: str | datetime | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        serial: str | None = None,
        permits: int = 1,
        cost: int = 1,
        user_id: str | None = None,
        device_id: str | None = None,
        agent_id: str | None = None,
        expires: str | datetime | None = None,
        replace: bool = False,
        allow_past: bool = False,
    ) -> NewTask:
        timezone = self.config.timezone
        if at is not None and delay is not None:
            raise InvalidInput(f"A {task_type!r} task was given `at` and `delay`. Give one of them.")
        if at is not None:
            due_at = instant_of(at, timezone, now, what="at", allow_past=allow_past)
        else:
            due_at = None if delay is None else now + parse_duration(delay, what="delay")
        return NewTask(
            task_type=task_type,
            key=self._key(key, user_id, device_id, agent_id),
            scheduled_at=due_at,
            payload=encode_json(payload, f"payload of a {task_type!r} task"),
            priority=priority,
            serial=serial,
            permits=permits,
            cost=cost,
            user_id=user_id,
            device_id=device_id,
            agent_id=agent_id,
            expires_at=None if expires is None else instant_of(expires, timezone, now, what="expires"),
            replace=replace,
        )

    def _key(self, key: str | None, user_id: str | None, device_id: str | None, agent_id: str | None) -> str:
        if key is not None:
            return check_id(key, "key")
        if user_id is not None:
            return self.host.keys.build_key(user_id, device_id, agent_id)
        return uuid.uuid4().hex

    # --- queries, and the operator's switches ---

    async def runs(
        self,
        task_type: str | None = None,
        *,
        key: str | None = None,
        status: RunStatus | str | None = None,
        user_id: str | None = None,
        run_id: str | None = None,
        failure: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        sort: RunSort | str = RunSort.NEWEST,
        limit: int = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> Page[RunInfo]:
        """A page of the run log, newest first; or the newest ones sorted, as many as the page says (`looked_at`).

        `since` and `until` bound when they ended: an instant, or how long ago ("2h").
        """
        store = await self.host.ready()
        within = await time_range_in(store, self.config.timezone, since, until)
        query = RunQuery(
            task_type=task_type,
            key=key,
            status=None if status is None else choice(RunStatus, status, "status"),
            user_id=user_id,
            run_id=run_id,
            failure=failure,
            since_at=within.since_at,
            until_at=within.until_at,
            sort=choice(RunSort, sort, "order"),
            limit=limit,
            cursor=cursor,
        )
        page = await store.runs(query)
        return Page([RunInfo.of(run) for run in page.items], page.cursor, page.looked_at)

    async def run_details(self, run: RunInfo) -> RunDetails | None:
        """What a run has left: its traceback, lines, progress and steps. None: nothing, or it is gone by now."""
        store = await self.host.ready()
        (text,) = await store.details([RunRef(run.task_type, run.key, run.token)])
        return None if text is None else decode_details(text)

    async def failures(self, task_type: str | None = None) -> list[FailureInfo]:
        """The groups of failures, the one seen last first."""
        store = await self.host.ready()
        now = await store.now()
        return [FailureInfo.of(found, now) for found in await store.failures(task_type)]

    async def types(self) -> list[TypeRecord]:
        """Every type that the store knows, with the operator's overrides."""
        store = await self.host.ready()
        return await store.list_types()

    async def counts(self) -> dict[str, Counts]:
        """How many tasks of each type are in each state, and running totals."""
        store = await self.host.ready()
        return await store.counts()

    async def instances(self) -> list[Instance]:
        """Every instance that is at work on this store."""
        store = await self.host.ready()
        return await store.instances()

    async def override(self, task_type: str, changes: Mapping[str, object]) -> TypeRecord:
        """Set an operator's overrides of a type (`Overrides` names them), for all instances; None takes one back.

        They survive restarts. What the configuration switches off stays off.
        """
        store = await self.host.ready()
        record = await store.override_type(task_type, changes)
        if record.accepts:
            # The series of a type that was off from its first day is made now.
            await declare(store, [record.task_type])
        return record

    async def disable(self, task_type: str) -> TypeRecord:
        """Switch a type off, for all instances, until it is enabled again: nothing is taken on and nothing starts."""
        return await self.override(task_type, SWITCHES["disable"])

    async def enable(self, task_type: str) -> TypeRecord:
        """Take `disable` back. What the configuration switches off stays off."""
        return await self.override(task_type, SWITCHES["enable"])

    async def freeze(self, task_type: str) -> TypeRecord:
        """Start nothing of a type, for all instances; what comes is taken on and waits until `thaw`."""
        return await self.override(task_type, SWITCHES["freeze"])

    async def thaw(self, task_type: str) -> TypeRecord:
        """Take `freeze` and `drain` back."""
        return await self.override(task_type, SWITCHES["thaw"])

    async def drain(self, task_type: str) -> TypeRecord:
        """Take nothing new on, for all instances; what is there is worked off. Until `thaw`."""
        return await self.override(task_type, SWITCHES["drain"])

    # --- for those who build on it ---

    async def store(self) -> Store:
        """The open store."""
        return await self.host.ready()

    async def database(self) -> Database:
        """The open database, for what has no place in the store: access, alerts, memory."""
        return await self.host.database()


# --- declaring -------------------------------------------------------------------------------------------------------


def _handle(app: Rota, name: str, function: Callable[P, R]) -> TaskHandle[P, R]:
    if inspect.iscoroutinefunction(function):
        return cast("TaskHandle[P, R]", _AsyncTaskHandle(app, name, function))
    return TaskHandle(app, name, function)


def _function(function: Callable[P, R], decorator: str, example: str) -> Callable[P, R]:
    if not callable(function):
        raise InvalidInput(f"{decorator} was given {function!r}, which is no function. Write {decorator}({example}).")
    return function


def _refuse_function(value: object, decorator: str, example: str) -> None:
    if callable(value) and not isinstance(value, TaskHandle):
        raise InvalidInput(f"{decorator} needs to know when. Write it with parentheses: {example}.")


def _either(settings: TypeSettings, setting: str, alias: str, value: object, decorator: str) -> dict[str, object]:
    """The settings, with one that the decorator has a shorter word for."""
    given: dict[str, object] = dict(settings)
    if value is not None and given.get(setting) is not None:
        raise InvalidInput(f"{decorator} was given {setting} and {alias}, which mean the same. Give one of them.")
    return given if value is None else {**given, setting: value}


def _config(
    source: str | Path | Mapping[str, object] | Config | None,
    flags: Mapping[str, object],
    parts: Sequence[Part],
) -> Config:
    sections = [part.section for part in parts if part.section is not None]
    alert_kinds = [kind for part in parts for kind in part.alert_kinds()]
    if isinstance(source, Config):
        if flags:
            raise InvalidInput(f"Rota was given a Config and {', '.join(flags)}. Put them into the Config.")
        return source
    if isinstance(source, str) and "://" in source:
        if flags.get("store") is not None:
            raise InvalidInput("Rota was given two stores: a URL and store=... Give one of them.")
        return load_config(None, flags={**flags, "store": source}, sections=sections, alert_kinds=alert_kinds)
    if isinstance(source, str) and Path(source).suffix in (".db", ".sqlite", ".sqlite3"):
        raise InvalidConfig(f"Rota was given {source!r}, which is no URL. Write it as 'sqlite:///{source}'.")
    if source is not None and not isinstance(source, str | Path | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller is typed
        raise InvalidConfig(
            f"Rota was given {source!r}, which is no configuration. Give a store's URL, the path of a YAML file,"
            " or a mapping."
        )
    return load_config(source, flags=flags, sections=sections, alert_kinds=alert_kinds)
