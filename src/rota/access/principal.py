"""Somebody who acts: a name, a role, and the face that they came through."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Principal", "Role", "Via"]

Via = Literal["api", "dashboard", "cli", "mcp", "code"]


class Role(StrEnum):
    """What somebody may do; each role may do all that the one before it may.

    A viewer looks. An operator acts on tasks, schedules and types. An admin also handles tokens and people's data.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def allows(self, needed: Role) -> bool:
        """Whether this role may do what the other one may."""
        return self.rank >= needed.rank


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. `id` is what the audit log keeps: a token's id, or the person at the command line."""

    id: str
    name: str
    role: Role
    via: Via
    scope: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """What a token is narrowed to beyond its role."""

    @classmethod
    def at_the_command_line(cls) -> Principal:
        """Whoever may start a program beside the store may do everything with it."""
        try:
            person = getpass.getuser()
        except (KeyError, OSError):  # a user id without an entry, as in many containers
            person = "unknown"
        return cls(f"cli:{person}", person, Role.ADMIN, "cli")
