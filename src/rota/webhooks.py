"""Calling somebody else's HTTP endpoint without being made to call one's own.

The address of a webhook comes from a configuration, or from an agent. It is resolved once, every address that the name
has is checked, and the connection goes to a checked one: a name that answers differently the second time changes
nothing. The certificate must still be the name's. Redirects are not followed, proxies of the environment are not used,
an answer is read up to a limit, and the whole call has a deadline. Calls are signed as Standard Webhooks are:
`webhook-id`, `webhook-timestamp`, `webhook-signature: v1,<HMAC-SHA256 over id.timestamp.body>`. A call that is made
again keeps its id.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

from rota.clock import SECOND, Instant
from rota.errors import InvalidInput, WebhookFailed, WebhookRefused
from rota.lazy import lazy_module

if TYPE_CHECKING:
    import httpx
else:
    httpx = lazy_module("httpx")

__all__ = ["MAX_ANSWER_BYTES", "Endpoint", "Resolve", "Webhooks", "endpoint_of", "is_public", "sign", "verify"]

TIMEOUT_SECONDS: Final = 10.0
"""For the whole call: name, connection, answer."""
MAX_ANSWER_BYTES: Final = 1_048_576
MAX_URL: Final = 2_048
MAX_ADDRESSES: Final = 4
"""So many addresses of one name are tried, until one can be connected to."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a name, for a port."""

_PRINTABLE = re.compile(r"[!-~\u00a1-\U0010ffff]+")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AGAIN: Final = frozenset({408, 425, 429})

# Clouds answer here with credentials, and only the first is not special by any standard.
_METADATA: Final = frozenset({ipaddress.ip_address("168.63.129.16"), ipaddress.ip_address("169.254.169.254")})
# Set aside for special use, though the library takes some of them for global.
_SET_ASIDE: Final = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16")
)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class Endpoint(NamedTuple):
    """Where a URL leads, as far as its text says."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


_PORTS: Final[Mapping[str, int]] = {"https": 443, "http": 80}


def endpoint_of(url: str, *, allow_http: bool = False) -> Endpoint:
    """What a URL says, if it says it in a way that every reader reads alike; else `WebhookRefused`."""
    if len(url) > MAX_URL or not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise WebhookRefused(f"The webhook's address has spaces, control characters or over {MAX_URL} characters.")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise WebhookRefused(
            "The webhook's address is no URL. Write it like 'https://hooks.example.org/rota'."
        ) from None
    if parts.scheme not in _PORTS or (parts.scheme == "http" and not allow_http):
        raise WebhookRefused(
            f"The webhook's address begins with {parts.scheme[:20]!r}. Use https, or set webhooks.allow_http: true."
        )
    if "@" in parts.netloc or parts.fragment:
        raise WebhookRefused("The webhook's address has a user name or a fragment. Take it out.")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(parts.scheme, _host(host), _PORTS[parts.scheme] if port is None else port, target)


def _host(host: str) -> str:
    """The host in the one spelling that counts: ASCII, small letters, addresses as dotted or colon numbers."""
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            _refuse(host)
        return str(address) if address.scope_id is None else _refuse(host)
    try:
        # Also turns full-width digits and dots into plain ones, so nothing slips through in another script.
        name = host.encode("idna").decode().lower()
    except UnicodeError:
        _refuse(host)
    if not _NAME.fullmatch(name) or len(name) > 253:
        _refuse(host)
    plain = name.removesuffix(".")
    if _NUMBER.fullmatch(plain.rpartition(".")[2]):
        # What ends in a number is read as an address by some, in octal or hex by others: only the plain form counts.
        try:
            return str(ipaddress.IPv4Address(plain))
        except ValueError:
            _refuse(host)
    return name


def _refuse(host: str) -> NoReturn:
    raise WebhookRefused(f"The webhook's host {host[:100]!r} is no plain name or address. Write it the usual way.")


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet: not this host's, not a private network's, not a cloud's own."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inner(address)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    if address in _METADATA or any(address in network for network in _SET_ASIDE):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    return None if address.teredo is None else address.teredo[1]


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a call. A secret that begins with `whsec_` is base64, any other counts as it is."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()


def verify(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: Instant, tolerance_ms: int = 300 * SECOND
) -> bool:
    """For receivers: whether a call was signed with this secret, not too long ago. Header names in small letters."""
    sent = headers.get("webhook-timestamp", "")
    if not (sent.isascii() and sent.isdigit() and len(sent) < 16) or abs(now - int(sent) * SECOND) > tolerance_ms:
        return False
    expected = sign(secret, headers.get("webhook-id", ""), int(sent), body).encode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one.encode(), expected) for one in given)


def _key(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("A webhook's secret begins with 'whsec_', but the rest is no base64.") from None


class Webhooks:
    """Calls endpoints. `allow_private` and `allow_http` are for those who mean it; `resolve` and `trust` for tests."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_http: bool = False,
        timeout: float = TIMEOUT_SECONDS,
        resolve: Resolve | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._allow_private = allow_private
        self._allow_http = allow_http
        self._timeout = timeout
        self._resolve = resolve or _resolve
        self._trust = trust

    def check(self, url: str) -> Endpoint:
        """Refuse what can be seen to be wrong without asking anybody (`WebhookRefused`)."""
        endpoint = endpoint_of(url, allow_http=self._allow_http)
        literal = _literal(endpoint.host)
        if literal is not None:
            self._check_address(endpoint, literal)
        return endpoint

    async def post(self, url: str, body: bytes, *, message_id: str, now: Instant, secret: str | None = None) -> int:
        """POST JSON; the status of the answer, which is 2xx.

        Raises `WebhookRefused` if the address is none to call, `WebhookFailed` if the call did not succeed.
        """
        endpoint = self.check(url)
        headers = _headers(endpoint, body, message_id, now, secret)
        try:
            async with asyncio.timeout(self._timeout):
                status = await self._send(endpoint, await self._addresses(endpoint), body, headers)
        except TimeoutError:
            raise WebhookFailed(f"The webhook at {endpoint.host} took longer than {self._timeout:g} s.") from None
        except (httpx.HTTPError, OSError, ssl.SSLError) as error:
            cause = str(error) or type(error).__name__
            raise WebhookFailed(f"The webhook at {endpoint.host} cannot be reached: {cause}.") from None
        if 200 <= status < 300:
            return status
        is_final = 300 <= status < 500 and status not in _AGAIN
        what = "redirects, which is not followed" if 300 <= status < 400 else "refused the call"
        raise WebhookFailed(f"The webhook at {endpoint.host} {what} (status {status}).", is_final=is_final)

    async def _addresses(self, endpoint: Endpoint) -> list[Address]:
        """Some addresses of the host, after all of them were found to be allowed."""
        literal = _literal(endpoint.host)
        if literal is not None:
            return [literal]
        found = [ipaddress.ip_address(text) for text in await self._resolve(endpoint.host, endpoint.port)]
        if not found:
            raise WebhookFailed(f"The webhook's host {endpoint.host} has no address.")
        for address in found:
            self._check_address(endpoint, address)
        return found[:MAX_ADDRESSES]

    def _check_address(self, endpoint: Endpoint, address: Address) -> None:
        if not self._allow_private and not is_public(address):
            raise WebhookRefused(
                f"The webhook's host {endpoint.host} is {address}, which is no address of the open internet."
                " If that is meant, set webhooks.allow_private: true."
            )

    async def _send(
        self, endpoint: Endpoint, addresses: Sequence[Address], body: bytes, headers: Mapping[str, str]
    ) -> int:
        """The status of the first address that can be connected to; only to that one anything is sent."""
        if self._trust is None:
            # From the environment only whom to trust (SSL_CERT_FILE, SSL_CERT_DIR): a house may have its own authority.
            self._trust = await asyncio.to_thread(httpx.create_ssl_context)
        limits = httpx.Timeout(self._timeout, connect=self._timeout / len(addresses))
        async with httpx.AsyncClient(
            verify=self._trust, trust_env=False, follow_redirects=False, timeout=limits
        ) as client:
            for address in addresses[:-1]:
                try:
                    return await _post(client, endpoint, address, body, headers)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    continue
            return await _post(client, endpoint, addresses[-1], body, headers)


async def _post(
    client: httpx.AsyncClient, endpoint: Endpoint, address: Address, body: bytes, headers: Mapping[str, str]
) -> int:
    host = f"[{address}]" if isinstance(address, ipaddress.IPv6Address) else str(address)
    url = f"{endpoint.scheme}://{host}:{endpoint.port}{endpoint.target}"
    # The connection goes to the address that was checked; name and certificate are still those of the host.
    extensions = {"sni_hostname": endpoint.host.removesuffix(".")} if endpoint.scheme == "https" else {}
    async with client.stream("POST", url, content=body, headers=dict(headers), extensions=extensions) as answer:
        await _read(answer, endpoint)
        return answer.status_code


async def _read(answer: httpx.Response, endpoint: Endpoint) -> None:
    """Read the answer, of which nothing is kept: unpacked it could be any size, and endless it could be too."""
    seen = 0
    async for chunk in answer.aiter_raw():
        seen += len(chunk)
        if seen > MAX_ANSWER_BYTES:
            raise WebhookFailed(f"The webhook at {endpoint.host} answers with over {MAX_ANSWER_BYTES:,} bytes.")


def _headers(endpoint: Endpoint, body: bytes, message_id: str, now: Instant, secret: str | None) -> dict[str, str]:
    timestamp = now // SECOND
    headers = {
        "host": endpoint.authority,
        "content-type": "application/json",
        "accept-encoding": "identity",
        "user-agent": "rota",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
    }
    return headers if secret is None else {**headers, "webhook-signature": sign(secret, message_id, timestamp, body)}


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]).partition("%")[0] for entry in found]
