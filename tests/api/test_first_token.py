"""The first token: made once, kept where only its owner reads it; and no open door to the network."""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from rota import Rota
from rota.access import Role, Tokens
from rota.access.first_token import check_bind, ensure_first_token, has_tokens
from rota.errors import InvalidConfig


@pytest.fixture
async def app(sqlite_url: str) -> AsyncGenerator[Rota]:
    async with Rota(sqlite_url) as connected:
        yield connected


async def test_the_first_start_makes_an_admin(app: Rota, tmp_path: Path) -> None:
    path = tmp_path / "below" / "token"
    assert not await has_tokens(app)
    secret = await ensure_first_token(app, path)
    assert secret is not None
    token = await Tokens(await app.database()).find(secret)
    assert token is not None
    assert token.role is Role.ADMIN
    assert await has_tokens(app)
    assert path.read_text().strip() == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["token"]


async def test_the_next_start_finds_it(app: Rota, tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = await ensure_first_token(app, path)
    assert await ensure_first_token(app, path) == first
    assert len(await Tokens(await app.database()).list()) == 1


async def test_with_other_tokens_none_is_made(app: Rota, tmp_path: Path) -> None:
    await Tokens(await app.database()).add("ann", Role.VIEWER, created_by="test")
    path = tmp_path / "token"
    assert await ensure_first_token(app, path) is None
    assert not path.exists()


async def test_a_token_of_agents_lets_no_person_in(app: Rota, tmp_path: Path) -> None:
    await Tokens(await app.database()).add("chat", Role.OPERATOR, created_by="test", scope={"group": "family"})
    assert not await has_tokens(app)
    with pytest.raises(InvalidConfig):
        check_bind("0.0.0.0", await has_tokens(app))
    assert await ensure_first_token(app, tmp_path / "token") is not None


async def test_a_revoked_one_is_replaced(app: Rota, tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = await ensure_first_token(app, path)
    tokens = Tokens(await app.database())
    await tokens.revoke((await tokens.list())[0].id)
    second = await ensure_first_token(app, path)
    assert second is not None
    assert second != first
    assert path.read_text().strip() == second


async def test_a_file_that_is_nonsense_is_replaced(app: Rota, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("nonsense\n")
    path.chmod(0o644)
    assert await ensure_first_token(app, path) == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_place_that_cannot_be_written_is_said_so(app: Rota, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidConfig, match="cannot be"):
        await ensure_first_token(app, tmp_path / "file" / "token")
    with pytest.raises(InvalidConfig, match="cannot be"):
        await ensure_first_token(app, tmp_path)
    assert not await has_tokens(app), "a token whose secret nobody has would lock everybody out"
    assert await ensure_first_token(app, tmp_path / "token") is not None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "::1", "[::1]", "127.9.9.9"])
def test_the_loopback_needs_no_token(host: str) -> None:
    check_bind(host, has_tokens=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "rota.example", "", "localhost.evil.example"])
def test_the_network_needs_one(host: str) -> None:
    with pytest.raises(InvalidConfig, match="rota token add"):
        check_bind(host, has_tokens=False)
    check_bind(host, has_tokens=True)
