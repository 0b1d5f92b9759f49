"""Who is asking: a bearer token, or the session cookie of somebody who signed in with one.

A route has the `Need` that its router was made with, and the application refuses to start with a route that has none
(`rota.api.routing`). A session is no record: the cookie holds a token's id, when it ends, and the secret, sealed by
what is stored of the token. Whoever has the cookie alone can neither read the secret nor make the session last longer;
whoever has the database alone, a backup say, cannot make a session, because nothing in it leads to the secret. Revoking
the token ends its sessions with it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Request, Response

from rota.access import Principal, Role, Token, Tokens
from rota.access.tokens import digest_of
from rota.api.problems import Refused
from rota.api.service import Service
from rota.app.operator import Operator
from rota.clock import DAY, MINUTE, Clock, Instant, Millis
from rota.errors import NotAllowed, StoreUnavailable

__all__ = [
    "SESSION_COOKIE",
    "Acting",
    "Calling",
    "Gate",
    "Need",
    "Viewing",
    "caller_of",
    "end_session",
    "is_still_welcome",
    "make_session",
    "operator_of",
    "principal_of",
    "service_of",
    "sign_in",
    "start_session",
]

SESSION_COOKIE: Final = "rota_session"
SESSION_MS: Final[Millis] = 7 * DAY
TRIES: Final = 10
"""How many failed sign-ins an address has within `TRIES_MS`."""
TRIES_MS: Final[Millis] = 5 * MINUTE
REMEMBERED: Final = 1_000
"""How many addresses and how many tokens are remembered at most."""
OUTAGE_MS: Final[Millis] = 15 * MINUTE
"""For how long a token that was valid may send activity while the database is away."""


class _Seen(NamedTuple):
    token: Token
    at: Instant


class Gate:
    """Checks secrets and sessions against the tokens of one service.

    While the database is away nobody can say whether a token was revoked, so nobody gets in: not even to look. The one
    exception is activity, which is taken on (and spooled) through an outage: for that, a token that was valid a moment
    ago still is.
    """

    def __init__(self, service: Service) -> None:
        self._own_database = service.app.host.own_database
        self._clock: Clock = service.clock
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._failures: OrderedDict[str, list[Instant]] = OrderedDict()

    @property
    def watched(self) -> int:
        """How many addresses with failed sign-ins are remembered."""
        return len(self._failures)

    async def identify(self, request: Request, *, through_outages: bool = False) -> Principal | None:
        """Whoever asks; None without a valid token or session."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme:
            # Whoever shows a token means it: a bad one is not made good by a cookie.
            if scheme.lower() != "bearer":
                return None
            token = await self.by_secret(secret.strip(), through_outages=through_outages)
            return None if token is None else token.principal("api")
        cookie = request.cookies.get(SESSION_COOKIE)
        token = None if cookie is None else await self.by_session(cookie)
        return None if token is None else token.principal("dashboard")

    async def by_secret(self, secret: str, *, through_outages: bool = False) -> Token | None:
        """The valid token with this secret; `through_outages`, also one that was valid before the database went."""
        digest = digest_of(secret)
        try:
            token = await (await self._tokens()).find(secret)
        except StoreUnavailable as error:
            remembered = self._recalled(digest) if through_outages else None
            if remembered is None:
                raise _away() from error
            return remembered
        if token is None:
            self._seen.pop(digest, None)
        else:
            _bounded_put(self._seen, digest, _Seen(token, self._clock.now()))
        return token

    async def by_session(self, cookie: str) -> Token | None:
        """The valid token that a session was started with."""
        token_id, _, rest = cookie.partition(".")
        ends_at, _, sealed = rest.partition(".")
        if not (ends_at.isascii() and ends_at.isdigit() and len(ends_at) < 19) or int(ends_at) <= self._clock.now():
            return None
        try:
            token = await (await self._tokens()).get(token_id)
        except StoreUnavailable as error:
            raise _away() from error
        if token is None or not _opens(token, int(ends_at), sealed):
            return None
        return token

    async def sign_in(self, secret: str, address: str) -> Token | None:
        """The valid token with this secret. Too many that are not, from one address, are refused for a while."""
        now = self._clock.now()
        recent = [at for at in self._failures.get(address, ()) if now - at < TRIES_MS]
        if len(recent) >= TRIES:
            wait = (recent[0] + TRIES_MS - now) // 1_000 + 1
            raise Refused(
                429,
                "too_many_attempts",
                f"Too many sign-ins failed from here. Try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
        # It counts from its beginning: else any number of them at once would all be below the limit.
        _bounded_put(self._failures, address, [*recent, now])
        try:
            token = await self.by_secret(secret)
        except StoreUnavailable:
            self._take_back(address, now)
            raise
        if token is not None:
            self._failures.pop(address, None)
        return token

    async def _tokens(self) -> Tokens:
        # Every request comes through here: what is open already need not be asked for.
        return Tokens(self._own_database.opened or await self._own_database.open())

    def _take_back(self, address: str, at: Instant) -> None:
        """A sign-in that could not be checked is no failed one."""
        tries = self._failures.get(address, [])
        if at in tries:
            tries.remove(at)
        if not tries:
            self._failures.pop(address, None)

    def _recalled(self, digest: str) -> Token | None:
        seen = self._seen.get(digest)
        now = self._clock.now()
        return None if seen is None or now - seen.at > OUTAGE_MS or not seen.token.is_valid(now) else seen.token


def _away() -> StoreUnavailable:
    # Whoever asks is nobody yet: the cause, which may name addresses, stays here.
    return StoreUnavailable("The database with the access tokens cannot be reached. Try again in a moment.")


def _bounded_put(remembered: OrderedDict[str, Any], name: str, value: object) -> None:
    remembered[name] = value
    remembered.move_to_end(name)
    if len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


# --- sessions --------------------------------------------------------------------------------------------------------


def make_session(token: Token, secret: str, now: Instant) -> str:
    """The value of the session cookie for somebody who has signed in with the secret of this token."""
    ends_at = now + SESSION_MS if token.expires_at is None else min(now + SESSION_MS, token.expires_at)
    return f"{token.id}.{ends_at}.{_masked(token, ends_at, secret.encode()).hex()}"


def _opens(token: Token, ends_at: Instant, sealed: str) -> bool:
    """Whether this was sealed for this token and this end: anything else opens to something with another digest."""
    try:
        opened = _masked(token, ends_at, bytes.fromhex(sealed))
    except ValueError:
        return False
    return hmac.compare_digest(hashlib.sha256(opened).hexdigest(), token.digest)


def _masked(token: Token, ends_at: Instant, text: bytes) -> bytes:
    """Sealed, or opened again: the mask is as long as the text, and different for every token and end."""
    mask = hashlib.shake_256(f"session:{token.digest}:{token.id}:{ends_at}".encode()).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, mask, strict=True))


async def sign_in(request: Request, secret: str) -> Token | None:
    """The token that somebody signs in with, or None. Follow it by `start_session`."""
    address = request.client.host if request.client else "unknown"
    gate: Gate = request.app.state.gate
    return await gate.sign_in(secret, address)


def start_session(request: Request, response: Response, token: Token, secret: str) -> None:
    """Put the session cookie on an answer to somebody who has signed in."""
    service: Service = request.app.state.service
    response.set_cookie(
        SESSION_COOKIE,
        make_session(token, secret, service.clock.now()),
        max_age=SESSION_MS // 1_000,
        path=service.path("/"),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def end_session(request: Request, response: Response) -> None:
    """Take the session cookie away."""
    service: Service = request.app.state.service
    response.delete_cookie(SESSION_COOKIE, path=service.path("/"), httponly=True, samesite="strict")


# --- who is let in ----------------------------------------------------------------------------------------------------


class Need:
    """What a route asks for: whoever comes has at least this role.

    A token that is narrowed to the agents of a group opens only what says that it is `for_agents`, too. What works
    `through_outages` of the database takes a token that was valid before one.
    """

    def __init__(self, role: Role, *, for_agents: bool = False, through_outages: bool = False) -> None:
        self.role = role
        self._roles = frozenset(each for each in Role if each.allows(role))
        self._for_agents = for_agents
        self._through_outages = through_outages

    async def check(self, request: Request) -> None:
        """Let whoever asks in, or refuse them. Who it is stays with the request: nothing looks again."""
        gate: Gate = request.app.state.gate
        principal = await gate.identify(request, through_outages=self._through_outages)
        request.state.principal = principal
        if principal is None:
            raise Refused(
                401,
                "unauthenticated",
                "No valid token came with this request. Send `Authorization: Bearer rota_...`, or sign in.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if principal.scope and not self._for_agents:
            raise NotAllowed(f"The token {principal.name!r} is for agents of one group: it opens their routes alone.")
        if principal.role not in self._roles:
            raise NotAllowed(f"This needs the role {self.role}; {principal.name!r} is a {principal.role}.")


async def principal_of(request: Request) -> Principal | None:
    """Whoever asks; None without a valid token or session. Looked up once per request: by the route, if it is not open
    to everybody."""
    if not hasattr(request.state, "principal"):
        gate: Gate = request.app.state.gate
        request.state.principal = await gate.identify(request)
    found: Principal | None = request.state.principal
    return found


async def is_still_welcome(request: Request) -> bool:
    """Whether whoever asked has a valid token still; for answers that last. An outage is no reason to go."""
    gate: Gate = request.app.state.gate
    try:
        return await gate.identify(request) is not None
    except StoreUnavailable:
        return True


# --- what routes depend on -------------------------------------------------------------------------------------------
# All of them are coroutines, though they wait for little: FastAPI sends what is none to a thread, for every request.


async def service_of(request: Request) -> Service:
    """The service that answers this request."""
    service: Service = request.app.state.service
    return service


async def caller_of(request: Request) -> Principal:
    """Whoever was let in. A route that lets everybody in has none."""
    principal = await principal_of(request)
    assert principal is not None, "the route needs a role"
    return principal


async def operator_of(request: Request) -> Operator:
    """Acts in the name of whoever was let in. It checks the role of every action by itself, too."""
    principal = await caller_of(request)
    if principal.scope:
        raise NotAllowed(f"The token {principal.name!r} is for agents of one group: it acts on nothing else.")
    service: Service = request.app.state.service
    return Operator(service.app, principal)


Viewing = Annotated[Service, Depends(service_of)]
Acting = Annotated[Operator, Depends(operator_of)]
Calling = Annotated[Principal, Depends(caller_of)]
