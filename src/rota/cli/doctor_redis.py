"""What `rota doctor` asks of Redis itself: may it be trusted with work, and may this user do what Rota needs?

It asks over a plain connection, before the store is opened, so that it can also say why that fails. On a Cluster every
primary is asked, and the worst answer counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlsplit

from rota.errors import RotaError
from rota.part import CheckResult

if TYPE_CHECKING:
    from rota.stores.redis.address import Address

__all__ = ["Client", "examine", "of_server", "worst"]

PATIENCE: Final = 2.0
LEAST: Final = (6, 2)
NEARLY_FULL: Final = 0.8

Version = tuple[int, ...]

SCRIPT_ESCAPE: Final = "CVE-2025-49844"
"""A use-after-free in the Lua parser: whoever may run scripts can take the server over."""
SCRIPT_ESCAPE_FIXED: Final[Mapping[str, Mapping[Version, int]]] = {
    "Redis": {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "Valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}
"""The patch release of each line that has it mended. Later lines never had it; other lines were not mended."""

Facts = Mapping[str, object]


class Client(Protocol):
    """What is used of a client: any command, its reply in text."""

    def execute_command(self, *args: Any) -> Any: ...
    def close(self) -> None: ...


def examine(url: str) -> list[CheckResult]:
    """Every finding about the server. Nothing if it cannot be reached: opening the store says that better."""
    if find_spec("redis") is None:
        return []
    from redis.exceptions import RedisError

    from rota.stores.redis.address import parse_address

    try:
        address = parse_address(url)
        user = str(address.options.get("username") or urlsplit(address.plain_url).username or "default")
        return worst([of_server(name, client, address.prefix, user) for name, client in _nodes(address)])
    except (RedisError, OSError, RotaError):
        return []


def worst(nodes: Sequence[list[CheckResult]]) -> list[CheckResult]:
    """One finding for each check: the gravest."""
    gravity = ("ok", "warning", "error")
    checks = dict.fromkeys(finding.check for node in nodes for finding in node)
    everything = [finding for node in nodes for finding in node]
    return [
        max((each for each in everything if each.check == check), key=lambda each: gravity.index(each.status))
        for check in checks
    ]


def of_server(name: str, client: Client, prefix: str, user: str = "default") -> list[CheckResult]:
    """The findings about one server, whose connection is closed; `name` tells several apart."""
    try:
        findings = [*_server(client), _acl(client, prefix, user)]
    finally:
        client.close()
    if not name:
        return findings
    return [CheckResult(one.check, one.status, f"{name}: {one.detail}", one.advice) for one in findings]


def _server(client: Client) -> Iterator[CheckResult]:
    facts = _facts(client)
    if facts is None:
        advice = "Version, persistence and memory could not be checked. Allow INFO: ACL SETUSER <user> +info"
        yield CheckResult("redis", "warning", "this user may not ask INFO", advice)
        return
    yield _version(facts)
    yield _security(facts)
    yield _persistence(facts, _setting(client, "appendfsync"))
    yield _eviction(facts)
    yield _memory(facts)


# --- connecting -----------------------------------------------------------------------------------------------------


def _nodes(address: Address) -> Iterator[tuple[str, Client]]:
    """The servers that are written to: one, or every primary of a Cluster."""
    from redis import Redis, RedisCluster
    from redis.sentinel import Sentinel

    options: dict[str, Any] = {
        **address.options,
        "socket_timeout": PATIENCE,
        "socket_connect_timeout": PATIENCE,
        "decode_responses": True,
        "protocol": 2,
    }
    match address.kind:
        case "cluster":
            host, port = address.hosts[0]
            whole = RedisCluster(host=host, port=port, **options)
            primaries: list[Any] = list(cast("Any", whole).get_primaries())
            whole.close()
            for node in primaries:
                yield f"{node.host}:{node.port}", cast("Client", Redis(host=node.host, port=node.port, **options))
        case "sentinel":
            sentinel = Sentinel(address.hosts, sentinel_kwargs=address.sentinel_options, **options)
            yield "", cast("Any", sentinel).master_for(address.service)
        case _:
            yield "", cast("Any", Redis).from_url(address.plain_url, **options)


def _facts(client: Client) -> Facts | None:
    from redis.exceptions import NoPermissionError

    try:
        return cast("Facts", client.execute_command("INFO"))
    except NoPermissionError:
        return None


def _setting(client: Client, name: str) -> str | None:
    """A setting of the server; None where it is not told: managed servers and careful ACLs forbid CONFIG."""
    from redis.exceptions import ResponseError

    with suppress(ResponseError):
        return cast("Mapping[str, str]", client.execute_command("CONFIG GET", name)).get(name)
    return None


# --- the server -----------------------------------------------------------------------------------------------------


def _engine(facts: Facts) -> tuple[str, str]:
    if "valkey_version" in facts:
        return "Valkey", str(facts["valkey_version"])
    return "Redis", str(facts.get("redis_version", "0"))


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def _number(facts: Facts, name: str) -> int:
    value = facts.get(name, 0)
    return int(value) if isinstance(value, int | float | str) and str(value).isdigit() else 0


def _version(facts: Facts) -> CheckResult:
    engine, version = _engine(facts)
    detail = f"{engine} {version}, {facts.get('redis_mode', 'standalone')}, {facts.get('role', 'master')}"
    if _numbers(version) < LEAST:
        return CheckResult("redis", "error", detail, "Rota needs Redis 6.2 or later, or Valkey. Upgrade the server.")
    if facts.get("role") not in (None, "master"):
        return CheckResult(
            "redis", "error", detail, "A replica takes no writes. Name the primary, or use redis+sentinel://."
        )
    return CheckResult("redis", "ok", detail)


def _security(facts: Facts) -> CheckResult:
    engine, version = _engine(facts)
    mended = SCRIPT_ESCAPE_FIXED[engine]
    found = _numbers(version)
    line, patch = found[:2], (*found, 0, 0, 0)[2]
    if line > max(mended) or patch >= mended.get(line, 1_000_000):
        return CheckResult("security", "ok", f"{engine} {version} has no known hole that scripts open")
    later = [f"{'.'.join(map(str, each))}.{at}" for each, at in mended.items() if each >= line]
    return CheckResult(
        "security",
        "warning",
        f"{engine} {version} has {SCRIPT_ESCAPE}",
        "Whoever may log in and run scripts can take over the server's host. Upgrade to"
        f" {' or '.join(later[:2])} or later, and let nobody but your own programs reach the port.",
    )


def _persistence(facts: Facts, appendfsync: str | None) -> CheckResult:
    broken = [
        name for name in ("aof_last_write_status", "rdb_last_bgsave_status") if facts.get(name, "ok") not in ("ok", "")
    ]
    if broken:
        advice = "Redis cannot write to its disk, and may refuse all writes. See its log and the space on the disk."
        return CheckResult("persistence", "error", f"{', '.join(broken)}: failed", advice)
    if not _number(facts, "aof_enabled"):
        return CheckResult(
            "persistence",
            "warning",
            "the append-only file is off",
            "A restart of Redis loses what was accepted since its last snapshot, or everything. Set 'appendonly yes'.",
        )
    if appendfsync == "no":
        advice = "A power cut may lose half a minute of accepted work. Set 'appendfsync everysec' or 'always'."
        return CheckResult("persistence", "warning", "append-only file, appendfsync no", advice)
    losses = {
        "always": "nothing that was accepted is lost",
        "everysec": "a power cut may lose the last second",
        None: "appendfsync is not told",
    }
    kept = losses.get(appendfsync, "")
    return CheckResult("persistence", "ok", f"append-only file, appendfsync {appendfsync or 'unknown'}: {kept}")


def _eviction(facts: Facts) -> CheckResult:
    policy = str(facts.get("maxmemory_policy", "unknown"))
    if policy == "noeviction":
        return CheckResult("eviction", "ok", policy)
    advice = f"With {policy} Redis throws tasks away when memory is short. Set 'maxmemory-policy noeviction'."
    # Without a limit nothing is thrown away yet; somebody need only set one.
    return CheckResult("eviction", "error" if _number(facts, "maxmemory") else "warning", policy, advice)


def _memory(facts: Facts) -> CheckResult:
    used, limit = _number(facts, "used_memory"), _number(facts, "maxmemory")
    if not limit:
        return CheckResult("memory", "ok", f"{_megabytes(used)} used, no limit set")
    detail = f"{_megabytes(used)} of {_megabytes(limit)} used"
    if used > NEARLY_FULL * limit:
        advice = "When it is full Redis refuses every write, and nothing can be scheduled or settled. Raise maxmemory."
        return CheckResult("memory", "warning", detail, advice)
    return CheckResult("memory", "ok", detail)


def _megabytes(size: int) -> str:
    return f"{size / 1_048_576:.1f} MiB"


# --- what the user may do -------------------------------------------------------------------------------------------

_SCRIPT: Final = "return redis.call('HGET', KEYS[1], 'a')"


def _attempts(prefix: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Every kind of command that Rota sends, on keys of its own that are gone a moment later."""
    place = f"{prefix}doctor:{{{uuid.uuid4().hex}}}"
    table, queue, names, stream, text = (f"{place}:{name}" for name in ("hash", "zset", "set", "stream", "string"))
    yield "TIME", ("TIME",)
    for key, commands in (
        (table, (("HSET", "a", "1"), ("HGET", "a"), ("HMGET", "a"), ("HGETALL",), ("HEXISTS", "a"), ("HDEL", "b"))),
        (table, (("HINCRBY", "n", 1), ("HSETNX", "a", "1"), ("HKEYS",), ("PEXPIRE", 10_000), ("EXISTS",))),
        (queue, (("ZADD", 0, "a"), ("PEXPIRE", 10_000), ("ZCARD",), ("ZRANGE", 0, 1), ("ZREM", "b"))),
        (queue, (("ZRANGEBYSCORE", 0, 1), ("ZRANGEBYLEX", "-", "+"))),
        (names, (("SADD", "a"), ("PEXPIRE", 10_000), ("SCARD",), ("SMEMBERS",), ("SREM", "b"))),
        (stream, (("XADD", "*", "a", "1"), ("PEXPIRE", 10_000), ("XRANGE", "-", "+"), ("XREVRANGE", "+", "-"))),
        (stream, (("XDEL", "1-1"),)),
        (text, (("SET", "1", "PX", 10_000), ("GET",), ("INCRBY", 1))),
    ):
        for command in commands:
            yield command[0], (command[0], key, *command[1:])
    yield "EVAL", ("EVAL", _SCRIPT, 1, table)
    yield "PUBLISH", ("PUBLISH", f"{place}:nobody", "")
    for key in (table, queue, names, stream, text):
        yield "DEL", ("DEL", key)
    yield "SCAN", ("SCAN", 0, "COUNT", 1)
    # Last of all: this connection is good for nothing else afterwards, and is closed.
    yield "SUBSCRIBE", ("SUBSCRIBE", f"{place}:nobody")


def _acl(client: Client, prefix: str, user: str) -> CheckResult:
    from redis.exceptions import MovedError, NoPermissionError, ResponseError

    forbidden: dict[str, str] = {}
    for name, command in _attempts(prefix):
        try:
            client.execute_command(*command)
        except NoPermissionError as error:
            forbidden.setdefault(name, str(error))
        except MovedError:
            # Asked of the wrong node of a Cluster, but after the question of who may ask.
            continue
        except ResponseError as error:
            # OOM, READONLY, MISCONF: not a matter of who asks.
            return CheckResult(
                "acl", "error", f"{name}: {error}", "Redis refuses to write. See its log and its memory."
            )
    if not forbidden:
        return CheckResult("acl", "ok", f"the user {user!r} may do all that Rota needs")
    names = list(forbidden)
    keys = any("key" in why or "channel" in why for why in forbidden.values())
    advice = f"ACL SETUSER {user} {' '.join(f'+{name.lower()}' for name in names)}"
    if keys:
        advice = f"ACL SETUSER {user} ~{prefix}* resetchannels &{prefix}* +@all -@admin"
    return CheckResult("acl", "error", f"the user {user!r} may not: {', '.join(names)}", f"Allow it: {advice}")
