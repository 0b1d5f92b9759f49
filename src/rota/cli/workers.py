"""`rota up` and `rota worker`."""

from __future__ import annotations

from rota.cli.invocation import Cli


def up(cli: Cli) -> None:
    """x"""


def worker(cli: Cli) -> None:
    """x"""
