"""What fires now, and what has fired."""

from __future__ import annotations

from typing import Final

from rota.access import Role
from rota.alerts import Alerts
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View

__all__ = ["PAGES", "show"]


async def show(view: View) -> Page:
    alerts = Alerts(await view.app.database())
    now, past = await alerts.firing(), await alerts.history(PAGE_SIZE, view.given("cursor"))
    values = {"firing": now, "history": past.items, "cursor": past.cursor}
    return Page("alerts.html", "Alerts", values, concerns="*")


PAGES: Final = Pages(
    menu=(MenuEntry("alerts", "/alerts", "Alerts", "a", Role.VIEWER, "System", after="instances"),),
    shown=(("/alerts", show, Role.VIEWER),),
    templates="rota.alerts.faces",
)
