"""What a part adds to the dashboard: entries of the menu, pages, and where its buttons go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fastapi.responses import Response

from rota.access import Role
from rota.dashboard.forms import Form
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.view import Page, View

__all__ = ["Act", "KeepsSchedules", "KeptSchedule", "Pages", "Show"]

Show = Callable[..., Awaitable[Page]]
"""Makes a page for a `View`. What else it declares comes from the path, by name, as FastAPI reads it."""
Act = Callable[[View, Form], Awaitable[Response]]
"""Does what a form asks for."""


@dataclass(frozen=True, slots=True)
class KeptSchedule:
    """How the page of a schedule looks that a part knows more of than its trigger and payload."""

    form: str
    """The template of its form."""
    over: str
    """What to do once it is over: a command."""
    same: tuple[str, str]
    """The command and the call that change it."""
    values: Mapping[str, object] = field(default_factory=dict[str, object])


class KeepsSchedules(Protocol):
    """A part that keeps more about some schedules."""

    async def find(self, view: View, task_type: str, schedule_id: str) -> KeptSchedule | None:
        """How its page looks; None if it is a schedule like any other."""
        ...

    async def change(self, view: View, schedule_id: str, form: Form) -> Response:
        """What its form says, done in the part's own way."""
        ...


@dataclass(frozen=True, slots=True)
class Pages:
    """What one part adds. `templates` is the package whose folder `templates` has its own ones."""

    menu: tuple[MenuEntry, ...] = ()
    shown: tuple[tuple[str, Show, Role], ...] = ()
    acts: tuple[tuple[str, Act, Role], ...] = ()
    templates: str | None = None
    schedules: KeepsSchedules | None = None
    made_by: Mapping[str, str] = field(default_factory=dict[str, str])
    """Types whose tasks nobody makes by hand, each with the command that makes one in the part's own way."""
