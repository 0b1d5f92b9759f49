"""One running service: a connected app, its live feed and where it is reached.

async with Service(app) as service:
    api = create_api(service)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rota.access import Tokens
from rota.api.live import Feed, Picture
from rota.app.rota import Rota
from rota.app.views import alive
from rota.clock import Clock, SystemClock
from rota.errors import InvalidConfig
from rota.stores.base import Counts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from rota.api.problems import Problem

__all__ = ["ProblemPage", "Rendering", "Service"]

ProblemPage = Callable[["Request", "Problem"], "Awaitable[Response]"]
"""Shows a problem to somebody with a browser."""


class Rendering(Protocol):
    """What can write the metrics of this process."""

    async def render(self) -> tuple[str, bytes]:
        """The content type and the text."""
        ...


class Service:
    """What every request needs. As a context manager it holds the app's connection and ends the feed.

    `base_path` is the prefix that a proxy puts before every path. `allowed_hosts` are the names that people reach it
    by, beside those of this host. `is_public`: it is bound to more than the loopback, so numeric addresses are allowed
    too (a name that an attacker rebinds is never one).
    """

    def __init__(
        self,
        app: Rota,
        *,
        metrics: Rendering | None = None,
        base_path: str = "",
        is_public: bool = False,
        allowed_hosts: Iterable[str] = (),
        feed: Feed | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.base_path = _base_path(base_path)
        self.is_public = is_public
        self.allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
        self.clock: Clock = clock or SystemClock()
        self.feed = feed or Feed(self.look, clock=self.clock)
        self.problem_page: ProblemPage | None = None
        """Set by the dashboard: how its pages show an error."""

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.feed.close()
        finally:
            await self.app.__aexit__(kind, error, traceback)

    def path(self, path: str) -> str:
        """A path as the outside knows it: behind the proxy's prefix."""
        return self.base_path + path

    async def tokens(self) -> Tokens:
        """The access tokens of this service."""
        return Tokens(await self.app.database())

    async def look(self) -> Picture:
        """What the live feed shows, as it is now."""
        store = await self.app.store()
        counts, instances, now, badges = await asyncio.gather(
            store.counts(), store.instances(), store.now(), self.app.host.badges()
        )
        return Picture(counts=counts, badges=_badges(badges, counts), instances=len(alive(instances, now)))

    async def badges(self) -> Mapping[str, int]:
        """How much waits for somebody, by the entries of the menu: as the live feed has just seen it, or seen now."""
        if self.feed.is_fresh:
            return self.feed.picture.badges
        counts, badges = await asyncio.gather((await self.app.store()).counts(), self.app.host.badges())
        return _badges(badges, counts)


def _badges(of_parts: Mapping[str, int], counts: Mapping[str, Counts]) -> dict[str, int]:
    """What waits for somebody, with the store's own dead letters; what is 0 is left out."""
    found = {**of_parts, "dead_letters": sum(each.failed for each in counts.values())}
    return {name: count for name, count in found.items() if count}


def _base_path(given: str) -> str:
    path = given.rstrip("/")
    if path and not (path.startswith("/") and "//" not in path and path.isascii() and path.isprintable()):
        raise InvalidConfig(f"The base path {given!r} is no path. Use something like '/rota'.")
    if path == "/api":
        raise InvalidConfig("The base path /api is taken: the API itself lives there. Use something like '/rota'.")
    return path
