"""`rota batch`: ask for items, follow them as they come, look, hold, end; and the operators' way back."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from rota.cli.exits import ExitCode
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import CursorOption, LimitOption, WatchOption, with_watch
from rota.cli.parts import APP_VARIABLE
from rota.cli.target import bring_built_in
from rota.clock import SECOND, SystemClock, parse_duration
from rota.errors import InvalidInput
from rota.stores.base import DEFAULT_PAGE, Store

if TYPE_CHECKING:
    from rota.batches.agents.registry import ItemTypes
    from rota.batches.batch import Batch, Subtask
    from rota.batches.faces.following import Follower
    from rota.batches.operator import BatchOperator
    from rota.batches.part import BatchesPart
    from rota.batches.service import Batches, BatchItem, Switches

__all__ = [
    "cancel",
    "degrade",
    "drain",
    "follow",
    "freeze",
    "items",
    "ls",
    "pause",
    "restore",
    "resume",
    "run",
    "show",
    "switches",
]

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The batch's id, as `batch ls` prints it.")]

_LOOK_SECONDS: Final = 0.5
"""How often `drain` looks whether all batches are over."""

_BATCHES: Final = (
    Column("STATUS", "status"),
    Column("TYPE", "type"),
    Column("ITEMS", "progress"),
    Column("CREATED", "created_at"),
    Column("WHY SHORT", "why", gives_way=True),
    Column("SESSION", "session", is_id=True, leaves=1),
    Column("ID", "id", is_id=True),
)
_SUBTASKS: Final = (
    Column("SUBTASK", "place", is_id=True),
    Column("STATUS", "status"),
    Column("ITEMS", "progress"),
    Column("ATTEMPT", "attempt"),
    Column("ERRORS", "errors"),
    Column("TOOK", "took"),
    Column("ERROR", "said", gives_way=True),
    Column("ID", "id", is_id=True, leaves=1),
)
_KEPT: Final = (
    Column("NUMBER", "number"),
    Column("NAME", "name", is_id=True),
    Column("DESCRIPTION", "description", gives_way=True),
)
_EVERY: Final = (
    Column("NUMBER", "number"),
    Column("OUTCOME", "outcome"),
    Column("NAME", "name", is_id=True),
    Column("TWIN, OR WHY", "twin", gives_way=True),
    Column("DESCRIPTION", "description", gives_way=True, leaves=1),
)


class StatusChoice(StrEnum):
    """Where a batch stands."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DistinctChoice(StrEnum):
    """Among which items no two may be alike."""

    BATCH = "batch"
    SESSION = "session"


class OutcomeChoice(StrEnum):
    """What became of an item."""

    KEPT = "kept"
    DUPLICATE = "duplicate"
    INVALID = "invalid"
    ALL = "all"


class Opened(NamedTuple):
    """What a command works with."""

    part: BatchesPart
    operator: BatchOperator
    store: Store
    follower: Follower

    @property
    def batches(self) -> Batches:
        return self.part.batches


@asynccontextmanager
async def opened(cli: Cli) -> AsyncGenerator[Opened]:
    """The batches of the store, and who acts in the name of whoever sits here."""
    from rota.batches.faces.following import Follower
    from rota.batches.generators.offline import OfflineGenerator
    from rota.batches.operator import BatchOperator
    from rota.batches.part import BatchesPart

    async with cli.session() as session:
        # Nothing is made here: workers do that, and only they must know the provider.
        part = BatchesPart(generator=OfflineGenerator())
        part.types = _types()
        session.app.host.attach(part)
        operator = BatchOperator(session.app, session.operator.principal)
        yield Opened(part, operator, session.store, Follower(cli, part, session.store))


def _types() -> ItemTypes:
    """What can be made: by the app that `ROTA_APP` names, or without one what Rota can."""
    from rota.batches.agents.registry import ItemTypes
    from rota.batches.part import BatchesPart
    from rota.cli.loading import import_app

    named = os.environ.get(APP_VARIABLE)
    return import_app(named, APP_VARIABLE).host.part(BatchesPart).types if named else ItemTypes()


# --- asking for one, and following it --------------------------------------------------------------------------------


async def run(
    cli: Cli,
    item_type: Annotated[str, typer.Argument(metavar="TYPE", help="What to make, e.g. location_name.")],
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="So many items.")],
    style: Annotated[str | None, typer.Option("--style", metavar="TEXT", help="What they should be like.")] = None,
    style_json: Annotated[
        str | None, typer.Option("--style-json", metavar="JSON", help="The same as an object.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Whom it is for. Default: itself alone.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="The user it is made for.")] = None,
    priority: Annotated[int, typer.Option("--priority", metavar="N", help="0 (last) to 10 (first).")] = 5,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="The offline generator makes the same of the same seed.")
    ] = None,
    distinct: Annotated[
        DistinctChoice, typer.Option("--distinct", help="Among which items no two may be alike.")
    ] = DistinctChoice.BATCH,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="D", help="After so long it ends with what it has, e.g. 10m.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", help="After so many tokens it ends with what it has.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The same request under the same key is one batch.")
    ] = None,
    follows: Annotated[bool, typer.Option("--follow", "-f", help="Show the items as they come, to the end.")] = False,
) -> None:
    """Ask for a number of items. With --follow the exit code is 0 if all of them came, else 5."""
    from rota.batches.faces.following import many
    from rota.batches.names import DETAIL_BATCH
    from rota.batches.request import BatchRequest
    from rota.batches.section import BATCHES_SECTION

    request = BatchRequest(
        type=item_type,
        count=count,
        style=_style(style, style_json),
        session_id=session,
        user_id=user,
        priority=priority,
        seed=seed,
        distinct=distinct.value,
        deadline_ms=None if deadline is None else parse_duration(deadline, what="--deadline"),
        budget_tokens=budget,
        idempotency_key=key,
    )
    request.checked(_types(), BATCHES_SECTION.of(cli.config).max_count)  # what is wrong leaves no trace in a store
    async with opened(cli) as at:
        await bring_built_in(cli, at.store, DETAIL_BATCH)
        handle = await at.operator.start(request)
        batch = handle.accepted
        if not handle.is_new:
            cli.output.note("The same was asked for before under this key: this is the batch of then.")
        if follows:
            await at.follower.follow_to_the_end(batch)
            return
        why = await at.follower.why_nothing_comes(batch.id)
    made = f"{many(batch.count, 'item')} of the type {batch.type}, in {many(batch.expected, 'subtask')}."
    cli.output.one(
        {**batch.to_dict(), "is_new": handle.is_new},
        f"{batch.id}\n{made}\n`rota batch follow {batch.id}` shows what comes.",
    )
    if why is not None:
        cli.output.note(why)


def _style(text: str | None, given: str | None) -> str | dict[str, Any]:
    if given is None:
        return text or ""
    if text is not None:
        raise InvalidInput("Both --style and --style-json were given. Use one of them.")
    try:
        content: object = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f'--style-json is no JSON: {error}. Write e.g. \'{{"culture": "norse"}}\'.') from None
    if not isinstance(content, dict):
        raise InvalidInput('--style-json is no object. Write e.g. \'{"culture": "norse"}\'; --style takes a text.')
    return {str(name): value for name, value in content.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON names everything by texts


async def follow(
    cli: Cli,
    batch_id: IdArgument,
    after: Annotated[
        int, typer.Option("--after", metavar="N", min=0, help="Only what came after the event of this number.")
    ] = 0,
) -> None:
    """Show the items of a batch as they come, to its end. The exit code is 0 if all of them came, else 5."""
    async with opened(cli) as at:
        batch = await at.batches.get(batch_id)
        if after > batch.events:
            raise InvalidInput(f"--after is {after}; the batch has told {batch.events} events. Use 0 to that.")
        await at.follower.follow_to_the_end(batch, after)


# --- looking ---------------------------------------------------------------------------------------------------------


async def ls(
    cli: Cli,
    status: Annotated[StatusChoice | None, typer.Option("--status", help="Only these.")] = None,
    item_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only batches of items of this type.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this session.")] = None,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List batches, newest first, with the switches that an operator has set."""
    from rota.batches.service import BatchQuery

    query = BatchQuery(status=None if status is None else status.value, type=item_type, session_id=session)
    async with opened(cli) as at:

        async def list_them() -> None:
            page, switches = await at.batches.list(query, limit, cursor), await at.batches.switches()
            if switches.is_frozen or switches.is_degraded:
                cli.output.note(_state(switches))
            rows = [one.to_dict() if cli.output.as_json else _row(one) for one in page.items]
            empty = "No batches. `rota batch run location_name -n 50 --style norse --follow` asks for one."
            cli.output.page(rows, _BATCHES, cursor=page.cursor, empty=empty, **switches.to_dict())

        await with_watch(cli, list_them, watch=watch)


def _row(batch: Batch) -> dict[str, object]:
    from rota.batches.faces.words import reason_of

    return {
        **batch.to_dict(),
        "progress": f"{batch.items:,} of {batch.count:,}",
        "why": reason_of(batch),
        "session": None if batch.session_id == batch.id else batch.session_id,
    }


async def show(cli: Cli, batch_id: IdArgument) -> None:
    """Show one batch: how it stands and why, its numbers, and its subtasks with what went wrong."""
    async with opened(cli) as at:
        batch, subtasks = await at.batches.get(batch_id), await at.batches.subtasks(batch_id)
        why = await at.follower.why_nothing_comes(batch_id)
    if cli.output.as_json:
        cli.output.one({"batch": batch.to_dict(), "subtasks": [one.to_dict() for one in subtasks]})
        return
    from rota.batches.faces.words import account_of

    cli.output.say(account_of(batch, subtasks))
    if why is not None:
        cli.output.note(why)
    cli.output.say("")
    cli.output.one(_facts(batch))
    cli.output.say("")
    cli.output.page([_subtask_row(one) for one in subtasks], _SUBTASKS, empty="It has no subtasks.")


def _facts(batch: Batch) -> dict[str, object]:
    from rota.batches.faces.follow_views import short_span
    from rota.batches.faces.words import reason_of, style_of

    shown = batch.to_dict()
    budget = "" if batch.budget_tokens is None else f"; the budget is {batch.budget_tokens:,}"
    first, took = batch.first_response_ms, batch.took_ms
    return {
        "id": batch.id,
        "status": batch.status,
        "type": batch.type,
        "agent": batch.agent,
        "style": style_of(batch) or None,
        "items": f"{batch.items:,} of {batch.count:,}",
        "shortfall": reason_of(batch),
        "duplicates": batch.duplicates,
        "invalid": batch.invalid,
        "late results": batch.late,
        "subtasks": f"{batch.done:,} of {batch.expected:,} done, {batch.failed:,} failed",
        "rounds more": batch.rounds,
        "first response": None if first is None else short_span(first),
        "took": None if took is None else short_span(took),
        "tokens": f"{batch.tokens_in:,} in, {batch.tokens_out:,} out{budget}",
        # A batch that is alone is a session and a command of its own.
        **{name: shown[name] for name in ("session_id", "correlation_id") if shown[name] != batch.id},
        **{name: shown[name] for name in ("user_id", "owner", "priority", "seed", "distinct", "idempotency_key")},
        **{name: shown[name] for name in ("created_at", "deadline_at", "ended_at")},
    }


def _subtask_row(subtask: Subtask) -> Mapping[str, object]:
    from rota.batches.faces.follow_views import short_span

    begun, ended = subtask.dispatched_at, subtask.ended_at
    said = ": ".join(word for word in (subtask.error_class, subtask.error) if word)
    return {
        **subtask.to_dict(),
        "place": f"{subtask.index}:{subtask.round}",
        "progress": f"{subtask.kept:,} of {subtask.count:,}",
        "took": None if begun is None or ended is None else short_span(ended - begun),
        "said": said,
    }


async def items(
    cli: Cli,
    batch_id: IdArgument,
    outcome: Annotated[OutcomeChoice, typer.Option("--outcome", help="Only these.")] = OutcomeChoice.KEPT,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
) -> None:
    """List the items of a batch as they came; of a duplicate, which one it is like."""
    async with opened(cli) as at:
        page = await at.batches.items(batch_id, outcome=outcome.value, limit=limit, cursor=cursor)
    rows = [one.to_dict() if cli.output.as_json else _item_row(one) for one in page.items]
    columns = _KEPT if outcome is OutcomeChoice.KEPT else _EVERY
    words = "" if outcome is OutcomeChoice.ALL else f"{outcome} "
    cli.output.page(rows, columns, cursor=page.cursor, empty=f"The batch has no {words}items.")


def _item_row(item: BatchItem) -> dict[str, object]:
    from rota.batches.faces.follow_views import description_of

    return {**item.to_dict(), "description": description_of(item.fields)}


# --- changing one ----------------------------------------------------------------------------------------------------


async def pause(cli: Cli, batch_id: IdArgument) -> None:
    """Begin nothing more of a batch; what agents have begun comes in. Its deadline stays."""
    async with opened(cli) as at:
        batch = await at.operator.pause(batch_id)
    _say(cli, batch, f"Paused. `rota batch resume {batch.id}` lets it go on.")


async def resume(cli: Cli, batch_id: IdArgument) -> None:
    """Let a batch go on."""
    async with opened(cli) as at:
        batch = await at.operator.resume(batch_id)
    _say(cli, batch, "It goes on.")


async def cancel(cli: Cli, batch_id: IdArgument) -> None:
    """End a batch now; what has come stays."""
    async with opened(cli) as at:
        was_open = (await at.batches.get(batch_id)).status.is_open
        batch = await at.operator.cancel(batch_id)
    _say(cli, batch, "Cancelled; what has come stays." if was_open else f"It had ended before: {batch.status}.")


def _say(cli: Cli, batch: Batch, words: str) -> None:
    cli.output.one(batch.to_dict(), f"{words}\n{batch.id}: {batch.items:,} of {batch.count:,} items.")


# --- the way back ----------------------------------------------------------------------------------------------------


async def switches(cli: Cli) -> None:
    """Show whether batches are taken on, and how many are open."""
    async with opened(cli) as at:
        _show_switches(cli, await at.batches.switches())


async def freeze(cli: Cli) -> None:
    """Take no new batch on, until `restore`; those that are open go on to their end."""
    async with opened(cli) as at:
        _show_switches(cli, await at.operator.freeze())


async def degrade(cli: Cli) -> None:
    """Make each new batch one large call, without subtasks, until `restore`; those that are open go on as they are."""
    async with opened(cli) as at:
        _show_switches(cli, await at.operator.degrade())


async def restore(cli: Cli) -> None:
    """Take batches on as usual: `freeze`, `drain` and `degrade` are taken back."""
    async with opened(cli) as at:
        _show_switches(cli, await at.operator.restore())


def _show_switches(cli: Cli, switches: Switches) -> None:
    cli.output.one(switches.to_dict(), _state(switches))


def _state(switches: Switches) -> str:
    """What the switches mean, and the way back."""
    from rota.batches.faces.following import many

    open_ = f"{many(switches.open, 'batch')} {'is' if switches.open == 1 else 'are'} open"
    if not (switches.is_frozen or switches.is_degraded):
        return f"Batches are taken on as usual; {open_}."
    said: list[str] = []
    if switches.is_frozen:
        said.append("Batches are frozen: no new one is taken on, and what is open goes on to its end.")
    if switches.is_degraded:
        said.append("Batches are degraded: each new one is one large call, without subtasks.")
    return "\n".join((*said, f"{open_[:1].upper()}{open_[1:]}. `rota batch restore` takes batches on as usual."))


async def drain(
    cli: Cli,
    timeout: Annotated[  # noqa: ASYNC109 - the word of people
        str | None, typer.Option("--timeout", metavar="D", help="Wait no longer than this, e.g. 10m.")
    ] = None,
) -> None:
    """Take no new batch on, and wait until none is open. The exit code is 5 if that takes longer than --timeout."""
    from rota.batches.faces.following import be_interrupted, many

    patience = None if timeout is None else parse_duration(timeout, what="--timeout") / SECOND
    async with opened(cli) as at:
        switches = await at.operator.freeze()
        try:
            if switches.open:
                cli.output.note(_state(switches))
                await _say_what_stays_open(cli, at)
            left = await _wait_until_none_is_open(cli, at.batches, patience)
        except asyncio.CancelledError:
            raise be_interrupted(cli, "Batches stay frozen. `rota batch restore` takes them on again.") from None
        answer = {**(await at.batches.switches()).to_dict(), "drained": not left}
    if left:
        words = f"After {timeout} {many(left, 'batch')} {'is' if left == 1 else 'are'} still open; nothing was ended."
        cli.output.one(answer, f"{words}\n`rota batch ls --status running` lists what runs. Batches stay frozen.")
        raise typer.Exit(ExitCode.INCOMPLETE)
    cli.output.one(answer, "No batch is open. Batches stay frozen: `rota batch restore` takes them on again.")


async def _say_what_stays_open(cli: Cli, at: Opened) -> None:
    """What would never end by itself before its deadline."""
    from rota.batches.service import BatchQuery

    if (await at.batches.list(BatchQuery(status="paused"), limit=1)).items:
        cli.output.note("Some are paused, until their deadline: `rota batch ls --status paused` lists them.")
    if (why := await at.follower.why_nobody_works()) is not None:
        cli.output.note(why)


async def _wait_until_none_is_open(cli: Cli, batches: Batches, patience: float | None) -> int:
    """How many are left, after as many seconds at most."""
    from rota.batches.faces.follow_views import Countdown

    clock = SystemClock()
    until = None if patience is None else clock.monotonic() + patience
    with Countdown(cli.output) as countdown:
        while True:
            left = (await batches.switches()).open
            if not left or (until is not None and clock.monotonic() >= until):
                return left
            countdown.show(left)
            await asyncio.sleep(_LOOK_SECONDS if until is None else min(_LOOK_SECONDS, until - clock.monotonic()))
