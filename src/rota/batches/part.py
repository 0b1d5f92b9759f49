"""Batches as a part: the type of subtasks, agents that make items, the collector, a keeper, what the faces show.

app = Rota("sqlite:///rota.db")
batch = await app.batches.start("location_name", 50, style="norse")     # inside `async with app:`
async for item in batch: ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rota.batches.names import DETAIL_BATCH, batch_of_task
from rota.batches.section import BATCHES_SECTION, BatchesConfig
from rota.part import AgentTool, HasHost, MeasuredKind, Part, Related
from rota.runtime.duty import Duty, DutyContext

if TYPE_CHECKING:
    from fastapi import APIRouter
    from prometheus_client.core import Metric

    from rota.batches.agents.registry import GeneratorFunction, ItemTypes
    from rota.batches.generators.base import Generator
    from rota.batches.generators.concurrency import Concurrency
    from rota.batches.service import Batches
    from rota.batches.stats import BatchStats
    from rota.batches.work import BatchWork
    from rota.dashboard.part import Pages
    from rota.events.consumer import Gate

__all__ = ["BatchesPart", "batches_of", "install_batches"]

F = TypeVar("F", bound="GeneratorFunction")


class BatchesPart(Part):
    """Any number of instances may have it. Without a generator the one of the configuration counts."""

    name = "batches"
    section = BATCHES_SECTION
    keeps_data = True

    def __init__(self, *, generator: Generator | None = None) -> None:
        self._given = generator
        self._work: BatchWork | None = None
        self.is_installed = False
        self._gates: list[Gate] = []

    @property
    def config(self) -> BatchesConfig:
        return BATCHES_SECTION.of(self.host.config)

    def new_gate(self) -> Gate | None:
        """For a consumer of batches: on a bus that lies in the database it begins with the first batch. On others it
        joins at once: there, joining takes seconds."""
        from rota.config.urls import scheme_of
        from rota.events.consumer import Gate

        if scheme_of(self.host.config.bus_url) != "local":
            return None
        self._gates.append(Gate())
        return self._gates[-1]

    def open_gates(self) -> None:
        """There is a batch: agents and the collector of this process begin."""
        for gate in self._gates:
            gate.open()

    @cached_property
    def types(self) -> ItemTypes:
        """What can be asked for here."""
        from rota.batches.agents.registry import ItemTypes

        return ItemTypes()

    @cached_property
    def stats(self) -> BatchStats:
        from rota.batches.stats import BatchStats

        return BatchStats()

    @cached_property
    def concurrency(self) -> Concurrency:
        """How many calls the provider bears, as far as this process has found out."""
        from rota.batches.generators.concurrency import Concurrency

        return Concurrency(self.config.concurrency)

    @cached_property
    def batches(self) -> Batches:
        """Everything that can be done with them."""
        from rota.batches.service import Batches

        return Batches(self)

    @cached_property
    def generator(self) -> Generator:
        from rota.batches.generators.choose import generator_for

        if self._given is not None:
            return self._given
        return generator_for(self.config, self.concurrency, clock=self.host.clock, tracer=self.host.tracer)

    def moved(self) -> None:
        self._work, self.types = None, self.types.copy()
        for made_for_the_old_host in ("generator", "concurrency", "stats"):
            self.__dict__.pop(made_for_the_old_host, None)

    def install(self) -> None:
        from rota.batches.setup import add_agent, add_collector, declare_type

        _ = self.generator  # what is wrong with it is said at the start, and not by the first batch
        declare_type(self, self.config)
        add_collector(self)
        for agent in self.types.agents:
            add_agent(self, agent, self.config)
        self.is_installed = True

    def add_generator(
        self, name: str, function: GeneratorFunction, *, agent: str | None, size: int, similarity: float
    ) -> None:
        """Have items of a type made by a function, wherever a worker of this app runs."""
        from rota.batches.setup import add_agent

        known = set(self.types.agents)
        item_type = self.types.add(name, function, agent=agent, size=size, similarity=similarity)
        if self.is_installed and item_type.agent not in known:
            add_agent(self, item_type.agent, self.config)

    async def work(self) -> BatchWork:
        """Every step of a batch, open."""
        from rota.events.part import EventsPart

        events = await self.host.part(EventsPart).events()
        if self._work is None or self._work.database is not events.database:
            from rota.batches.setup import make_work

            self._work = make_work(self.host, events, self.config, self.types, lambda: self.generator, self.stats)
            self.host.before_closing.append(self._close)
        return self._work

    async def work_if_wanted(self) -> BatchWork | None:
        """The same; None where nobody has asked for a database, so that no file is made."""
        return await self.work() if self.host.wants_database else None

    async def _close(self) -> None:
        if self._work is not None:
            work, self._work = self._work, None
            await work.close()
            if "generator" in self.__dict__:
                await self.generator.close()
        if self._close in self.host.before_closing:
            self.host.before_closing.remove(self._close)

    def duties(self, context: DutyContext) -> Sequence[Duty[Any]]:
        from rota.batches.keeper import Keeper, KeeperSettings

        config = self.config
        settings = KeeperSettings(call_timeout_ms=config.call_timeout_ms, retention_ms=config.retention_ms)
        return [Keeper(self.work_if_wanted, context, settings, self.open_gates)]

    def duties_until_idle(self, context: DutyContext) -> Sequence[Duty[Any]]:
        return self.duties(context) if self.is_installed else ()

    def alert_kinds(self) -> Sequence[MeasuredKind]:
        from rota.batches.alert_kinds import ALERT_KINDS

        return ALERT_KINDS

    # --- what the faces show ---

    def routes(self) -> Sequence[APIRouter]:
        from rota.batches.faces import routes

        return [routes.reading, routes.acting, routes.governing]

    def tools(self) -> Sequence[AgentTool]:
        from rota.batches.faces.tools import TOOLS

        return TOOLS

    def pages(self) -> Pages:
        from rota.batches.faces.pages import PAGES

        return PAGES

    async def related(self, task_type: str, key: str) -> Sequence[Related]:
        batch_id = batch_of_task(key) if task_type == DETAIL_BATCH else None
        return () if batch_id is None else (Related("part of the batch", batch_id, f"/batches/{batch_id}"),)

    async def metrics(self) -> Iterable[Metric]:
        if not self.is_installed:
            return ()
        from rota.batches.metrics import families

        return await families(self, await self.work_if_wanted())

    # --- what it keeps about a user ---

    async def erase_user(self, user_id: str) -> Mapping[str, int]:
        if not self.host.wants_database:
            return {}
        from rota.batches.person import erase_user

        erased = await erase_user(await self.host.database(), user_id)
        return {"batches": erased} if erased else {}

    async def export_user(self, user_id: str) -> AsyncIterator[Mapping[str, object]]:
        if not self.host.wants_database:
            return
        from rota.batches.person import export_user

        async for kept in export_user(await self.host.database(), user_id):
            yield kept


def install_batches(app: HasHost, *, generator: Generator | None = None) -> Batches:
    """Have batches at work in an app; what can be done with them."""
    return app.host.add(BatchesPart(generator=generator)).batches


def batches_of(app: HasHost) -> Batches:
    """The batches of an app, whether they are at work in this process or in another one."""
    return app.host.part(BatchesPart).batches
