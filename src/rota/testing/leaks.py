"""The leak check: whatever stays in Redis without a time to live must be something that the layout names.

A key that nobody expects to find there is a key that nobody will ever remove: after a year it is the memory of the
server. Every test on Redis ends with this check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from rota.stores.redis.keys import DEFAULT_PREFIX, PERMANENT
from rota.testing.redis_servers import RedisServer

__all__ = ["Leak", "assert_no_leaks", "leaks"]

_NO_TTL: Final = -1
_PAGE: Final = 500


class Leak(NamedTuple):
    """A key without a time to live that the layout does not name."""

    key: str
    kind: str


def leaks(
    servers: Iterable[RedisServer], *, prefix: str = DEFAULT_PREFIX, permanent: Sequence[str] = PERMANENT
) -> list[Leak]:
    """Every leak on these servers (several for a cluster)."""
    named = re.compile(re.escape(prefix) + "(?:" + "|".join(permanent) + ")", re.DOTALL)
    return [leak for server in servers for leak in _on(server, named)]


def assert_no_leaks(*servers: RedisServer, prefix: str = DEFAULT_PREFIX, permanent: Sequence[str] = PERMANENT) -> None:
    """Fails with the names of what was left behind."""
    found = leaks(servers, prefix=prefix, permanent=permanent)
    shown = ", ".join(f"{leak.key} ({leak.kind})" for leak in found[:10])
    assert not found, f"{len(found)} keys have no TTL and no place in the layout: {shown}"


def _on(server: RedisServer, named: re.Pattern[str]) -> Iterable[Leak]:
    with server.client() as client:
        cursor = "0"
        while True:
            cursor, keys = cast("tuple[str, list[str]]", client.execute_command("SCAN", cursor, "COUNT", _PAGE))
            for key in keys:
                if named.fullmatch(key) is None and client.execute_command("PTTL", key) == _NO_TTL:
                    yield Leak(key, str(client.execute_command("TYPE", key)))
            if str(cursor) == "0":
                return
