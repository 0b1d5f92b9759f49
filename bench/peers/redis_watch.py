"""What a Redis server itself says of the work: its CPU, and the commands that it got. Works without any client."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

__all__ = ["cpu_seconds", "idle_commands", "is_redis"]

SAID_BY_SCRIPT = b" lua] "
"""How MONITOR marks a command that a script gave, and no client."""


def is_redis(url: str) -> bool:
    return url.startswith("redis://")


def cpu_seconds(url: str) -> float:
    """The CPU that the server has used since it started; 0 where there is no Redis."""
    if not is_redis(url):
        return 0.0
    with _connected(url) as connection, connection.makefile("rb") as answer:
        connection.sendall(b"INFO cpu\r\n")
        length = int(answer.readline()[1:])
        said = dict(line.split(":") for line in answer.read(length).decode().split() if ":" in line)
    return float(said["used_cpu_user"]) + float(said["used_cpu_sys"])


async def idle_commands(url: str, seconds: float) -> int:
    """How many commands clients send within so many seconds, those inside of scripts not counted."""
    reader, writer = await asyncio.open_connection(*_address(url))
    writer.write(b"MONITOR\r\n")
    await reader.readline()
    sent = 0
    try:
        async with asyncio.timeout(seconds):
            while line := await reader.readline():
                sent += SAID_BY_SCRIPT not in line
    except TimeoutError:
        return sent
    finally:
        writer.close()
    raise ConnectionError("The Redis server ended while it was watched.")


def _connected(url: str) -> socket.socket:
    return socket.create_connection(_address(url), timeout=30)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None, f"{url} names no host"
    return parts.hostname, parts.port or 6379
