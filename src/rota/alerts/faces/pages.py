"""What fires now, and what has fired."""

from __future__ import annotations

from rota.alerts import Alerts, Firing
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.view import Page, View

__all__ = ["firing", "show"]


async def firing(view: View) -> list[Firing]:
    """What fires now."""
    return await Alerts(await view.app.database()).firing()


async def show(view: View) -> Page:
    alerts = Alerts(await view.app.database())
    now, past = await alerts.firing(), await alerts.history(PAGE_SIZE, view.given("cursor"))
    values = {"firing": now, "history": past.items, "cursor": past.cursor}
    return Page("alerts.html", "Alerts", values, concerns="*")
