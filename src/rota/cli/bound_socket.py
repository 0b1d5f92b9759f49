"""A port that is ours before anything else begins: if somebody else has it, that is said first."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from rota.errors import InvalidConfig

__all__ = ["BoundSocket", "Options"]


class Options(NamedTuple):
    """What to tell somebody whose address does not work: the command, and its options for another one."""

    command: str
    host: str
    port: str
    default_port: int


OPTIONS: Final = Options("rota up", "--host", "--port", 8787)

_EVERYWHERE: Final[Mapping[str, str]] = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked up
"""Where to find on this host what is bound to all of its addresses."""


class BoundSocket:
    """A bound socket: the port is ours, and nobody is answered yet."""

    def __init__(self, host: str, port: int, *, options: Options = OPTIONS) -> None:
        self.host = host
        self.socket = _bound(host, port, options)
        self.port: int = self.socket.getsockname()[1]

    def url(self, path: str) -> str:
        """Where a person on this host finds it."""
        named = _EVERYWHERE.get(self.host, self.host)
        return f"http://{f'[{named}]' if ':' in named else named}:{self.port}{path}"

    def close(self) -> None:
        self.socket.close()


def _bound(host: str, port: int, options: Options) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no name"
        raise InvalidConfig(
            f"The host {host!r} cannot be served: {reason}. Use 127.0.0.1, or {options.host} ADDRESS."
        ) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        # Two servers can be bound to a port; only one of them can listen.
        made.listen(socket.SOMAXCONN)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise InvalidConfig(_refusal(host, port, error, options)) from None
    return made


def _refusal(host: str, port: int, error: OSError, options: Options) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"The port {port} of {host} is taken, perhaps by another `{options.command}`."
            f" Use another one: {options.port} {port + 1}."
        )
    if error.errno == errno.EACCES:
        return (
            f"The port {port} of {host} may not be used: {error.strerror}."
            f" Use one from 1024 on: {options.port} {options.default_port}."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine. Use 127.0.0.1, or {options.host} with one that it has."
    return f"{host}:{port} cannot be served: {error.strerror or error}. Use another {options.host} or {options.port}."
