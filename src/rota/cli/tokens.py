"""`rota token` and `rota audit`: who may do what, and who has done it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import CursorOption, WatchOption, with_watch
from rota.clock import parse_duration
from rota.errors import InvalidInput

if TYPE_CHECKING:
    from rota.access import AuditQuery
    from rota.database import Database

__all__ = ["add", "audit_ls", "ls", "revoke"]

_COLUMNS: Final = (
    Column("ID", "id", is_id=True),
    Column("NAME", "name", is_id=True),
    Column("ROLE", "role"),
    Column("CREATED", "created_at", leaves=1),
    Column("EXPIRES", "expires_at"),
    Column("LAST USED", "last_used_at", leaves=2),
    Column("REVOKED", "revoked_at"),
)

_AUDIT_COLUMNS: Final = (
    Column("AT", "at"),
    Column("WHO", "actor", is_id=True),
    Column("VIA", "via", leaves=1),
    Column("ACTION", "action"),
    Column("TARGET", "target", is_id=True),
    Column("OUTCOME", "outcome", gives_way=True),
)


async def add(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for, e.g. grafana.")],
    role: Annotated[
        str, typer.Option("--role", help="viewer looks, operator acts, admin also handles tokens and people's data.")
    ] = "viewer",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="D", help="It ends after this long, e.g. 90d. Default: never.")
    ] = None,
) -> None:
    """Make an access token. It is shown once, and kept as a digest only."""
    # Here, because they bring the database along, and `rota --help` needs none of it.
    from rota.access import Role
    from rota.app.views import choice

    chosen = choice(Role, role, "role")
    lifetime_ms = None if expires is None else parse_duration(expires, what="--expires")
    if lifetime_ms is not None and lifetime_ms <= 0:
        raise InvalidInput(f"--expires {expires!r} would end at once. Give a duration like 90d.")
    async with cli.session() as session:
        expires_at = None if lifetime_ms is None else await session.store.now() + lifetime_ms
        made = await session.operator.add_token(name, chosen, expires_at=expires_at)
    if cli.output.as_json:
        cli.output.one({**made.token.to_dict(), "secret": made.secret})
        return
    cli.output.say(made.secret)
    cli.output.note(
        f"The token {made.token.name!r} ({made.token.role}, id {made.token.id}) is shown this once. Send it as"
        f" `Authorization: Bearer ...`; `rota token revoke {made.token.id}` ends it."
    )


async def ls(cli: Cli) -> None:
    """List the tokens: everything but their secrets."""
    from rota.access import Tokens

    async with cli.session() as session:
        tokens = await Tokens(await session.app.database()).list()
    empty = "No tokens. `rota token add NAME --role operator` makes one."
    cli.output.page([token.to_dict() for token in tokens], _COLUMNS, empty=empty)


async def revoke(
    cli: Cli, token_id: Annotated[str, typer.Argument(metavar="ID", help="The id, as `token ls` prints it.")]
) -> None:
    """End a token now: whoever uses it is refused from the next call on."""
    async with cli.session() as session:
        token = await session.operator.revoke_token(token_id)
    cli.output.one(token.to_dict(), f"The token {token.name!r} ({token.id}) is revoked.")


async def audit_ls(
    cli: Cli,
    actor: Annotated[str | None, typer.Option("--actor", metavar="WHO", help="Only what they did.")] = None,
    action: Annotated[str | None, typer.Option("--action", metavar="A", help="Only this, e.g. task.cancel.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="T", help="Only what was done to this.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, 1 to 200.")] = 50,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List what people did, newest first. One without an outcome was begun, and its process died."""
    from rota.access import AuditQuery

    query = AuditQuery(actor=actor, action=action, target=target, limit=limit, cursor=cursor)
    async with cli.session() as session:
        database = await session.app.database()
        await with_watch(cli, lambda: _audit(cli, database, query), watch=watch)


async def _audit(cli: Cli, database: Database, query: AuditQuery) -> None:
    from rota.access import AuditLog

    entries, cursor = await AuditLog(database).page(query)
    items = [entry.to_dict() for entry in entries]
    cli.output.page(items, _AUDIT_COLUMNS, cursor=cursor, empty="Nothing was done yet, or nothing that matches.")
