"""A part: what plugs into Rota. Memory upkeep, scheduled agents and alerts are parts, and so is whatever you add.

A part brings a name and whatever it likes of the rest: its own section of the configuration, task types with handlers,
duties that run beside every worker, kinds of alerts, routes and pages of the service, commands, metrics, and what it
keeps about a user.
The faces collect the parts; nobody else needs to know of one.

    app = Rota("sqlite:///rota.db", parts=[Greeter()])

A part belongs to one host. `host` is there from `attach` on; whatever is asked of a part is asked after that.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeVar

from rota.clock import Clock, Instant
from rota.config import Config, Section
from rota.core.alert import AlertKind, AlertRule, AlertUnit
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import InvalidConfig
from rota.runtime.database_owner import DatabaseOwnership
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.handler import HandlerFunction
from rota.stores.base import Store

if TYPE_CHECKING:
    # What the faces take is theirs: a part brings it, and a process without that face never imports it.
    from fastapi import APIRouter
    from opentelemetry.trace import Tracer
    from prometheus_client.core import Metric
    from starlette.types import ASGIApp
    from typer import Typer

    from rota.access import Principal
    from rota.api.service import Service
    from rota.dashboard.part import Pages
    from rota.database import Database

__all__ = [
    "AgentTool",
    "AlertContext",
    "Attention",
    "CheckResult",
    "HasHost",
    "Measured",
    "MeasuredKind",
    "Part",
    "PartHost",
    "Related",
    "ToolCaller",
]

P = TypeVar("P", bound="Part")


class PartHost(Protocol):
    """What a part may use of the host that it is installed in."""

    @property
    def config(self) -> Config: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def declared(self) -> Mapping[str, TaskType]:
        """The types of this process."""
        ...

    @property
    def parts(self) -> Mapping[str, Part]:
        """Every part by its name, whether it is at work here or in another process."""
        ...

    @property
    def tracer(self) -> Tracer | None:
        """What makes spans of OpenTelemetry, if the app was told to make some (`rota.telemetry.trace`)."""
        ...

    @property
    def before_closing(self) -> list[Callable[[], Awaitable[None]]]:
        """Who has begun something in the background: each is awaited before the store is closed, within limits."""
        ...

    @property
    def database_owner(self) -> DatabaseOwnership:
        """Which database the tasks of a part belong to."""
        ...

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
        ...

    def check_schedule_first(self, task_type: str, check: Callable[[str], Awaitable[None]]) -> None:
        """Ask `check` before a schedule of this type is made or changed as any other is, with its id: whoever keeps
        more about some of them than a trigger and a payload refuses those, with the way to go."""
        ...

    def add(self, part: P) -> P:
        """Bring a part in, and have it at work in this process."""
        ...

    def part(self, kind: type[P]) -> P:
        """The part of a kind, whether it is at work here or not."""
        ...

    async def touch(self, task_type: str, user_id: str, device_id: str | None, agent_id: str | None) -> object:
        """A user was active."""
        ...

    async def ready(self) -> Store:
        """The open store."""
        ...

    async def database(self) -> Database:
        """The open database."""
        ...

    @property
    def wants_database(self) -> bool:
        """Whether somebody wants a database here: it is the store, it is configured, or it is in use already. A part
        that is at work everywhere leaves no file where nobody has asked for one."""
        ...

    async def database_of(self, part: str, *, settle: bool = False) -> Database:
        """The database, unless the tasks of the part belong to another one."""
        ...


class HasHost(Protocol):
    """An app, whichever face it has."""

    @property
    def host(self) -> PartHost: ...


class ToolCaller(NamedTuple):
    """The agent that calls a tool: where, of which group, and in whose name that is written down."""

    host: PartHost
    group: str
    principal: Principal


@dataclass(frozen=True, kw_only=True)
class AgentTool:
    """A tool for agents, on the MCP server. Whoever may use it at all is seen to before it is called."""

    name: str
    title: str
    function: Callable[..., Awaitable[Any]]
    """Called with the `caller` (`ToolCaller`) and what a model says; each is annotated, and so is the answer, a model
    of pydantic's. What it raises of `rota.errors` is told to the model. Its docstring speaks to the model, too."""
    example: str
    """The arguments of a good call, as JSON, for whoever got one wrong."""
    reads: bool = False
    """Whether it changes nothing: then it is for tokens that may only look as well."""
    is_for_runs: bool = False
    """Whether a scheduled run may use it, though it changes something."""


class Related(NamedTuple):
    """What a task belongs to, as its page shows it: a batch, a schedule of an agent."""

    words: str
    """What the task is of it, like `part of the batch`."""
    name: str
    path: str
    """Its page."""
    status: str | None = None


class Attention(NamedTuple):
    """Something that a person should look at: what, in a sentence, since when, and the page that says more.

    Those of one title are shown as one, by their subjects and values where they have them.
    """

    title: str
    text: str
    since_at: Instant
    path: str
    subject: str = ""
    """What it is about: a task type, an instance."""
    value: str = ""
    """How much it is now, in few words."""
    shown_at: str = ""
    """The page of what it is about, where there is one."""


@dataclass(frozen=True)
class CheckResult:
    """What one check of `rota doctor` found; `advice` says what to do about it."""

    check: str
    status: Literal["ok", "warning", "error"]
    detail: str
    advice: str = ""


class Measured(NamedTuple):
    """How much there is of what a kind looks at: of which subject, in the unit of the kind."""

    subject: str
    """A task type where the kind takes one; else what people call it, like `outbox`."""
    amount: float
    rule: str | None = None
    """The rule that it was measured for, by its name; None if it is the same for every rule of the kind."""


@dataclass(frozen=True)
class AlertContext:
    """What a kind is measured with: the open store, the open database, and the rules of the kind."""

    store: Store
    database: Database
    rules: Sequence[AlertRule]


_KIND_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, kw_only=True)
class MeasuredKind(AlertKind):
    """A kind of alerts that a part brings. Holding it against the thresholds, and the telling, are not its business."""

    unit: AlertUnit = AlertUnit.NUMBER
    words: str
    """What people are told when it fires, with {value}, {limit}, {subject} and {window} in their places."""
    measure: Callable[[AlertContext], Awaitable[Iterable[Measured]]]
    """How much there is now. A subject that it leaves out is gone. It is asked in each check interval, by one instance
    at a time; if it raises or takes too long, its alerts stay as they are."""

    def __post_init__(self) -> None:
        # A mistake of whoever writes a part: said at once, not when it fires for the first time.
        if not _KIND_NAME.fullmatch(self.name):
            raise InvalidConfig(f"A kind of alerts cannot be called {self.name!r}. Use small letters, digits and '_'.")
        try:
            self.words.format(value="", limit="", subject="", window="")
        except (LookupError, ValueError, AttributeError) as error:
            raise InvalidConfig(
                f"The words of the kind {self.name!r} cannot be filled in ({error!r})."
                " Use {value}, {limit}, {subject} and {window}."
            ) from None


class Part:
    """One part. Each method has a default that brings nothing, so a part says only what it has."""

    name: ClassVar[str]
    section: ClassVar[Section[Any] | None] = None
    """Its own settings, under its own name in the configuration (`rota.config.Section`)."""
    keeps_data: ClassVar[bool] = False
    """Whether its tasks are about something in the database: one with another database then leaves them alone."""
    is_always_at_work: ClassVar[bool] = False
    """Whether every worker has its duties, also where nobody has installed it."""

    host: PartHost

    def attach(self, host: PartHost) -> None:
        """The host that it belongs to. It may never be installed there: its faces are shown all the same, because
        another process with the same store and database may have it at work."""
        self.host = host

    def moved(self) -> None:
        """The host has another store and database from now on, and another clock: whatever was kept of the old ones is
        to be fetched anew. What is set here is put back with the rest (`rota.app.moved`)."""

    def install(self) -> None:
        """Declare its types and handlers with the host: this process has it at work."""

    def duties(self, context: DutyContext) -> Sequence[Duty[Any]]:
        """What runs beside every worker of a process that has it at work."""
        return ()

    def duties_until_idle(self, context: DutyContext) -> Sequence[Duty[Any]]:
        """Those without which `run_until_idle` would leave something that is due: they run beside it."""
        return ()

    async def count_open(self) -> int:
        """How much of what is due the duties beside `run_until_idle` have not done yet."""
        return 0

    def alert_kinds(self) -> Sequence[MeasuredKind]:
        """What rules under `alerts` can look at because of it. Asked for before there is a host, too, since it decides
        which rules a configuration may have; measured where the rules are looked at."""
        return ()

    # --- what the faces show ---

    def routes(self) -> Sequence[APIRouter]:
        """Routes of the HTTP API, made with `rota.api.routing.routes_for`."""
        return ()

    def endpoints(self, service: Service) -> Sequence[tuple[str, ASGIApp, Sequence[str]]]:
        """Whole ASGI applications of the service, each with its path and methods. They see to the role themselves."""
        return ()

    def tools(self) -> Sequence[AgentTool]:
        """Tools of the MCP server, for the agents of a group."""
        return ()

    def pages(self) -> Pages | None:
        """Pages of the dashboard."""
        return None

    def commands(self, root: Typer) -> None:
        """Add commands to the tree, with `rota.cli.invocation.command` and `group`. Those of the built-in parts are in
        the tree without them (`rota.app.command_homes`)."""

    async def diagnose(self, config: Config) -> Sequence[CheckResult]:
        """What `rota doctor` should know of it on this host. There may be no host of parts."""
        return ()

    async def metrics(self) -> Iterable[Metric]:
        """What it counts, in Prometheus' families. Asked for at most once in a few seconds."""
        return ()

    async def related(self, task_type: str, key: str) -> Sequence[Related]:
        """What of its own a task belongs to. Asked for by the page of a task, while somebody looks at it."""
        return ()

    async def attention(self) -> Sequence[Attention]:
        """What a person should look at now; the overview shows it."""
        return ()

    async def badges(self) -> Mapping[str, int]:
        """How much waits for somebody, by the entry of the menu that leads there: it is shown there while it is not 0,
        and kept up to date. Asked for several times a second while somebody has a page open, so it must cost little."""
        found = await self.attention()
        return {self.name: len(found)} if found else {}

    # --- what it keeps about a user ---

    async def erase_user(self, user_id: str) -> Mapping[str, int]:
        """Remove all that it keeps about a user; how much that was, by what it is called."""
        return {}

    async def export_user(self, user_id: str) -> AsyncIterator[Mapping[str, object]]:
        """All that it keeps about a user."""
        for nothing in ():
            yield nothing
