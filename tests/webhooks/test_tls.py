"""Webhooks over real TLS: the certificate is checked, and against the name, although the address is pinned."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from tests.authority import Authority

from rota.errors import WebhookFailed, WebhookRefused
from rota.testing.waiting import PATIENCE
from rota.webhooks import Resolve, Webhooks, verify

NOW = 1_700_000_000_000
NAME = "hooks.example.org"
SECRET = "a secret that is long enough"


@dataclass
class Seen:
    """What a server was asked."""

    port: int = 0
    connections: int = 0
    names: list[str | None] = field(default_factory=list[str | None])
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])


@asynccontextmanager
async def listening(context: ssl.SSLContext, answer: str = "204 No Content") -> AsyncGenerator[Seen]:
    """A TLS server on loopback that answers every request alike."""
    seen = Seen()

    def named(_connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
        seen.connections += 1
        seen.names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            seen.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
            writer.write(f"HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    context.sni_callback = named
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    seen.port = server.sockets[0].getsockname()[1]
    async with server:
        yield seen


def leading_to(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


HOME = leading_to("127.0.0.1")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def webhooks(authority: Authority) -> Webhooks:
    """Told that loopback is meant, and to trust the test's authority."""
    return Webhooks(allow_private=True, resolve=HOME, timeout=PATIENCE, trust=authority.trust())


async def post(webhooks: Webhooks, port: int, host: str = NAME) -> int:
    return await webhooks.post(f"https://{host}:{port}/in", b'{"a":1}', message_id="m", now=NOW, secret=SECRET)


@pytest.mark.parametrize("host", [NAME, f"{NAME}.", NAME.upper()])
async def test_a_call_goes_to_the_pinned_address_under_the_hosts_own_name(
    authority: Authority, webhooks: Webhooks, host: str
) -> None:
    async with listening(authority.server(NAME)) as server:
        assert await post(webhooks, server.port, host) == 204
    assert server.names == [NAME]
    ((headers, body),) = server.requests
    assert headers["host"] == f"{host.lower()}:{server.port}"
    assert verify(SECRET, headers, body, now=NOW)


@pytest.mark.parametrize("certified", ["other.example.org", "*.org", "127.0.0.1"])
async def test_a_certificate_of_another_name_is_refused_even_if_it_is_the_addresss_own(
    authority: Authority, webhooks: Webhooks, certified: str
) -> None:
    async with listening(authority.server(certified)) as server:
        with pytest.raises(WebhookFailed, match=r"CERTIFICATE_VERIFY_FAILED.*[Hh]ostname mismatch"):
            await post(webhooks, server.port)
    assert server.requests == []


async def test_an_address_as_host_needs_a_certificate_of_that_address(authority: Authority, webhooks: Webhooks) -> None:
    async with listening(authority.server("127.0.0.1")) as server:
        assert await post(webhooks, server.port, "127.0.0.1") == 204
    async with listening(authority.server(NAME)) as server:
        with pytest.raises(WebhookFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await post(webhooks, server.port, "127.0.0.1")
    assert server.requests == []


async def test_a_certificate_that_nobody_vouches_for_is_refused(authority: Authority) -> None:
    webhooks = Webhooks(allow_private=True, resolve=HOME, timeout=PATIENCE)
    async with listening(authority.server(NAME)) as server:
        with pytest.raises(WebhookFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await post(webhooks, server.port)
    assert server.requests == []


async def test_a_certificate_that_has_run_out_is_refused(authority: Authority, webhooks: Webhooks) -> None:
    async with listening(authority.server(NAME, days=-1)) as server:
        with pytest.raises(WebhookFailed, match="expired"):
            await post(webhooks, server.port)
    assert server.requests == []


async def test_an_authority_of_the_house_is_trusted_if_the_environment_says_so(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with listening(authority.server(NAME)) as server:
        assert await post(Webhooks(allow_private=True, resolve=HOME, timeout=PATIENCE), server.port) == 204


async def test_with_the_guard_up_not_even_a_connection_is_made(authority: Authority) -> None:
    async with listening(authority.server(NAME)) as server:
        with pytest.raises(WebhookRefused, match="open internet"):
            await post(Webhooks(resolve=HOME, trust=authority.trust()), server.port)
    assert server.connections == 0


async def test_a_redirect_to_oneself_is_not_followed(authority: Authority, webhooks: Webhooks) -> None:
    async with listening(authority.server(NAME), "307 Elsewhere\r\nlocation: /again") as server:
        with pytest.raises(WebhookFailed, match="redirects") as caught:
            await post(webhooks, server.port)
    assert caught.value.is_final
    assert len(server.requests) == 1


async def test_a_server_that_speaks_no_tls_is_an_error(webhooks: Webhooks) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    async with server:
        with pytest.raises(WebhookFailed, match="cannot be reached"):
            await post(webhooks, server.sockets[0].getsockname()[1])


async def test_an_address_that_cannot_be_connected_to_is_passed_over(authority: Authority) -> None:
    """On this host nobody listens at the second loopback address, as with a name whose IPv6 address leads nowhere."""
    resolve = leading_to("127.0.0.2", "127.0.0.1")
    webhooks = Webhooks(allow_private=True, resolve=resolve, timeout=PATIENCE, trust=authority.trust())
    async with listening(authority.server(NAME)) as server:
        assert await post(webhooks, server.port) == 204
    assert len(server.requests) == 1


async def test_one_private_address_among_good_ones_refuses_them_all(authority: Authority) -> None:
    webhooks = Webhooks(resolve=leading_to("93.184.216.34", "127.0.0.1"), trust=authority.trust())
    async with listening(authority.server(NAME)) as server:
        with pytest.raises(WebhookRefused, match=r"127\.0\.0\.1"):
            await post(webhooks, server.port)
    assert server.connections == 0


async def test_a_name_that_changes_its_mind_is_held_to_its_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebinding: what is connected to is the address that was checked, never the name to be resolved once more."""
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    connected: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async def connect(*, remote_host: str, remote_port: int, **_: object) -> object:
        connected.append(f"{remote_host}:{remote_port}")
        raise OSError("nobody leaves the house in a test")

    monkeypatch.setattr("anyio.connect_tcp", connect)
    with pytest.raises(WebhookFailed, match="nobody leaves the house"):
        await post(Webhooks(resolve=resolve, trust=httpx.create_ssl_context()), 8443)
    assert connected == ["93.184.216.34:8443"]
    assert len(answers) == 1, "it was asked once"
