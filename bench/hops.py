"""How far one call goes: the distinct functions of `src/rota` that it enters, and in how many files they lie.

Whoever wants to understand a call has to read these. Five walks, each of them warm (the same was done before):

- `touch`: `POST /api/touch` for a user whose task is pending already, with a token, on SQLite.
- `touch-redis`: the same on Redis; the tokens are in a SQLite file of their own.
- `run`: one task with an async handler that does nothing, from due to settled, in a worker on Redis. What schedules it
  is over before the counting begins: the dispatcher wakes because the time has come.
- `agent`: one scheduled run of the built-in echo agent, from due to settled, in a worker on SQLite, with a socket to
  the MCP server as `rota up` gives it. A plain process, so that it is the same on every machine.
- `bulk`: `POST /api/tasks/bulk` that cancels all tasks of a type, 20 of them, on SQLite, with the number that was
  confirmed.

**What counts as a function:** whatever has a code object of its own, by its file and its qualified name: functions,
methods, properties, coroutines, generators, `__init__` and other special methods that are written out, functions inside
functions, and lambdas (all that stand in one function are one). Comprehensions, generator expressions, class bodies and
the top of modules do not count, nor does what `dataclass` writes. A coroutine that was waiting and goes on is entered:
so the dispatcher's loop counts, which was there before the task was due. `rota.testing` is left out, and so is what
other processes do (the agent's).

**Whose work counts:** that of the event loop, and what it gives to a thread pool. A thread that Rota starts for itself
(heartbeat, sweeper) does not, with all that it has the loop or a pool do: asyncio hands on the context of whoever asks,
so a context variable tells. The questions by which this program finds out that a run is settled are kept out in the
same way, and so is the listener, which on SQLite looks at the file so often that it meets every run. What is left are
duties that look around on the loop now and then. So each call is made `CALLS` times, and what was not entered in every
one of them is dropped.

The figures hardly depend on the machine and its speed. Compare them before and after a change;
`python -m bench.hops --list run` says where they come from.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import httpx

import rota
from rota import Rota
from rota.access import Role
from rota.agents import AGENT, AgentSettings, Caller, install_agents
from rota.api import Service, create_api
from rota.runtime.listener import Listener
from rota.testing.redis_servers import redis_server

__all__ = ["WALKS", "hops"]

CALLS: Final = 5
BULK: Final = 20
DUE_IN: Final = 1.5
"""Seconds from the making of a task until it is due: time to make it, and to let the worker come to rest."""
AHEAD: Final = 0.02
"""Seconds before that at which the counting begins."""
AFTERWARDS: Final = 0.05
"""Seconds after an answer, or after a run is seen to be settled: what is still done about it belongs to it."""
PATIENCE: Final = 60.0

ROOT: Final = Path(rota.__file__).parent
_NO_FUNCTIONS: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"})


class Function(NamedTuple):
    """Where it is, below `src/rota`, and what it is called there."""

    file: str
    name: str


Walk = list[Function]
"""What one call entered, in the order of the first time."""


# --- counting ---------------------------------------------------------------------------------------------------------

_COUNTS: ContextVar[bool] = ContextVar("_COUNTS", default=False)
"""Whether what is done now is done for the call. A new thread begins without: nobody has asked for what it does."""


class Tracer:
    """Notes every function of Rota that is entered while it listens."""

    def __init__(self) -> None:
        self._known: dict[CodeType, Function | None] = {}
        self._entered: dict[Function, None] = {}
        self._listens = False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Ready to listen, to this thread and to those that are started from now on."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        counted = _COUNTS.set(True)
        try:
            with (
                patch.object(ThreadPoolExecutor, "submit", _handing_on(ThreadPoolExecutor.submit)),
                patch.object(Listener, "run_once", _for_nobody(Listener.run_once)),
            ):
                yield
        finally:
            _COUNTS.reset(counted)
            sys.setprofile(None)
            threading.setprofile(None)  # pyright: ignore[reportArgumentType] -- None ends it, as with sys

    def start(self) -> None:
        self._entered = {}
        self._listens = True

    def stop(self) -> Walk:
        self._listens = False
        return list(self._entered)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if not self._listens or event != "call" or not _COUNTS.get():
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = _function(code)
        function = self._known[code]
        if function is not None:
            self._entered.setdefault(function)


def _function(code: CodeType) -> Function | None:
    """What counts as a function of Rota; None if this does not."""
    path = Path(code.co_filename)
    if code.co_name in _NO_FUNCTIONS or not code.co_flags & CO_OPTIMIZED or not path.is_relative_to(ROOT):
        return None
    file = path.relative_to(ROOT)
    return None if file.parts[0] == "testing" else Function(file.as_posix(), code.co_qualname)


def _handing_on(submit: Callable[..., Any]) -> Callable[..., Any]:
    """`submit` of a pool whose threads do it for whoever has asked, as tasks and callbacks of the loop do."""

    @functools.wraps(submit)
    def handing_on(pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        counts = _COUNTS.get()

        def work() -> Any:
            before = _COUNTS.set(counts)
            try:
                return function(*args, **kwargs)
            finally:
                _COUNTS.reset(before)

        return submit(pool, work)

    return handing_on


def _for_nobody(run_once: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A pass of a duty that no call has asked for."""

    @functools.wraps(run_once)
    async def uncounted(*args: Any, **kwargs: Any) -> Any:
        with _uncounted():
            return await run_once(*args, **kwargs)

    return uncounted


@contextmanager
def _uncounted() -> Generator[None]:
    before = _COUNTS.set(False)
    try:
        yield
    finally:
        _COUNTS.reset(before)


def _in_all(walks: Sequence[Walk]) -> Walk:
    return [function for function in walks[0] if all(function in walk for walk in walks[1:])]


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def _touch(tracer: Tracer) -> Walk:
    return await _over_http(tracer, _no_preparation, "/api/touch", _TOUCH)


async def _touch_redis(tracer: Tracer) -> Walk:
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        return await _over_http(tracer, _no_preparation, "/api/touch", _TOUCH, store=server.url)


_TOUCH: Final = {"type": "upkeep", "user_id": "ann"}


async def _no_preparation(_: Rota) -> None:
    return


async def _bulk(tracer: Tracer) -> Walk:
    async def prepare(app: Rota) -> None:
        for number in range(BULK):
            await app.schedule("job", key=f"job{number}", delay="1h")

    meant = {"event": "cancel", "query": {"type": "job", "status": "pending"}, "expected": BULK}
    return await _over_http(tracer, prepare, "/api/tasks/bulk", meant)


async def _over_http(
    tracer: Tracer,
    prepare: Callable[[Rota], Awaitable[None]],
    path: str,
    body: Mapping[str, object],
    *,
    store: str | None = None,
) -> Walk:
    walks: list[Walk] = []
    async with _served(store) as (app, client):
        for _ in range(1 + CALLS):
            await prepare(app)
            await asyncio.sleep(AFTERWARDS)
            tracer.start()
            answer = await client.post(path, json=body)
            await asyncio.sleep(AFTERWARDS)
            walks.append(tracer.stop())
            answer.raise_for_status()
    return _in_all(walks[1:])


@asynccontextmanager
async def _served(store: str | None) -> AsyncGenerator[tuple[Rota, httpx.AsyncClient]]:
    """The API without a socket, on this store or one on SQLite, and a client with an operator's token."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/rota.db"
        app = Rota({"store": store or database, "database": database})
        app.on_activity(after="30m", name="upkeep")(_nothing)
        app.task(name="job")(_nothing)
        async with Service(app) as service:
            made = await (await service.tokens()).add("bench", Role.OPERATOR, created_by="bench")
            headers = {"Authorization": f"Bearer {made.secret}"}
            transport = httpx.ASGITransport(create_api(service))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
                yield app, client


# --- in a worker ------------------------------------------------------------------------------------------------------


async def _run(tracer: Tracer) -> Walk:
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        app = Rota({"store": server.url, "database": f"sqlite:///{folder}/rota.db", "spool": "off", **_RESTFUL})
        app.task(name="job")(_nothing)

        async def make(due_at: datetime) -> None:
            await app.schedule("job", at=due_at)

        async with app:
            return await _from_due_to_settled(tracer, app, "job", make)


async def _agent(tracer: Tracer) -> Walk:
    with _open_folder() as folder:
        app = Rota({"store": f"sqlite:///{folder}/rota.db", **_RESTFUL})
        agents = install_agents(app, AgentSettings(groups_dir=folder / "groups", isolation="process"))

        async def make(due_at: datetime) -> None:
            await agents.schedule_task(
                Caller.person("bench"),
                prompt="hello",
                group="main",
                schedule_type="once",
                schedule_value=due_at.isoformat(),
            )

        async with app:
            await (await agents.groups()).add("main")
            return await _from_due_to_settled(tracer, app, AGENT, make)


_RESTFUL: Final = {
    "lease": "1h",
    "sweep_interval": "1h",
    "call_timeout": "10m",
    "scheduler": {"executor": {"check_interval": "1h"}},
}
"""What comes by the clock comes as rarely as may be."""


async def _from_due_to_settled(
    tracer: Tracer, app: Rota, task_type: str, make: Callable[[datetime], Awaitable[None]]
) -> Walk:
    walks: list[Walk] = []
    await app.start()
    for number in range(1 + CALLS):
        due_at = datetime.now(UTC) + timedelta(seconds=DUE_IN)
        await make(due_at)
        await asyncio.sleep((due_at - datetime.now(UTC)).total_seconds() - AHEAD)
        tracer.start()
        with _uncounted():
            await _until_settled(app, task_type, number + 1)
        walks.append(tracer.stop())
    return _in_all(walks[1:])


async def _until_settled(app: Rota, task_type: str, runs: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await app.counts())[task_type].succeeded_total < runs:  # noqa: ASYNC110 -- the store's own figure counts
            await asyncio.sleep(0.01)
    await asyncio.sleep(AFTERWARDS)


@contextmanager
def _open_folder() -> Generator[Path]:
    """One that others may pass through: agents of root run as another user."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


async def _nothing() -> None:
    return


# --- the table --------------------------------------------------------------------------------------------------------

WALKS: Final[Mapping[str, Callable[[Tracer], Awaitable[Walk]]]] = {
    "touch": _touch,
    "touch-redis": _touch_redis,
    "run": _run,
    "agent": _agent,
    "bulk": _bulk,
}


def hops() -> None:
    """Print all of them."""
    _print(list(WALKS), with_list=False)


def _print(names: Sequence[str], *, with_list: bool) -> None:
    print(f"{'walk':<12}{'functions':>10}{'files':>7}")
    for name in names:
        walk = _traced(WALKS[name])
        files = list(dict.fromkeys(function.file for function in walk))
        print(f"{name:<12}{len(walk):>10}{len(files):>7}", flush=True)
        for file in files if with_list else ():
            print(f"  {file}")
            for function in walk:
                if function.file == file:
                    print(f"    {function.name}")


def _traced(walk: Callable[[Tracer], Awaitable[Walk]]) -> Walk:
    tracer = Tracer()

    async def whole() -> Walk:
        return await walk(tracer)

    with tracer.installed():
        return asyncio.run(whole())


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hops", description="How far one call goes.")
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"Some of: {', '.join(WALKS)}. Default: all.")
    parser.add_argument("--list", action="store_true", help="Also print the functions, file by file.")
    given = parser.parse_args(arguments)
    for name in given.walks:
        if name not in WALKS:
            parser.error(f"There is no walk {name!r}. Choose among: {', '.join(WALKS)}.")
    _print(given.walks or list(WALKS), with_list=given.list)


if __name__ == "__main__":
    main(sys.argv[1:])
