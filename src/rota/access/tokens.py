"""Access tokens: made once, shown once, kept as a digest."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Connection, select

from rota.access.principal import Principal, Role, Via
from rota.clock import Instant, isoformat
from rota.database import Database
from rota.database.tables.access import tokens as table
from rota.errors import InvalidInput, UnknownToken

__all__ = ["NewToken", "Token", "Tokens", "digest_of", "new_secret"]

PREFIX: Final = "rota_"
"""Makes a token that leaked into a log or a repository easy to find."""
USED_EVERY_MS: Final = 60_000
"""`last_used_at` is written at most once a minute: looking must not become writing."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept: everything but the secret."""

    id: str
    name: str
    role: Role
    created_at: Instant
    created_by: str
    scope: Mapping[str, Any] = {}
    expires_at: Instant | None = None
    last_used_at: Instant | None = None
    revoked_at: Instant | None = None
    digest: str = ""

    def is_valid(self, now: Instant) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def principal(self, via: Via) -> Principal:
        return Principal(f"token:{self.id}", self.name, self.role, via, self.scope)

    def to_dict(self) -> dict[str, object]:
        """For people and programs; the digest stays here."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role.value,
            "scope": dict(self.scope),
            "created_at": isoformat(self.created_at),
            "created_by": self.created_by,
            "expires_at": isoformat(self.expires_at),
            "last_used_at": isoformat(self.last_used_at),
            "revoked_at": isoformat(self.revoked_at),
        }


class NewToken(NamedTuple):
    """A token that was just made: the only time that its secret is known."""

    token: Token
    secret: str


class Tokens:
    """The tokens of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        name: str,
        role: Role,
        *,
        created_by: str,
        expires_at: Instant | None = None,
        scope: Mapping[str, object] | None = None,
        secret: str | None = None,
    ) -> NewToken:
        """Make a token. `secret` is drawn unless it is given; it is returned once and never again."""
        if not name.strip() or len(name) > 100:
            raise InvalidInput(f"A token needs a name of 1 to 100 characters, not {name[:100]!r}. Say what it is for.")
        drawn = secret or new_secret()
        row = {
            "id": secrets.token_hex(4),
            "name": name,
            "role": role.value,
            "digest": digest_of(drawn),
            "scope": msgspec.json.encode(scope or {}).decode(),
            "created_by": created_by,
            "expires_at": expires_at,
        }

        def write(connection: Connection) -> Token:
            now = self._database.backend.dialect.now(connection)
            connection.execute(table.insert().values(**row, created_at=now))
            return _token({**row, "created_at": now, "last_used_at": None, "revoked_at": None})

        return NewToken(await self._database.write(write), drawn)

    async def list(self) -> list[Token]:
        """All of them, revoked ones too, oldest first."""
        statement = select(table).order_by(table.c.created_at, table.c.id)
        return [_token(row) for row in await self._database.read(lambda c: c.execute(statement).mappings().all())]

    async def find(self, secret: str) -> Token | None:
        """The valid token with this secret, or None."""
        return await self._valid(table.c.digest == digest_of(secret))

    async def get(self, token_id: str) -> Token | None:
        """The valid token with this id, or None."""
        return await self._valid(table.c.id == token_id)

    async def revoke(self, token_id: str) -> Token:
        """End a token now; whoever uses it is refused from the next call on. Revoking again changes nothing."""

        def write(connection: Connection) -> Token | None:
            now = self._database.backend.dialect.now(connection)
            mine = table.c.id == token_id
            connection.execute(table.update().where(mine, table.c.revoked_at.is_(None)).values(revoked_at=now))
            row = connection.execute(select(table).where(mine)).mappings().one_or_none()
            return None if row is None else _token(row)

        token = await self._database.write(write)
        if token is None:
            raise UnknownToken(f"There is no token {token_id!r}. `rota token ls` lists them.")
        return token

    async def remove(self, token_id: str) -> None:
        """Forget a token: for those that live as long as what they were made for, and not for people's."""
        await self._database.write(lambda connection: connection.execute(table.delete().where(table.c.id == token_id)))

    async def remove_expired(self, created_by: str) -> int:
        """Forget what this maker's tokens have left behind after their end; how many."""

        def write(connection: Connection) -> int:
            now = self._database.backend.dialect.now(connection)
            over = (table.c.created_by == created_by) & (table.c.expires_at <= now)
            return connection.execute(table.delete().where(over)).rowcount

        return await self._database.write(write)

    async def _valid(self, condition: Any) -> Token | None:
        def read(connection: Connection) -> tuple[Token | None, Instant]:
            now = self._database.backend.dialect.now(connection)
            lasts = table.c.revoked_at.is_(None) & (table.c.expires_at.is_(None) | (table.c.expires_at > now))
            row = connection.execute(select(table).where(condition, lasts)).mappings().one_or_none()
            return (None if row is None else _token(row)), now

        token, now = await self._database.read(read)
        if token is None:
            return None
        if token.last_used_at is None or now - token.last_used_at >= USED_EVERY_MS:
            used = table.update().where(table.c.id == token.id).values(last_used_at=now)
            await self._database.write(lambda connection: connection.execute(used))
        return token


def new_secret() -> str:
    """A secret that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """What is kept of a secret. It is long and random, so a plain hash is enough: there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token(row: Mapping[Any, Any]) -> Token:
    return Token(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
        scope=msgspec.json.decode(row["scope"]),
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
        revoked_at=row["revoked_at"],
        digest=row["digest"],
    )
