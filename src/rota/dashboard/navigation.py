"""The pages of the dashboard, as one table: the menu, the keys and the help page are made from it.

A part of Rota that brings a page of its own adds a row here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rota.access import Role

__all__ = ["PAGES", "Entry"]


class Entry(NamedTuple):
    """One page of the menu. `letter` is pressed after g."""

    name: str
    path: str
    title: str
    letter: str
    role: Role
    group: str


PAGES: Final[tuple[Entry, ...]] = (
    Entry("overview", "/", "Overview", "o", Role.VIEWER, "Work"),
    Entry("tasks", "/tasks", "Tasks", "t", Role.VIEWER, "Work"),
    Entry("schedules", "/schedules", "Schedules", "s", Role.VIEWER, "Work"),
    Entry("runs", "/runs", "Runs", "r", Role.VIEWER, "Work"),
    Entry("dead_letters", "/dead-letters", "Dead letters", "d", Role.VIEWER, "Work"),
    Entry("agents", "/agents", "Agents", "e", Role.VIEWER, "Work"),
    Entry("memory", "/memory", "Memory", "m", Role.VIEWER, "Work"),
    Entry("instances", "/instances", "Instances", "i", Role.VIEWER, "System"),
    Entry("alerts", "/alerts", "Alerts", "a", Role.VIEWER, "System"),
    Entry("audit", "/audit", "Audit log", "l", Role.OPERATOR, "System"),
    Entry("users", "/users", "Users", "u", Role.ADMIN, "System"),
    Entry("tokens", "/tokens", "Tokens", "k", Role.ADMIN, "System"),
    Entry("help", "/help", "Help", "h", Role.VIEWER, "System"),
)
