"""Batches as a configuration has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from rota.batches.accepting import Accepting
from rota.batches.agents.generation import Generation
from rota.batches.agents.registry import ItemTypes
from rota.batches.collecting import Collecting
from rota.batches.dispatching import Dispatching
from rota.batches.ending import Ending
from rota.batches.feed import BatchFeed
from rota.batches.generators.base import Generator
from rota.batches.handler import SubtaskHandler
from rota.batches.limits import limits_of
from rota.batches.names import COLLECTOR, CREATED, DETAIL_BATCH, FAILED, PART, REQUESTED
from rota.batches.offering import Offering
from rota.batches.room import Room
from rota.batches.rows import BatchRows
from rota.batches.section import BatchesConfig
from rota.batches.stats import BatchStats
from rota.batches.waiting import Waiting
from rota.batches.work import BatchWork
from rota.clock import SECOND
from rota.core.task_type import TriggerMode
from rota.events.consumer import Consumer
from rota.events.envelope import Event
from rota.events.events import Events
from rota.events.part import EventsPart
from rota.part import PartHost
from rota.runtime.run import Run

if TYPE_CHECKING:
    from rota.batches.part import BatchesPart

__all__ = ["add_agent", "declare_type", "make_work"]

MAX_RETRIES = 3
"""A subtask may fail so often and be tried again, unless the type's own setting says otherwise."""
_COLLECTED_AT_ONCE = 32
_MARGIN_MS = 30 * SECOND
"""A consumer's own limit lies so far above that of a call: an agent answers for a call that took too long."""


def declare_type(part: BatchesPart, config: BatchesConfig) -> None:
    """The task type of subtasks, with its handler; `tasks.detail_batch` in a configuration changes its settings."""

    async def detail_batch(run: Run) -> str:
        work = await part.work()
        return await work.handler(run)

    limits = limits_of(config)
    settings: dict[str, Any] = {
        "description": "One subtask of a batch: an agent is asked, and its result waited for.",
        "slots": "own",
        "concurrency": config.most_in_flight,
        # The deadline of its batch ends it, a day at most.
        "timeout": "25h",
        "max_retries": MAX_RETRIES,
        "retry": {"base": "1s", "factor": 2.0, "max": "30s"},
    }
    if limits.calls is not None:
        settings["start_limit"] = limits.calls
    if limits.tokens is not None:
        settings["rate_limit"] = limits.tokens
    part.host.database_owner.register(PART, [DETAIL_BATCH])
    part.host.declare(DETAIL_BATCH, detail_batch, TriggerMode.ONCE, settings, decorator="install_batches")


def add_collector(part: BatchesPart) -> None:
    """The consumer of results: those of one batch one after the other, batches side by side."""

    async def collect(event: Event) -> Any:
        work = await part.work()
        return await work.collecting.collect(event)

    part.host.part(EventsPart).consumers.add(
        Consumer(
            name=COLLECTOR,
            event_types=(CREATED, FAILED),
            function=collect,
            gate=part.new_gate(),
            concurrency=_COLLECTED_AT_ONCE,
        )
    )


def add_agent(part: BatchesPart, agent: str, config: BatchesConfig) -> None:
    """The consumer that is an agent: it takes the requests that name it, and no others."""

    async def generate(event: Event) -> Any:
        work = await part.work()
        return await work.generation.answer(event)

    def is_asked(event: Event) -> bool:
        payload = cast("dict[str, object]", event.payload)
        return isinstance(event.payload, dict) and payload.get("agent") == agent

    part.host.part(EventsPart).consumers.add(
        Consumer(
            name=agent,
            event_types=(REQUESTED,),
            function=generate,
            accepts=is_asked,
            gate=part.new_gate(),
            concurrency=config.concurrency,
            timeout_ms=config.call_timeout_ms + _MARGIN_MS,
        )
    )


def make_work(
    host: PartHost,
    events: Events,
    config: BatchesConfig,
    types: ItemTypes,
    generator: Callable[[], Generator],
    stats: BatchStats,
) -> BatchWork:
    """Every step of a batch, over an open database. The generator is made when it is first asked: not to look."""
    limits = limits_of(config)
    rows, outbox = BatchRows(events.database), events.prompt_outbox
    ending = Ending(rows, outbox, stats)
    dispatching, waiting = Dispatching(rows, outbox), Waiting(events.database)
    return BatchWork(
        database=events.database,
        rows=rows,
        room=Room(host.ready, host.clock),
        accepting=Accepting(rows, outbox, events.handles, config),
        offering=Offering(limits, config.per_session),
        dispatching=dispatching,
        waiting=waiting,
        handler=SubtaskHandler(dispatching, waiting),
        generation=Generation(
            types,
            generator,
            outbox,
            host.ready,
            stats,
            host.clock,
            limits=limits,
            call_timeout_ms=config.call_timeout_ms,
        ),
        collecting=Collecting(
            ending, stats, top_up_rounds=config.top_up_rounds, max_retries=lambda: _max_retries(host)
        ),
        ending=ending,
        feed=BatchFeed(rows),
    )


def _max_retries(host: PartHost) -> int:
    declared = host.declared.get(DETAIL_BATCH)
    return MAX_RETRIES if declared is None else declared.max_retries
