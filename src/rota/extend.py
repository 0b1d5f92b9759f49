"""What you write a part of your own with (`docs/parts.md`): each name from where it lives, in one place."""

from __future__ import annotations

from rota.access import Role
from rota.api.routing import routes_for
from rota.cli.invocation import Cli, command, group
from rota.config import Rule, Section, Setting
from rota.core.task_type import TriggerMode
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View
from rota.part import Attention, Part, PartHost
from rota.runtime.duty import Duty, DutyContext

__all__ = [
    "Attention",
    "Cli",
    "Duty",
    "DutyContext",
    "MenuEntry",
    "Page",
    "Pages",
    "Part",
    "PartHost",
    "Role",
    "Rule",
    "Section",
    "Setting",
    "TriggerMode",
    "View",
    "command",
    "group",
    "routes_for",
]
