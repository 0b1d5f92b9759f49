"""What a Redis URL names: a server, a Sentinel group or a Cluster, its credentials, and the prefix of the keys.

redis://user:password@host:6379/0?prefix=scheduler:       rediss:// with TLS
redis+unix:///run/redis.sock?db=0                         unix:// is the same
redis+sentinel://host1:26379,host2:26379/service/0
redis+cluster://host1:6379,host2:6379
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rota.config.urls import masked
from rota.errors import InvalidConfig
from rota.stores.redis.keys import DEFAULT_PREFIX

__all__ = ["Address", "parse_address", "url_of"]

_PORTS = {"sentinel": 26_379}


@dataclass(frozen=True)
class Address:
    """Where Redis is, and how to log in."""

    name: str
    """The URL without its password, for messages."""
    kind: Literal["single", "sentinel", "cluster"]
    prefix: str = DEFAULT_PREFIX
    plain_url: str = ""
    """A URL as redis-py reads it; only for a single server."""
    hosts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    service: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    sentinel_options: dict[str, Any] = field(default_factory=dict[str, Any])


def parse_address(url: str) -> Address:
    """The address that a URL names; what cannot be read is said."""
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    prefix = given.pop("prefix", DEFAULT_PREFIX)
    name = masked(url)
    match scheme:
        case "redis+sentinel":
            return _sentinel(name, rest, given, prefix)
        case "redis+cluster":
            login, hosts, _ = _split(name, rest, 6_379)
            return Address(name, "cluster", prefix, hosts=hosts, options={**login, **_tls(given)})
        case "redis+unix":
            scheme = "unix"
        case "redis" | "rediss":
            _database(name, rest.partition("/")[2])
        case "unix":
            pass
        case _:
            raise InvalidConfig(f"The store {name!r} cannot be used: {scheme!r} is no Redis. Use redis://host:6379/0.")
    plain = f"{scheme}://{rest}"
    return Address(name, "single", prefix, plain_url=f"{plain}?{urlencode(given)}" if given else plain)


def _sentinel(name: str, rest: str, given: dict[str, str], prefix: str) -> Address:
    login, hosts, path = _split(name, rest, _PORTS["sentinel"])
    service, _, db = path.partition("/")
    if not service:
        raise InvalidConfig(
            f"The store {name!r} cannot be used: which service? Write 'redis+sentinel://host:26379/mymaster/0'."
        )
    own = {k: given.pop(f"sentinel_{k}") for k in ("username", "password") if f"sentinel_{k}" in given}
    options = {**login, **_tls(given), "db": _database(name, db)}
    return Address(name, "sentinel", prefix, hosts=hosts, service=service, options=options, sentinel_options=own)


def _database(name: str, text: str) -> int:
    """The number of the database, 0 if none is given."""
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidConfig(
            f"The store {name!r} cannot be used: {text!r} is no database. Redis numbers them: 'redis://host:6379/0'."
        )
    return int(text or 0)


def _tls(given: dict[str, str]) -> dict[str, Any]:
    return {"ssl": True} if given.get("ssl", "").lower() in ("1", "true", "yes") else {}


def _split(name: str, rest: str, port: int) -> tuple[dict[str, str], list[tuple[str, int]], str]:
    """The login, the hosts and the path of a URL that may name several hosts."""
    place, _, path = rest.partition("/")
    login, at, hosts = place.rpartition("@")
    user, _, password = login.partition(":")
    credentials = {"username": unquote(user), "password": unquote(password)} if at else {}
    return {k: v for k, v in credentials.items() if v}, [_host(name, each, port) for each in hosts.split(",")], path


def _host(name: str, text: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, given = parts.hostname, parts.port
    except ValueError:
        host, given = None, None
    if not host:
        raise InvalidConfig(f"The store {name!r} cannot be used: {text!r} is no host. Write it like 'host:{port}'.")
    return host, given or port


# --- a client that somebody else has made ---------------------------------------------------------------------------


def url_of(client: object) -> str | None:
    """The URL under which a redis-py client, blocking or not, reaches its server; None if it is no such client.

    The store makes connections of its own: it must be able to keep them open, and never shares a pool.
    """
    nodes: Any = getattr(client, "startup_nodes", None) or getattr(
        getattr(client, "nodes_manager", None), "startup_nodes", None
    )
    if nodes:
        return _cluster_url(client, nodes)
    pool: Any = getattr(client, "connection_pool", None)
    given = cast("dict[str, Any] | None", getattr(pool, "connection_kwargs", None))
    if given is None:
        return None
    manager: Any = getattr(pool, "sentinel_manager", None)
    if manager is not None:
        hosts = [f"{each.connection_pool.connection_kwargs['host']}:{_port(each)}" for each in manager.sentinels]
        return f"redis+sentinel://{_login(given)}{','.join(hosts)}/{pool.service_name}/{given.get('db', 0)}"
    if "path" in given:
        return f"redis+unix://{_login(given)}{given['path']}?db={given.get('db', 0)}"
    scheme = "rediss" if "SSL" in getattr(pool.connection_class, "__name__", "") else "redis"
    tls = {name: value for name, value in given.items() if name.startswith("ssl_") and isinstance(value, str)}
    query = f"?{urlencode(tls)}" if tls and scheme == "rediss" else ""
    host, port = given.get("host", "localhost"), given.get("port", 6379)
    return f"{scheme}://{_login(given)}{host}:{port}/{given.get('db', 0)}{query}"


def _cluster_url(client: object, nodes: Any) -> str:
    manager: Any = getattr(client, "nodes_manager", None)
    given: dict[str, Any] = getattr(client, "connection_kwargs", None) or getattr(manager, "connection_kwargs", {})
    listed: Any = nodes.values() if hasattr(nodes, "values") else nodes
    return f"redis+cluster://{_login(given)}{','.join(f'{node.host}:{node.port}' for node in listed)}"


def _port(client: Any) -> int:
    return int(client.connection_pool.connection_kwargs.get("port", _PORTS["sentinel"]))


def _login(given: dict[str, Any]) -> str:
    user, password = given.get("username") or "", given.get("password") or ""
    return f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
