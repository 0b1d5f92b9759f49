"""Where the commands of the built-in parts are listed. By name, because `rota --help` lists them and needs no part."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMAND_HOMES"]

COMMAND_HOMES: Final = (
    "rota.events.faces.command_tree",
    "rota.batches.faces.command_tree",
    "rota.agents.faces.command_tree",
    "rota.memory.faces.command_tree",
    "rota.alerts.faces.command_tree",
)
"""Modules whose `add_commands(root)` lists them, in the order in which the faces show the parts."""
