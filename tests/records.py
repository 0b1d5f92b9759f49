"""A look into a record on Redis, and a change of one, by a script of the test's own: as another version would do it."""

from __future__ import annotations

from typing import cast

import msgspec

from rota.stores.redis.source import assembled
from rota.testing.redis_servers import RedisServer

PREFIX = "scheduler:"


def put_field(server: RedisServer, task_type: str, key: str, name: str, value: object) -> None:
    """Give a field of a task's record a value."""
    _evaluated(
        server,
        task_type,
        "local task, fixed = read(input.key) task[input.name] = input.value write(input.key, task, fixed)"
        " write_changes() return 1",
        {"key": key, "name": name, "value": value},
    )


def field_of(server: RedisServer, task_type: str, key: str, name: str) -> object:
    """A field of a task's record; numbers lose what they have after the point."""
    return _evaluated(server, task_type, "return read(input.key)[input.name]", {"key": key, "name": name})


def _evaluated(server: RedisServer, task_type: str, lua: str, given: dict[str, object]) -> object:
    text = assembled(f"--- include record\n{lua}").text
    packed = cast("object", msgspec.msgpack.encode(given))
    return server.ask("EVAL", text, 1, f"{PREFIX}type:{{{task_type}}}", PREFIX, task_type, "", packed, "a-test")
