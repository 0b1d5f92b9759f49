"""What fires now, what has fired, and what rules can look at."""

from __future__ import annotations

from typing import Final

from rota.access import Role
from rota.alerts import Alerts, shown_kinds
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View

__all__ = ["PAGES", "show"]


async def show(view: View) -> Page:
    alerts = Alerts(await view.app.database())
    now, past = await alerts.firing(), await alerts.history(PAGE_SIZE, view.given("cursor"))
    kinds = shown_kinds(view.app.host.parts.values())
    values = {"firing": now, "history": past.items, "cursor": past.cursor, "kinds": kinds}
    return Page("alerts.html", "Alerts", values, concerns="*")


PAGES: Final = Pages(
    menu=(MenuEntry("alerts", "/alerts", "Alerts", "a", Role.VIEWER, "System", after="instances"),),
    shown=(("/alerts", show, Role.VIEWER),),
    templates="rota.alerts.faces",
)
