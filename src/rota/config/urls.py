"""Which engines a URL may name, and how a URL is shown without its secrets."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from rota.core.task_type import did_you_mean
from rota.errors import InvalidConfig

__all__ = ["BUS_SCHEMES", "DATABASE_SCHEMES", "STORE_SCHEMES", "check_url", "is_local", "masked", "scheme_of"]

_REDIS: Final = ("redis", "rediss", "redis+unix", "unix", "redis+sentinel", "redis+cluster")
STORE_SCHEMES: Final = ("sqlite", "postgresql", "memory", *_REDIS)
DATABASE_SCHEMES: Final = ("sqlite", "postgresql")
BUS_SCHEMES: Final = ("local", *_REDIS, "kafka")

# Up to the last "@": a password may itself contain one, and hiding too much is the safe mistake.
_USERINFO = re.compile(r"(://[^/?#\s:@]*:)\S*@")
_QUERY_SECRET = re.compile(r"([?&][^=&\s]*(?:password|passwd|secret|token)[^=&\s]*=)[^&\s]*", re.IGNORECASE)


def scheme_of(url: str) -> str:
    """What stands before "://"."""
    return url.partition("://")[0]


def is_local(url: str) -> bool:
    """Whether only this host can see what the URL names."""
    return scheme_of(url) in ("sqlite", "memory", "local")


def masked(text: str) -> str:
    """The text with the passwords of its URLs hidden."""
    return _QUERY_SECRET.sub(r"\1***", _USERINFO.sub(r"\1***@", text))


def check_url(url: str, schemes: Collection[str]) -> str:
    """The URL itself, if it is well formed and names an engine of this kind."""
    if "://" not in url:
        raise InvalidConfig("A URL is needed, like 'sqlite:///rota.db'.")
    if scheme_of(url) not in schemes:
        raise InvalidConfig(f"No engine is called {scheme_of(url)!r} here. {did_you_mean(scheme_of(url), schemes)}")
    if any(character.isspace() or character == "\0" for character in url):
        raise InvalidConfig("A URL has no spaces. Percent-encode them as %20.")
    _check_address(url)
    return url


def _check_address(url: str) -> None:
    # Sentinel, Cluster and Kafka name several hosts, which the parser would take for one with a broken port.
    first_host = re.sub(r",[^/?#]*", "", url)
    try:
        parts = urlsplit(first_host)
        _ = parts.port
    except ValueError:
        raise InvalidConfig("The host or the port is broken. Write it like 'redis://host:6379/0'.") from None
    if parts.scheme == "sqlite" and parts.netloc:
        raise InvalidConfig("A file needs three slashes: 'sqlite:///rota.db', or four for an absolute path.")
