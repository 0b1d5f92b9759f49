"""The settings of the server that shows the API and the dashboard."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rota.config.section import Rule, Section, Setting
from rota.config.values import as_bool, as_int, as_names, as_path, as_text

__all__ = ["SERVER_SECTION", "ServerConfig", "is_host"]

_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]%-]{1,253}")
_BASE_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


def is_host(text: str) -> bool:
    """Whether a text can be the name or the address of a host."""
    return bool(_HOST.fullmatch(text))


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """What a configuration says under `server`."""

    host: str = "127.0.0.1"
    port: int = 8787
    base_path: str = ""
    """Where the service stands behind a proxy: "" or "/rota"."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients may call it by, beside the address it is bound to and this host's own."""
    token_file: str | None = None
    """Where the first token is kept; None for beside the database."""
    hide_payloads: bool = False


SERVER_SECTION: Final = Section(
    name="server",
    values=ServerConfig,
    settings=(
        Setting("host", "host", as_text),
        Setting("port", "port", as_int),
        Setting("base_path", "base_path", as_text),
        Setting("allowed_hosts", "allowed_hosts", as_names),
        Setting("token_file", "token_file", as_path),
        Setting("hide_payloads", "hide_payloads", as_bool),
    ),
    rules=(
        Rule(
            "host",
            lambda server: is_host(server.host),
            "Use a name or an address to bind to, like '127.0.0.1' or '0.0.0.0'.",
        ),
        Rule("port", lambda server: 0 <= server.port <= 65_535, "Use 1 to 65535, or 0 for any that is free."),
        Rule(
            "base_path",
            lambda server: bool(_BASE_PATH.fullmatch(server.base_path)),
            "Use a path that begins with a slash and ends without one, like '/rota'.",
        ),
        Rule(
            "allowed_hosts",
            lambda server: all(map(is_host, server.allowed_hosts)),
            "Use host names without scheme and port, like 'rota.example.org'.",
        ),
    ),
    unset={"token_file": "beside the database"},
)
