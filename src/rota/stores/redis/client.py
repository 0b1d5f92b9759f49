"""The connection to Redis: what a URL names, and how a command or a script is sent.

Two clients share one address: one on the event loop, for the verbs that thousands of callers use at once, and a
blocking one for the heartbeat and for units of work on threads. Neither repeats a command by itself, because a script
that was cut off may have run.

A socket is never abandoned in the middle of a reply: each call is a task of its own with a deadline of its own, and a
caller that goes away leaves it to be read to its end. The number of calls under way is bounded, and so is the pool.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from redis import Redis, RedisCluster
from redis.asyncio import Redis as LoopRedis
from redis.asyncio import RedisCluster as LoopCluster
from redis.asyncio.cluster import ClusterNode as LoopNode
from redis.asyncio.connection import BlockingConnectionPool as LoopPool
from redis.asyncio.retry import Retry as LoopRetry
from redis.asyncio.sentinel import Sentinel as LoopSentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import BlockingConnectionPool
from redis.exceptions import NoScriptError
from redis.retry import Retry
from redis.sentinel import Sentinel

from rota.call_timeout import seconds_of
from rota.errors import RotaError, StoreError, StoreUnavailable
from rota.stores.redis.address import Address
from rota.stores.redis.driver_errors import may_be_half_done, translated
from rota.stores.redis.keys import declared
from rota.stores.redis.source import script

__all__ = ["Call", "Server", "close_client"]

T = TypeVar("T")

LOOP_CALLS = 16
"""How many calls of the event loop are under way at most, and so how many connections it has."""
THREAD_CONNECTIONS = 8
_CLOSES_FASTER = 10
"""Who closes waits that much less for a reply than who calls."""


class Call(NamedTuple):
    """A script to be called, the key that says where, and its arguments."""

    script: str
    key: str
    args: Sequence[str | bytes]

    def by_digest(self) -> tuple[str | int | bytes, ...]:
        keys = declared(self.key)
        return "EVALSHA", script(self.script).digest, len(keys), *keys, *self.args

    def by_text(self) -> tuple[str | int | bytes, ...]:
        keys = declared(self.key)
        return "EVAL", script(self.script).text, len(keys), *keys, *self.args


class _Client(Protocol):
    def execute_command(self, *args: Any) -> Any: ...

    def pipeline(self, transaction: bool = False) -> Any: ...


class _Closing(Protocol):
    def close(self) -> None: ...


def _sentinels_of(client: _Client) -> list[_Client]:
    """The clients by which a client asks for its master; closing it does not close them."""
    pool: Any = getattr(client, "connection_pool", None)
    return list(getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()))


async def close_client(client: _Client) -> None:
    """Close a client of the event loop, with whatever it has opened."""
    for each in (client, *_sentinels_of(client)):
        await cast("LoopRedis", each).aclose()


def _pools_of(client: _Client) -> list[Any]:
    """The pools of connections of a client; one for each node of a Cluster."""
    nodes: list[Any] = getattr(client, "get_nodes", list[Any])()
    clients = [client, *(node.redis_connection for node in nodes), *_sentinels_of(client)]
    return [pool for each in clients if (pool := getattr(each, "connection_pool", None)) is not None]


class Server:
    """One Redis, Sentinel group or Cluster. What a command does beyond `call_timeout` seconds is unknown."""

    def __init__(self, address: Address, call_timeout: float | None = None) -> None:
        self.address = address
        self.call_timeout = seconds_of(call_timeout)
        self.patience = self.call_timeout / _CLOSES_FASTER
        """How many seconds closing waits for replies."""
        self.name = address.name
        self._blocking: _Client | None = None
        self._loop: _Client | None = None
        self._slots = asyncio.Semaphore(LOOP_CALLS)
        self._calls: set[asyncio.Task[Any]] = set()
        self._making = threading.Lock()
        self.on_half_done: Callable[[], None] = _nobody_asks
        """Called, on any thread, when a script has stopped half-way: what it wrote before its error stays written."""

    # --- coming and going ---

    def open(self) -> None:
        """Make the clients; they connect when they are first used."""
        self._slots = asyncio.Semaphore(LOOP_CALLS)
        self._loop = _loop_client(self.address, self.call_timeout)

    async def close(self) -> None:
        if self._calls:
            # Whoever called has been told by now. A reply that has not come yet will not be read: its connection goes.
            _, late = await asyncio.wait(self._calls, timeout=self.patience)
            for call in late:
                call.cancel()
        loop, self._loop = self._loop, None
        blocking, self._blocking = self._blocking, None
        if loop is not None:
            await close_client(loop)
        if blocking is not None:
            for client in (blocking, *_sentinels_of(blocking)):
                cast("_Closing", client).close()

    async def cut(self) -> None:
        """Break the connections on which somebody still waits for a reply: what was asked for may have been done."""
        for client in (self._blocking, self._loop):
            for pool in [] if client is None else _pools_of(client):
                done = pool.disconnect(inuse_connections=True)
                if done is not None:
                    await done

    @property
    def is_open(self) -> bool:
        return self._loop is not None

    # --- on the event loop ---

    async def command(self, *args: str | int | bytes) -> Any:
        client = self._loop_or_refuse()
        return await self._shielded(lambda: client.execute_command(*args))

    async def many(self, commands: Sequence[Sequence[str | int | bytes]]) -> list[Any]:
        """Several commands in one round trip, not atomic. On a Cluster they go where their keys are."""
        if not commands:
            return []
        client = self._loop_or_refuse()

        async def run() -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()

        return await self._shielded(run)

    async def run(self, name: str, key: str, args: Sequence[str | bytes]) -> Any:
        """A script; `key` says which node it runs on."""
        client = self._loop_or_refuse()
        call = Call(name, key, args)

        async def run() -> Any:
            try:
                return await client.execute_command(*call.by_digest())
            except NoScriptError:
                return await client.execute_command(*call.by_text())

        return await self._shielded(run)

    async def run_many(self, calls: Sequence[Call | Sequence[str | int | bytes]]) -> list[Any]:
        """Scripts and commands in one round trip, not atomic; on a Cluster each goes where its key is."""
        client = self._loop_or_refuse()
        if self.address.kind == "cluster":
            return await asyncio.gather(
                *(self.run(*call) if isinstance(call, Call) else self.command(*call) for call in calls)
            )

        async def run() -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*(call.by_digest() if isinstance(call, Call) else call))
            found = await pipeline.execute(raise_on_error=False)
            for at, (call, answer) in enumerate(zip(calls, found, strict=True)):
                if isinstance(answer, NoScriptError) and isinstance(call, Call):
                    found[at] = await client.execute_command(*call.by_text())
                elif isinstance(answer, Exception):
                    raise answer
            return found

        return await self._shielded(run)

    async def _shielded(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await self._slot()
        task: asyncio.Task[T] = asyncio.get_running_loop().create_task(make())
        self._calls.add(task)
        task.add_done_callback(self._call_is_done)
        done, _ = await asyncio.wait([task], timeout=self.call_timeout)
        if not done:
            raise self._late()
        try:
            return task.result()
        except RotaError:
            raise
        except Exception as error:
            raise self.translated(error) from error

    async def _slot(self) -> None:
        """Whoever gives up while waiting here has sent nothing."""
        try:
            async with asyncio.timeout(self.call_timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise self._late() from None

    def _call_is_done(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        self._slots.release()
        if not task.cancelled():
            # Looked at here, because the caller may have gone: an error that comes later is nobody's surprise.
            task.exception()

    def _loop_or_refuse(self) -> _Client:
        if self._loop is None:
            raise self._closed()
        return self._loop

    # --- walking ---

    async def scan(self, pattern: str, count: int) -> AsyncIterator[list[str]]:
        """Every key of a pattern on every node, page by page. A key may come twice."""
        if self.address.kind != "cluster":
            async for page in self._pages(self.command, "SCAN", ("MATCH", pattern, "COUNT", count)):
                yield page
            return
        for node in cast("LoopCluster", self._loop_or_refuse()).get_primaries():
            client = LoopRedis(
                host=node.host, port=int(node.port), **_options(self.address, LoopRetry, self.call_timeout)
            )
            try:
                ask = partial(self._ask, client)
                async for page in self._pages(ask, "SCAN", ("MATCH", pattern, "COUNT", count)):
                    yield page
            finally:
                await client.aclose()

    async def members(self, key: str, count: int, *, ranked: bool) -> AsyncIterator[list[str]]:
        """Every member of a sorted or a plain set, page by page."""
        scan = ("ZSCAN", key) if ranked else ("SSCAN", key)
        async for page in self._pages(self.command, *scan, ("COUNT", count)):
            yield page

    async def _ask(self, client: LoopRedis, *args: str | int | bytes) -> Any:
        return await self._shielded(lambda: cast("_Client", client).execute_command(*args))

    async def _pages(
        self, ask: Callable[..., Awaitable[Any]], *parts: str | tuple[str | int, ...]
    ) -> AsyncIterator[list[str]]:
        *command, options = parts
        cursor = 0
        while True:
            cursor, found = await ask(*command, cursor, *options)
            pages = cast("list[bytes | tuple[bytes, float]]", found)
            yield [(each[0] if isinstance(each, tuple) else each).decode() for each in pages]
            if int(cursor) == 0:
                return

    # --- on any thread ---

    def command_blocking(self, *args: str | int | bytes) -> Any:
        return self._guarded(lambda client: client.execute_command(*args))

    def many_blocking(self, commands: Sequence[Sequence[str | int | bytes]]) -> list[Any]:
        if not commands:
            return []

        def run(client: _Client) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return pipeline.execute()

        return self._guarded(run)

    def run_blocking(self, name: str, key: str, args: Sequence[str | bytes]) -> Any:
        call = Call(name, key, args)
        return self._guarded(lambda client: _evaluate(client, call))

    def run_many_blocking(self, calls: Sequence[Call | Sequence[str | int | bytes]]) -> list[Any]:
        """Scripts and commands in one round trip, not atomic; on a Cluster each goes where its key is."""

        def one_by_one(client: _Client) -> list[Any]:
            return [
                _evaluate(client, call) if isinstance(call, Call) else client.execute_command(*call) for call in calls
            ]

        def together(client: _Client) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*(call.by_digest() if isinstance(call, Call) else call))
            found = pipeline.execute(raise_on_error=False)
            for at, (call, answer) in enumerate(zip(calls, found, strict=True)):
                if isinstance(answer, NoScriptError) and isinstance(call, Call):
                    found[at] = client.execute_command(*call.by_text())
                elif isinstance(answer, Exception):
                    raise answer
            return found

        return self._guarded(one_by_one if self.address.kind == "cluster" else together)

    def _guarded(self, function: Callable[[_Client], T]) -> T:
        if self._loop is None:
            raise self._closed()
        try:
            return function(self._blocking_client())
        except RotaError:
            raise
        except Exception as error:
            raise self.translated(error) from error

    def _blocking_client(self) -> _Client:
        with self._making:
            if self._blocking is None:
                self._blocking = _blocking_client(self.address, self.call_timeout)
            return self._blocking

    # --- what can be said ---

    def translated(self, error: Exception) -> StoreError:
        """What an error of the driver means; none of them gets past this."""
        if may_be_half_done(error):
            self.on_half_done()
        return translated(self.name, error)

    def _late(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"The store {self.name} did not answer within {self.call_timeout:g} s."
            " Whether the call took effect is unknown."
        )

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"The store {self.name} is not open. Use it inside `async with`, or open it first.")

    def listening_client(self, attempt: int = 0) -> LoopRedis:
        """A client of its own for a subscription, which holds its connection for long.

        Every node of a Cluster hears every wake-up: with each attempt another one of the address is listened to.
        """
        if self.address.kind == "cluster":
            host, port = self.address.hosts[attempt % len(self.address.hosts)]
            return LoopRedis(host=host, port=port, **_options(self.address, LoopRetry, self.call_timeout))
        return cast("LoopRedis", _loop_client(self.address, self.call_timeout))


def _nobody_asks() -> None:
    """Where no worker runs, the next one's reconciler finds what there is to repair."""


def _evaluate(client: _Client, call: Call) -> Any:
    try:
        return client.execute_command(*call.by_digest())
    except NoScriptError:
        return client.execute_command(*call.by_text())


# --- clients --------------------------------------------------------------------------------------------------------


def _options(address: Address, retry: type[Retry] | type[LoopRetry], seconds: float) -> dict[str, Any]:
    """No command is ever repeated by the driver: a script whose reply was lost may have run."""
    return {
        **address.options,
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": retry(NoBackoff(), 0),
        "protocol": 2,
    }


_CLUSTER: dict[str, Any] = {"reinitialize_steps": 0}
"""A redirection changes the table of slots and nothing else. By itself the driver closes all of its connections with
every fifth one, under the calls that are on them."""


def _loop_client(address: Address, seconds: float) -> _Client:
    options = _options(address, LoopRetry, seconds)
    match address.kind:
        case "cluster":
            nodes = [LoopNode(host, port) for host, port in address.hosts]
            client: Any = LoopCluster(startup_nodes=nodes, max_connections=LOOP_CALLS, **_CLUSTER, **options)
        case "sentinel":
            sentinel: Any = LoopSentinel(address.hosts, sentinel_kwargs=address.sentinel_options, **options)
            client = sentinel.master_for(address.service)
        case _:
            client = LoopRedis.from_pool(_pool(cast("Any", LoopPool), address, LOOP_CALLS, seconds, options))
    return cast("_Client", client)


def _blocking_client(address: Address, seconds: float) -> _Client:
    options = _options(address, Retry, seconds)
    match address.kind:
        case "cluster":
            nodes = [ClusterNode(host, port) for host, port in address.hosts]
            client: Any = RedisCluster(startup_nodes=nodes, **_CLUSTER, **options)
        case "sentinel":
            sentinel: Any = Sentinel(address.hosts, sentinel_kwargs=address.sentinel_options, **options)
            client = sentinel.master_for(address.service)
        case _:
            pool = _pool(cast("Any", BlockingConnectionPool), address, THREAD_CONNECTIONS, seconds, options)
            client = Redis.from_pool(pool)
    return cast("_Client", client)


def _pool(kind: Any, address: Address, size: int, seconds: float, options: dict[str, Any]) -> Any:
    return kind.from_url(address.plain_url, max_connections=size, timeout=seconds, **options)
