"""The pages of the dashboard, as one table: the menu, the keys and the help page are made from it.

Parts bring rows of their own (`Pages.menu`), which follow those of their group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rota.access import Role

__all__ = ["PAGES", "MenuEntry", "menu_with"]


class MenuEntry(NamedTuple):
    """One page of the menu. `letter` is pressed after g; `after` names the entry that it follows, if it matters."""

    name: str
    path: str
    title: str
    letter: str
    role: Role
    group: str
    after: str | None = None


PAGES: Final[tuple[MenuEntry, ...]] = (
    MenuEntry("overview", "/", "Overview", "o", Role.VIEWER, "Work"),
    MenuEntry("tasks", "/tasks", "Tasks", "t", Role.VIEWER, "Work"),
    MenuEntry("schedules", "/schedules", "Schedules", "s", Role.VIEWER, "Work"),
    MenuEntry("runs", "/runs", "Runs", "r", Role.VIEWER, "Work"),
    MenuEntry("failures", "/failures", "Failures", "f", Role.VIEWER, "Work"),
    MenuEntry("dead_letters", "/dead-letters", "Dead letters", "d", Role.VIEWER, "Work"),
    MenuEntry("instances", "/instances", "Instances", "i", Role.VIEWER, "System"),
    MenuEntry("audit", "/audit", "Audit log", "l", Role.OPERATOR, "System"),
    MenuEntry("users", "/users", "Users", "u", Role.ADMIN, "System"),
    MenuEntry("tokens", "/tokens", "Tokens", "k", Role.ADMIN, "System"),
    MenuEntry("docs", "/docs", "API", "p", Role.VIEWER, "System"),
    MenuEntry("help", "/help", "Help", "h", Role.VIEWER, "System"),
)


def menu_with(added: Sequence[MenuEntry]) -> tuple[MenuEntry, ...]:
    """The pages with those that parts add: each behind the entry that it names, else at the end of its group."""
    menu = list(PAGES)
    for entry in added:
        ahead = [place for place, known in enumerate(menu) if entry.after in (None, known.name)]
        same_group = [place for place in ahead if menu[place].group == entry.group] or ahead
        menu.insert(same_group[-1] + 1 if same_group else len(menu), entry)
    return tuple(menu)
