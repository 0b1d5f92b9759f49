"""The limit beside the figures on Redis: the same script calls, replayed over one socket, with no Rota at either end.

What Rota sends while it schedules, touches and runs is heard by MONITOR, in the order in which the server did it. On
an emptied server the same bytes are sent again as fast as the socket takes them, and the answers are not even decoded:
what is left is the server's own time for these scripts.
"""

from __future__ import annotations

import codecs
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from bench.side_by_side import Servers, run_program
from rota.stores.redis.source import script
from rota.testing.redis_servers import RedisServer

__all__ = ["RedisLimits", "bare_redis"]

END: Final = b"the-end-of-the-replay"
TOKENS_FROM: Final = 8_000_000_000_000_000
_WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_SAID_BY_SCRIPT: Final = b" lua] "

Command = tuple[bytes, ...]


class RedisLimits(NamedTuple):
    """A second, of the server alone."""

    schedules: float
    touches: float
    runs: float


class Phases(NamedTuple):
    """What Rota sent: until it was open, for new tasks, for the same once more, and for the runs."""

    opening: list[Command]
    schedules: list[Command]
    touches: list[Command]
    runs: list[Command]


def bare_redis(places: Servers, tasks: int) -> RedisLimits:
    """Record a small run of Rota, then replay it."""
    server = places.redis
    _empty(server)
    with _Monitor(server.port) as monitor:
        run_program([sys.executable, "-m", "bench.rota_peer", "work", server.url, str(tasks)], places.folder)
    phases = _phases(monitor.commands())
    _empty(server)
    _replay(server.port, phases.opening)
    limits = RedisLimits(*(tasks / _replay(server.port, phase) for phase in phases[1:]))
    _check_all_ran(server.ask("HGETALL", "scheduler:counts:{upkeep}"), tasks)
    server.ask("FLUSHALL")
    return limits


def _empty(server: RedisServer) -> None:
    """Tokens follow the clock, and a replay is later: with a number above it they follow each other alone."""
    server.ask("FLUSHALL")
    server.ask("SET", "scheduler:seq:{upkeep}", TOKENS_FROM)


class _Monitor:
    """Everything that clients send to a server, while the block lasts."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._heard = bytearray()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> _Monitor:
        self._socket.sendall(b"MONITOR\r\n")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.5)  # what the server has done is still on its way
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while heard := self._socket.recv(1 << 20):
            self._heard += heard

    def commands(self) -> Iterator[Command]:
        for line in bytes(self._heard).split(b"\r\n"):
            if b'"' in line and _SAID_BY_SCRIPT not in line[:60]:
                yield tuple(codecs.escape_decode(word)[0] for word in _WORD.findall(line))  # type: ignore[misc]


def _phases(commands: Iterator[Command]) -> Phases:
    digests = {name: script(name).digest.encode() for name in ("touch", "claim", "settle")}
    calls = [command for command in commands if command[0].upper() in (b"EVALSHA", b"HSET", b"HSETNX", b"SADD", b"SET")]
    touches = [at for at, call in enumerate(calls) if _digest(call) == digests["touch"]]
    assert touches, "Rota did not touch anything"
    first, last, half = touches[0], touches[-1], touches[len(touches) // 2]
    ran = [call for call in calls[last + 1 :] if _digest(call) in (digests["claim"], digests["settle"])]
    return Phases(calls[:first], calls[first:half], calls[half : last + 1], ran)


def _digest(call: Command) -> bytes:
    return call[1] if call[0].upper() == b"EVALSHA" else b""


def _replay(port: int, commands: Sequence[Command]) -> float:
    """Seconds until the server has answered all of them."""
    sent = b"".join(_packed(command) for command in (*commands, (b"ECHO", END)))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        started = time.perf_counter()
        sending = threading.Thread(target=connection.sendall, args=(sent,))
        sending.start()
        tail = b""
        while END not in tail:
            tail = tail[-len(END) :] + connection.recv(1 << 20)
        seconds = time.perf_counter() - started
        sending.join()
    return seconds


def _packed(command: Command) -> bytes:
    words = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
    return b"*%d\r\n%s" % (len(command), words)


def _check_all_ran(counts: object, tasks: int) -> None:
    """A replay that the scripts refuse would be fast, and would say nothing."""
    succeeded = int(cast("dict[str, str]", counts).get("succeeded_total", 0))
    assert succeeded == tasks, f"the replay ran {succeeded} of {tasks} tasks: {counts}"
