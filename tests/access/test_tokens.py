"""Tokens: shown once, kept as a digest, refused when they are over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from tests.opening import opened

from rota.access import Role, Tokens
from rota.clock import HOUR, MINUTE
from rota.database import Database
from rota.errors import InvalidInput, UnknownToken
from rota.testing.clock import FakeClock


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))), clock=clock)) as database:
        yield database


async def test_a_token_is_found_by_its_secret_and_by_nothing_else(database: Database) -> None:
    tokens = Tokens(database)
    made = await tokens.add("deploy", Role.OPERATOR, created_by="cli:me")
    other = await tokens.add("other", Role.VIEWER, created_by="cli:me")
    assert made.secret.startswith("rota_")
    assert made.secret != other.secret
    found = await tokens.find(made.secret)
    assert found is not None
    assert (found.id, found.role) == (made.token.id, Role.OPERATOR)
    for wrong in ("", made.secret[:-1], made.secret + "x", made.token.id, made.token.digest, "rota_'; --", "\ud800"):
        assert await tokens.find(wrong) is None


async def test_the_secret_is_nowhere_in_the_database(database: Database) -> None:
    made = await Tokens(database).add("deploy", Role.ADMIN, created_by="cli:me")
    rows = await database.read(lambda connection: connection.execute(text("SELECT * FROM access_tokens")).all())
    assert made.secret not in repr(rows)
    assert made.secret not in repr(made.token.to_dict())
    assert made.token.digest not in repr(made.token.to_dict())


async def test_a_revoked_token_is_refused(database: Database, clock: FakeClock) -> None:
    tokens = Tokens(database)
    made = await tokens.add("deploy", Role.ADMIN, created_by="cli:me")
    revoked = await tokens.revoke(made.token.id)
    assert revoked.revoked_at == clock.now()
    assert await tokens.find(made.secret) is None
    assert await tokens.get(made.token.id) is None
    clock.advance("1h")
    assert (await tokens.revoke(made.token.id)).revoked_at == revoked.revoked_at
    assert [token.id for token in await tokens.list()] == [made.token.id]


async def test_a_token_ends_by_itself(database: Database, clock: FakeClock) -> None:
    tokens = Tokens(database)
    made = await tokens.add("visit", Role.VIEWER, created_by="cli:me", expires_at=clock.now() + HOUR)
    clock.advance("59m")
    assert await tokens.find(made.secret) is not None
    clock.advance("1m")
    assert await tokens.find(made.secret) is None


async def test_use_is_noted_once_a_minute(database: Database, clock: FakeClock) -> None:
    tokens = Tokens(database)
    made = await tokens.add("deploy", Role.VIEWER, created_by="cli:me")
    await tokens.find(made.secret)
    first = clock.now()
    clock.advance("30s")
    await tokens.find(made.secret)
    (token,) = await tokens.list()
    assert token.last_used_at == first
    clock.advance("30s")
    await tokens.find(made.secret)
    (token,) = await tokens.list()
    assert token.last_used_at == first + MINUTE


async def test_what_cannot_be_is_refused(database: Database) -> None:
    tokens = Tokens(database)
    for name in ("", "   ", "x" * 101):
        with pytest.raises(InvalidInput, match="name"):
            await tokens.add(name, Role.VIEWER, created_by="cli:me")
    with pytest.raises(UnknownToken, match="rota token ls"):
        await tokens.revoke("nope")


def test_each_role_may_do_what_the_one_before_may() -> None:
    assert [[role.allows(needed) for needed in Role] for role in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
