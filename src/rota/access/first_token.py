"""The first token of a service: made when there is none, kept in a file that only its owner can read.

Whoever starts the service for the first time must get in, and nobody else may: there is no default password, and no
door that is open until somebody closes it.
"""

from __future__ import annotations

import ipaddress
import secrets
from pathlib import Path
from typing import Protocol

from rota.access.principal import Role
from rota.access.tokens import Tokens, new_secret
from rota.database import Database
from rota.errors import InvalidConfig
from rota.private_files import close_to_others, make_folder, opener

__all__ = ["HasDatabase", "check_bind", "ensure_first_token", "has_tokens", "is_loopback"]

NAME = "first"
MADE_BY = "rota"


class HasDatabase(Protocol):
    """An app that is connected."""

    async def database(self) -> Database:
        """The database with the tokens."""
        ...


async def ensure_first_token(app: HasDatabase, path: Path) -> str | None:
    """The secret that the file holds, if it is valid; a new one, if the database has no valid token at all.

    None: there are tokens, and this host does not know the secret of any. The file has mode 0600 from its first moment.
    """
    tokens = Tokens(await app.database())
    kept = _read(path)
    if kept is not None and await tokens.find(kept) is not None:
        return kept
    if await has_tokens(app):
        return None
    # The file first: a token whose secret nobody has would keep the next start from making another one.
    secret = new_secret()
    _write(path, secret)
    await tokens.add(NAME, Role.ADMIN, created_by=MADE_BY, secret=secret)
    return secret


async def has_tokens(app: HasDatabase) -> bool:
    """Whether any person can get in: tokens of agents open no page."""
    database = await app.database()
    now = await database.now()
    return any(token.is_valid(now) and not token.scope for token in await Tokens(database).list())


def check_bind(host: str, has_tokens: bool) -> None:
    """Refuse to listen to the whole network while nobody has a token."""
    if has_tokens or is_loopback(host):
        return
    raise InvalidConfig(
        f"The service would listen on {host!r}, which others can reach, and there is no access token yet."
        " Make one first (`rota token add NAME --role admin`), or listen on 127.0.0.1."
    )


def is_loopback(host: str) -> bool:
    """Whether only this host can reach an address. A name that is not this host's own may lead anywhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _read(path: Path) -> str | None:
    close_to_others(path)
    try:
        kept = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"The token file {path} cannot be read: {error}. Remove it, or make it readable.") from None
    return kept or None


def _write(path: Path, secret: str) -> None:
    """Replace the file at once: a new one with its mode from the start, then its name."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        make_folder(path.parent)
        with open(beside, "x", encoding="utf-8", opener=opener) as file:
            file.write(secret + "\n")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InvalidConfig(f"The token file {path} cannot be written: {error}. Choose another place.") from None
