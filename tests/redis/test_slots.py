"""Every script touches one slot only, seen by MONITOR: also what a script computes itself, beside its KEYS.

But for one, which is only called where a single node has all slots: test_cluster.py works without it."""

from __future__ import annotations

import re
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import Thread

from redis.crc import key_slot
from tour import tour

from rota.stores import open_store
from rota.stores.redis import source
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import HOST, RedisServer

WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Watch:
    """What the server was told to do, line by line, while the block lasts."""

    def __init__(self, server: RedisServer) -> None:
        self.lines: list[str] = []
        self._socket = socket.create_connection((HOST, server.port))
        self._thread = Thread(target=self._read)

    def start(self) -> None:
        self._socket.sendall(b"MONITOR\r\n")
        assert self._socket.recv(5) == b"+OK\r\n"
        self._thread.start()

    def stop(self) -> None:
        self._socket.sendall(b"QUIT\r\n")
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        with self._socket.makefile("r", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.lines.append(line)


@contextmanager
def watching(server: RedisServer) -> Generator[Watch]:
    watch = Watch(server)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def scripts_of(lines: list[str]) -> Iterator[list[list[str]]]:
    """The commands of each script, the call of the script itself first."""
    script: list[list[str]] = []
    for line in lines:
        words = WORD.findall(line)
        if " lua] " in line:
            script.append(words)
            continue
        if script:
            yield script
        script = [words] if words and words[0].lower() in {"eval", "evalsha"} else []
    if script:
        yield script


def keys_of(script: list[list[str]]) -> set[str]:
    """The keys that a script was given and those that its commands name."""
    call, *commands = script
    keys = set(call[3 : 3 + int(call[2])])
    for words in commands:
        if words[0].lower() != "publish":
            keys |= {word for word in words[1:] if word.startswith("scheduler:")}
    return keys


def is_for_one_node(script: list[list[str]]) -> bool:
    """By its digest, or the first time by its text, of which MONITOR shows the first line as it is."""
    first_line, _, _ = source.script("tick_all").text.partition("\n")
    return script[0][1] == source.script("tick_all").digest or script[0][1].startswith(first_line)


async def test_every_script_touches_one_slot_only(redis: RedisServer, redis_url: str, clock: FakeClock) -> None:
    store = open_store(redis_url, clock)
    await store.open()
    with watching(redis) as watch:
        await tour(World(store, clock))
    await store.close()
    scripts = [script for script in scripts_of(watch.lines) if not is_for_one_node(script)]
    assert len(scripts) > 20
    for script in scripts:
        keys = keys_of(script)
        slots = {key_slot(key.encode()) for key in keys}
        assert len(slots) <= 1, f"a script touches {len(slots)} slots: {sorted(keys)}"


def test_the_watch_sees_what_a_script_does(redis: RedisServer, redis_url: str) -> None:
    assert redis_url
    with watching(redis) as watch:
        redis.ask("EVAL", "return redis.call('GET', 'scheduler:b')", 1, "scheduler:a")
    assert [keys_of(script) for script in scripts_of(watch.lines)] == [{"scheduler:a", "scheduler:b"}]
