"""`rota memory`: capture, list, search, compress and count what users said, saw or read."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from rota.cli.invocation import Cli, Session
from rota.cli.output import Column
from rota.cli.pages import CursorOption
from rota.cli.target import bring_built_in
from rota.core.task_type import TriggerMode
from rota.errors import InvalidInput

if TYPE_CHECKING:
    from rota.memory import ChatMessagePush, DocumentPush, Memory, ScreenshotPush

__all__ = ["compress", "ls", "push", "search", "stats"]

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]
DeviceOption = Annotated[str | None, typer.Option("--device", metavar="ID", help="The user's device.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="The user's agent.")]
OnlyDeviceOption = Annotated[str | None, typer.Option("--device", metavar="ID", help="Only of this device.")]
OnlyAgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only of this agent.")]

_COLUMNS: Final = (
    Column("ID", "id", is_id=True),
    Column("CAPTURED", "captured_at"),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("SOURCES", "merge_count", leaves=1),
    Column("MERGED INTO", "merged_into", is_id=True, leaves=2),
    Column("TEXT", "short", gives_way=True),
)
_FOUND: Final = (Column("SIMILARITY", "similarity"), *(column for column in _COLUMNS if column.name != "merged_into"))
_SHORT: Final = 80
"""Characters of a text that a table shows; `--json` has all of it."""
_LONGEST_STDIN: Final = 400_000
"""Bytes: more than a context of the greatest length needs."""


class _Memories(NamedTuple):
    session: Session
    memory: Memory


@asynccontextmanager
async def _memories(cli: Cli) -> AsyncGenerator[_Memories]:
    from rota.memory.part import MemoryPart

    async with cli.session() as session:
        # The workers have told the store how they keep memories; that counts, and not what would be the default here.
        types = {
            **cli.config.tasks,
            **{each.task_type.name: each.task_type for each in await session.store.list_types()},
        }
        config = replace(cli.config, tasks=MappingProxyType(types))
        part = MemoryPart(config=config)
        session.app.host.attach(part)
        yield _Memories(session, part.memory)


async def push(
    cli: Cli,
    user_id: UserArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be remembered; - for stdin.")],
    kind: Annotated[str, typer.Option("--kind", help="chat, screenshot or document.")] = "chat",
    device: DeviceOption = None,
    agent: AgentOption = None,
    role: Annotated[str, typer.Option("--role", help="Who said it, in a chat.")] = "user",
    title: Annotated[str | None, typer.Option("--title", help="Of a document, or of the window.")] = None,
    importance: Annotated[int, typer.Option("--importance", help="0 to 10; what matters is kept longer.")] = 5,
    no_merge: Annotated[bool, typer.Option("--no-merge", help="Never merge it with others.")] = False,
) -> None:
    """Keep a text in a user's memory, and say that the user was active."""
    given = {
        "user_id": user_id,
        "device_id": device,
        "agent_id": agent,
        "importance": importance,
        "enable_merge": not no_merge,
    }
    from rota.memory.types import MEMORY_COMPRESSION

    made = _pushed(kind, _text(text), role, title, given)
    async with _memories(cli) as (session, memory):
        context_id = await _capture(memory, made)
        await bring_built_in(cli, session.store, MEMORY_COMPRESSION.name)
        touched = await _touch(session, user_id, device, agent)
    words = ", ".join(f"{name} {outcome}" for name, outcome in touched.items()) or "no type takes activity here"
    cli.output.one(
        {"user_id": user_id, "context_id": context_id, "touched": touched},
        f"Kept as context {context_id} of {user_id!r}. Upkeep: {words}.",
    )


def _pushed(
    kind: str, text: str, role: str, title: str | None, given: dict[str, Any]
) -> ChatMessagePush | ScreenshotPush | DocumentPush:
    from rota.app.views import choice
    from rota.memory import ChatMessagePush, DocumentPush, Kind, ScreenshotPush
    from rota.memory.pushes import parse

    match choice(Kind, kind, "kind"):
        case Kind.CHAT:
            return parse(ChatMessagePush, {**given, "content": text, "role": role})
        case Kind.SCREENSHOT:
            return parse(ScreenshotPush, {**given, "text": text, "window": title})
        case Kind.DOCUMENT:
            return parse(DocumentPush, {**given, "text": text, "title": title or ""})


async def _capture(memory: Memory, made: ChatMessagePush | ScreenshotPush | DocumentPush) -> int:
    from rota.memory import ChatMessagePush

    if isinstance(made, ChatMessagePush):
        return (await memory.push_message(made)).context_id
    return (await memory.push(made)).data.context_ids[0]


async def _touch(session: Session, user_id: str, device: str | None, agent: str | None) -> dict[str, str]:
    """Every type of the store that takes activity; what became of it, by the name of the type.

    A service does so in the background. Here somebody waits for the answer, and is told.
    """
    names = [
        record.task_type.name
        for record in await session.store.list_types()
        if record.enabled and record.task_type.trigger_mode is TriggerMode.USER_ACTIVITY
    ]
    return {name: (await session.app.touch(name, user_id, device, agent)).outcome.value for name in names}


def _text(given: str) -> str:
    if given != "-":
        return given
    data = sys.stdin.buffer.read(_LONGEST_STDIN + 1)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput("What came by stdin is no UTF-8 text. Convert it first.") from None


async def ls(
    cli: Cli,
    user_id: UserArgument,
    state: Annotated[str | None, typer.Option("--state", help="Only fresh, kept or merged ones.")] = None,
    results: Annotated[bool, typer.Option("--results", help="Only those that others were merged into.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=500, help="At most so many.")] = 50,
    cursor: CursorOption = None,
) -> None:
    """List a user's contexts, newest first."""
    from rota.app.views import choice
    from rota.memory import Scope, State
    from rota.memory.contexts import cursor_of

    async with _memories(cli) as (_, memory):
        page = await (await memory.contexts()).page(
            Scope(user_id),
            states=() if state is None else (choice(State, state, "state"),),
            only_results=results,
            limit=limit,
            cursor=cursor_of(cursor),
        )
    cli.output.page(
        [_row(cli, context.to_dict()) for context in page.contexts],
        _COLUMNS,
        cursor=None if page.cursor is None else str(page.cursor),
        empty=f"Nothing is kept of {user_id!r}. `rota memory push {user_id} TEXT` does so.",
    )


async def search(
    cli: Cli,
    user_id: UserArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should be about.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="At most so many.")] = 10,
) -> None:
    """Find what is most similar to a text in a user's memory."""
    async with _memories(cli) as (_, memory):
        found = await memory.search(user_id, text, limit=limit)
    rows = [_row(cli, one.to_dict()) for one in found]
    cli.output.page(rows, _FOUND, empty=f"Nothing is kept of {user_id!r} that could be compared.")


async def compress(
    cli: Cli, user_id: UserArgument, device: OnlyDeviceOption = None, agent: OnlyAgentOption = None
) -> None:
    """Compress what has settled of a user's memory, here and now. What is younger than five minutes has not."""
    from rota.memory.operator import MemoryOperator

    async with _memories(cli) as (session, _):
        done = await MemoryOperator(session.app, session.operator.principal).compress(user_id, device, agent)
    rest = " More has not settled yet; it is compressed later." if done.has_unsettled else ""
    cli.output.one(
        {"user_id": user_id, **done.to_dict()},
        f"{done.looked_at} contexts were looked at, {done.merged} of them merged into {done.groups}.{rest}",
    )


async def stats(
    cli: Cli, user_id: Annotated[str | None, typer.Argument(metavar="[USER]", help="Left out: all together.")] = None
) -> None:
    """Show a user's memory in numbers, counted now; or all together: many contexts are counted once an hour."""
    async with _memories(cli) as (_, memory):
        figures = await memory.statistics() if user_id is None else (await memory.figures(user_id)).to_dict()
    if user_id is None and figures["counted_at"] is None:
        cli.output.note("Nobody has counted yet: `statistics_update` does, in a worker, when it is first started.")
    cli.output.one(figures if user_id is None else {"user_id": user_id, **figures})


def _row(cli: Cli, context: dict[str, object]) -> dict[str, object]:
    if cli.output.as_json:
        return context
    text = " ".join(str(context["text"]).split())
    short = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
    return {**context, "short": short, "merge_count": context["merge_count"] or 1}
