"""What the driver raises, and what it means: one table, read from the top, and whatever it does not name means "away".

A driver speaks of the same outage in many words. redis-py has an error of its own for a Cluster without a node
(`RedisClusterException`, which is no `RedisError`), lets through what the system says of names, sockets and
certificates (`OSError`), and stumbles over its own tables while nodes come and go (`AttributeError`, `KeyError`). Who
asked must hear one thing: the store cannot do it now, and whether the call took effect is unknown. Whatever is finished
waits for the store to come back; nothing is thrown away because an outage came under another name.

Only what no waiting mends is no outage: an answer that speaks of a mistake in Rota, or of keys that hold something else
than Rota put there. That is a `StoreError`, and no retry hides it.
"""

from __future__ import annotations

import ssl
from enum import Enum
from socket import gaierror
from typing import NamedTuple

from redis import exceptions as redis

from rota.errors import StoreError, StoreUnavailable

__all__ = ["TABLE", "Meaning", "Row", "may_be_half_done", "meaning_of", "translated"]


class Meaning(Enum):
    """What is to be done; the value says it to whoever reads the message."""

    AWAY = "Check that it is up and can be reached. What waits goes on by itself when it is back."
    PASSES = "It passes, or an operator ends it. What waits goes on by itself."
    LOGIN = "It refuses the login. Check user, password and what its ACL allows."
    NAME = "Its host has no address. Check the name in the URL, and the name server."
    CERTIFICATE = "The encrypted connection failed. Check the certificate, and rediss:// or ssl=true in the URL."
    MOVING = "A slot of the Cluster is on its way to another node. Try again in a moment."
    TOO_OLD = "It does not know this command. Rota needs Redis 6.2 or newer, or Valkey."
    FOREIGN = "A key holds something else than Rota put there. Use a prefix of its own: ?prefix=..."
    MISTAKE = "Waiting does not mend it: please report it, with this message."

    @property
    def is_outage(self) -> bool:
        return self not in (Meaning.TOO_OLD, Meaning.FOREIGN, Meaning.MISTAKE)


class Row(NamedTuple):
    """An error of the driver, by its class or by words of its message, and its meaning."""

    kind: type[Exception]
    words: tuple[str, ...]
    meaning: Meaning

    def fits(self, error: Exception) -> bool:
        text = str(error)
        return isinstance(error, self.kind) and (not self.words or any(word in text for word in self.words))


_PASSING = ("OOM", "READONLY", "MISCONF", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "UNBLOCKED")
_LOGIN_WORDS = ("NOAUTH", "WRONGPASS", "NOPERM", "invalid password", "invalid username-password", "no password is set")

TABLE: tuple[Row, ...] = (
    Row(redis.AuthenticationError, (), Meaning.LOGIN),
    Row(redis.AuthorizationError, (), Meaning.LOGIN),
    Row(redis.AuthenticationWrongNumberOfArgsError, (), Meaning.LOGIN),
    Row(redis.ExternalAuthProviderError, (), Meaning.LOGIN),
    Row(redis.NoPermissionError, (), Meaning.LOGIN),
    Row(redis.ResponseError, _LOGIN_WORDS, Meaning.LOGIN),
    Row(redis.TryAgainError, (), Meaning.MOVING),
    Row(redis.ClusterError, ("TTL exhausted",), Meaning.MOVING),
    Row(redis.ClusterCrossSlotError, (), Meaning.MISTAKE),
    Row(redis.CrossSlotTransactionError, (), Meaning.MISTAKE),
    Row(redis.InvalidPipelineStack, (), Meaning.MISTAKE),
    Row(redis.DataError, (), Meaning.MISTAKE),
    # Also inside a script, whose error says what its command was told.
    Row(redis.ResponseError, _PASSING, Meaning.PASSES),
    Row(redis.ResponseError, ("non local key", "TRYAGAIN", "MOVED", "ASK "), Meaning.PASSES),
    Row(redis.ResponseError, ("WRONGTYPE",), Meaning.FOREIGN),
    Row(redis.ResponseError, ("unknown command", "Unknown Redis command"), Meaning.TOO_OLD),
    Row(redis.ReadOnlyError, (), Meaning.PASSES),
    Row(redis.OutOfMemoryError, (), Meaning.PASSES),
    Row(redis.BusyLoadingError, (), Meaning.PASSES),
    Row(redis.ClusterDownError, (), Meaning.PASSES),
    Row(redis.AskError, (), Meaning.PASSES),
    Row(redis.NoScriptError, (), Meaning.PASSES),
    Row(redis.ResponseError, ("user_script", "compiling script", "wrong number of arguments"), Meaning.MISTAKE),
    Row(ssl.SSLError, (), Meaning.CERTIFICATE),
    Row(gaierror, (), Meaning.NAME),
    Row(redis.ConnectionError, ("Name or service not known", "Temporary failure in name resolution"), Meaning.NAME),
    Row(redis.ConnectionError, ("CERTIFICATE", "certificate", "SSL"), Meaning.CERTIFICATE),
    Row(redis.ConnectionError, (), Meaning.AWAY),
    Row(redis.TimeoutError, (), Meaning.AWAY),
    Row(redis.RedisClusterException, (), Meaning.AWAY),
    Row(OSError, (), Meaning.AWAY),
)
"""The first row that fits counts."""


def meaning_of(error: Exception) -> Meaning:
    return next((row.meaning for row in TABLE if row.fits(error)), Meaning.AWAY)


def translated(store: str, error: Exception) -> StoreError:
    """The error that is raised instead: what happened, where, and what to do."""
    meaning = meaning_of(error)
    cause = (str(error).strip() or type(error).__name__).rstrip(".")
    if meaning.is_outage:
        return StoreUnavailable(f"The store {store} cannot be used right now: {cause}. {meaning.value}")
    return StoreError(f"The store {store} refused the call: {cause}. {meaning.value}")


def may_be_half_done(error: Exception) -> bool:
    """Whether a script has begun and did not end: what it wrote before its error stays written."""
    return isinstance(error, redis.ResponseError) and "user_script" in str(error)
