"""Webhooks: signed, bounded, and never to an address that is not of the open internet unless somebody said so."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput, WebhookFailed, WebhookRefused
from rota.testing.waiting import PATIENCE
from rota.webhooks import MAX_ANSWER_BYTES, Webhooks, endpoint_of, is_public, sign, verify

NOW = 1_700_000_000_000
SECRET = "whsec_" + base64.b64encode(b"a key of twenty-four bytes").decode()


async def nowhere(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host}:{port} was asked for; the text alone should have been refused")


# --- addresses -------------------------------------------------------------------------------------------------------

TRICKS = [
    "http://example.org/",  # not https
    "HTTP://example.org/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://example.org/",
    "javascript:alert(1)",
    "//example.org/",
    "example.org",
    "https://",
    "https:///path",
    "https://127.0.0.1/",
    "https://127.1/",  # short form
    "https://127.0.1/",
    "https://2130706433/",  # decimal
    "https://0x7f000001/",  # hex
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",  # octal
    "https://017700000001/",
    "https://127.0.0.1./",  # trailing dot
    "https://127.000.000.001/",
    "https://0/",
    "https://0.0.0.0/",
    "https://255.255.255.255/",
    "https://10.0.0.1/",
    "https://172.16.5.4/",
    "https://192.168.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/",  # a cloud's own, in public space
    "https://100.64.0.1/",  # carrier-grade NAT
    "https://100.100.100.200/",
    "https://192.0.0.192/",
    "https://198.18.0.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",  # NAT64
    "https://[2002:7f00:1::]/",  # 6to4
    "https://[fd00:ec2::254]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[::1",
    "https://[not-an-address]/",
    "https://user@example.org/",
    "https://user:secret@example.org/",
    "https://example.org@127.0.0.1/",
    "https://127.0.0.1#@example.org/",
    "https://example.org\\@127.0.0.1/",
    "https://example.org /",
    "https://exa\nmple.org/",
    "https://exam\tple.org/",
    "https://example.org\0/",
    "https://１２７.０.０.１/",  # noqa: RUF001 - full-width digits
    "https://127。0。0。1/",  # ideographic full stops
    "https://%31%32%37.0.0.1/",
    "https://ex%61mple.org/",
    "https://example.org:99999/",
    "https://example.org:-1/",
    "https://example.org:a/",
    "https://exam_ple..org/",
    "https://" + "a" * 300 + ".org/",
    "https://example.org/" + "a" * 3_000,
]


@pytest.mark.parametrize("url", TRICKS)
def test_an_address_that_is_not_of_the_open_internet_is_refused_by_its_text(url: str) -> None:
    with pytest.raises(WebhookRefused):
        Webhooks().check(url)


async def test_what_the_text_gives_away_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(WebhookRefused):
        await Webhooks(resolve=nowhere).post("https://[::1]/", b"{}", message_id="m", now=NOW)


@pytest.mark.parametrize("host", ["localhost", "localhost.", "LOCALHOST", "rebind.example.org", "bücher.example"])
@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["::1"], ["1.1.1.1", "10.0.0.1"], ["::ffff:169.254.169.254"], ["fd00::1"], ["0.0.0.0"]],
)
async def test_a_name_is_judged_by_every_address_it_has(host: str, answers: list[str]) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return answers

    with pytest.raises(WebhookRefused, match="no address of the open internet"):
        await Webhooks(resolve=resolve).post(f"https://{host}/", b"{}", message_id="m", now=NOW)


async def test_localhost_is_refused_by_the_real_resolver() -> None:
    with pytest.raises(WebhookRefused):
        await Webhooks().post("https://localhost/", b"{}", message_id="m", now=NOW)


async def test_a_name_is_resolved_once_so_it_cannot_answer_differently_later() -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    async with listening(ok) as server:
        webhooks = Webhooks(allow_private=True, allow_http=True, resolve=resolve)
        await webhooks.post(f"http://hooks.example.org:{server.port}/in?x=1", b"{}", message_id="m", now=NOW)
    assert asked == ["hooks.example.org"]
    assert server.requests[0].head.startswith("POST /in?x=1 HTTP/1.1")
    assert server.requests[0].headers["host"] == f"hooks.example.org:{server.port}"


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("https://example.org", "example.org", 443, "/"),
        ("https://EXAMPLE.org:8443/a?b=c", "example.org", 8443, "/a?b=c"),
        ("https://example.org./", "example.org.", 443, "/"),
        ("https://bücher.example/", "xn--bcher-kva.example", 443, "/"),
        ("https://93.184.216.34/", "93.184.216.34", 443, "/"),
        ("https://[2606:2800:220:1::]/x", "2606:2800:220:1::", 443, "/x"),
    ],
)
def test_a_plain_address_is_read(url: str, host: str, port: int, target: str) -> None:
    endpoint = endpoint_of(url)
    assert (endpoint.host, endpoint.port, endpoint.target) == (host, port, target)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_ipv6_clothes_is_judged_alike(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    mapped = ipaddress.IPv6Address(0xFFFF << 32 | number)
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | number)
    assert is_public(mapped) == is_public(translated) == is_public(address)


@given(st.text(max_size=60))
def test_no_text_leads_to_a_private_address_or_a_crash(text: str) -> None:
    try:
        endpoint = Webhooks().check(f"https://{text}")
    except WebhookRefused:
        return
    try:
        literal = ipaddress.ip_address(endpoint.host)
    except ValueError:
        return
    assert is_public(literal)


# --- the call --------------------------------------------------------------------------------------------------------


@dataclass
class Request:
    head: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    port: int = 0
    requests: list[Request] = field(default_factory=list[Request])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncGenerator[Server]:
    """A server on loopback that reads one request and answers as it is told."""
    seen = Server()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            seen.requests.append(Request(head, headers, body))
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    async with server:
        yield seen


def status(code: int, *headers: str, body: bytes = b"") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {code} X", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return answer


ok = status(204)


@pytest.fixture
def webhooks() -> Webhooks:
    return Webhooks(allow_private=True, allow_http=True, timeout=PATIENCE)


async def test_a_call_is_signed_and_the_receiver_can_tell(webhooks: Webhooks) -> None:
    async with listening(ok) as server:
        assert await webhooks.post(server.url, b'{"a":1}', message_id="m1", now=NOW, secret=SECRET) == 204
    (request,) = server.requests
    assert request.body == b'{"a":1}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "m1"
    assert verify(SECRET, request.headers, request.body, now=NOW + 1_000)
    assert not verify(SECRET, request.headers, b'{"a":2}', now=NOW)
    assert not verify("another secret, as long", request.headers, request.body, now=NOW)
    assert not verify(SECRET, request.headers, request.body, now=NOW + 600_000)
    assert not verify(SECRET, {**request.headers, "webhook-timestamp": "soon"}, request.body, now=NOW)
    assert not verify(SECRET, {**request.headers, "webhook-id": "m2"}, request.body, now=NOW)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    # The example that the specification gives.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


def test_a_broken_secret_is_refused() -> None:
    with pytest.raises(InvalidInput, match="base64"):
        sign("whsec_???", "m", 1, b"")


async def test_without_a_secret_there_is_no_signature(webhooks: Webhooks) -> None:
    async with listening(ok) as server:
        await webhooks.post(server.url, b"{}", message_id="m1", now=NOW)
    assert "webhook-signature" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("code", "is_final"), [(301, True), (302, True), (307, True), (400, True), (404, True), (410, True),
                           (408, False), (429, False), (500, False), (503, False)],
)  # fmt: skip
async def test_what_is_no_success_is_an_error_that_says_whether_to_try_again(
    webhooks: Webhooks, code: int, is_final: bool
) -> None:
    async with listening(status(code, "location: http://127.0.0.1:1/")) as server:
        with pytest.raises(WebhookFailed, match=str(code)) as caught:
            await webhooks.post(server.url, b"{}", message_id="m", now=NOW)
    assert caught.value.is_final is is_final
    assert len(server.requests) == 1, "a redirect was followed"


async def test_an_endless_answer_is_cut_off(webhooks: Webhooks) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(3 * MAX_ANSWER_BYTES // 65_536):
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with listening(endless) as server:
        with pytest.raises(WebhookFailed, match="bytes"):
            await webhooks.post(server.url, b"{}", message_id="m", now=NOW)


async def test_a_packed_bomb_is_not_unpacked(webhooks: Webhooks) -> None:
    async with listening(status(200, "content-encoding: gzip", body=b"\x1f\x8bnot really gzip")) as server:
        assert await webhooks.post(server.url, b"{}", message_id="m", now=NOW) == 200
    assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_a_silent_server_is_given_up_on() -> None:
    async def silence(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    webhooks = Webhooks(allow_private=True, allow_http=True, timeout=0.3)
    async with listening(silence) as server:
        with pytest.raises(WebhookFailed, match=r"longer than 0\.3 s"):
            await webhooks.post(server.url, b"{}", message_id="m", now=NOW)


async def test_a_drip_of_bytes_does_not_prolong_the_call() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    webhooks = Webhooks(allow_private=True, allow_http=True, timeout=0.4)
    async with listening(drip) as server:
        with pytest.raises(WebhookFailed, match="longer"):
            await webhooks.post(server.url, b"{}", message_id="m", now=NOW)


async def test_nobody_at_home_is_an_error(webhooks: Webhooks) -> None:
    # Taken, so that nobody else can come to listen there, and not listened on.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(WebhookFailed, match="cannot be reached"):
            await webhooks.post(Server(taken.getsockname()[1]).url, b"{}", message_id="m", now=NOW)


async def test_a_name_without_an_address_is_an_error() -> None:
    async def empty(host: str, port: int) -> list[str]:
        return []

    async def failing(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    for resolve in (empty, failing):
        with pytest.raises(WebhookFailed):
            await Webhooks(resolve=resolve).post("https://x.example/", b"{}", message_id="m", now=NOW)


async def test_proxies_of_the_environment_are_not_used(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with listening(ok) as server:
        assert await webhooks.post(server.url, b"{}", message_id="m", now=NOW) == 204
