"""What you write a part of your own with (`docs/parts.md`): each name from where it lives, in one place."""

from __future__ import annotations

from rota.access import Role
from rota.api.routing import routes_for
from rota.cli.invocation import Cli, command, group
from rota.config import Rule, Section, Setting
from rota.core.alert import AlertUnit
from rota.core.task_type import TriggerMode
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View
from rota.part import AgentTool, AlertContext, Attention, Measured, MeasuredKind, Part, PartHost, Related, ToolCaller
from rota.runtime.duty import Duty, DutyContext

__all__ = [
    "AgentTool",
    "AlertContext",
    "AlertUnit",
    "Attention",
    "Cli",
    "Duty",
    "DutyContext",
    "Measured",
    "MeasuredKind",
    "MenuEntry",
    "Page",
    "Pages",
    "Part",
    "PartHost",
    "Related",
    "Role",
    "Rule",
    "Section",
    "Setting",
    "ToolCaller",
    "TriggerMode",
    "View",
    "command",
    "group",
    "routes_for",
]
