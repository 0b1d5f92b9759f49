"""Alerts as a part: two duties beside every worker, and what the faces show of what fires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rota.alerts.section import ALERTS_SECTION
from rota.part import Attention, Part
from rota.runtime.duty import Duty, DutyContext

if TYPE_CHECKING:
    from fastapi import APIRouter

    from rota.alerts.alerts import Alerts
    from rota.dashboard.part import Pages

__all__ = ["AlertsPart"]


class AlertsPart(Part):
    """Any number of instances may have it: one looks at the rules at a time, and each alert is told once."""

    name = "alerts"
    section = ALERTS_SECTION
    is_always_at_work = True

    def duties(self, context: DutyContext) -> Sequence[Duty[Any]]:
        from rota.alerts.duty import make_duties

        return make_duties(self.host, context) if ALERTS_SECTION.of(self.host.config).enabled else []

    def routes(self) -> Sequence[APIRouter]:
        from rota.alerts.faces.routes import acting, router

        return [router, acting]

    def pages(self) -> Pages:
        from rota.alerts.faces.pages import PAGES

        return PAGES

    async def attention(self) -> Sequence[Attention]:
        from rota.alerts.kinds import kinds_of, rules_of, shown_at

        rules = rules_of(self.host.config, kinds_of(self.host.parts.values()))
        return [
            Attention(
                one.rule,
                one.summary,
                one.since_at,
                "/alerts",
                one.subject,
                one.value,
                shown_at(rules.get(one.rule), one.subject),
            )
            for one in await (await self._alerts()).firing()
            if one.silenced_until is None
        ]

    async def badges(self) -> Mapping[str, int]:
        return {"alerts": await (await self._alerts()).count()}

    async def _alerts(self) -> Alerts:
        from rota.alerts.alerts import Alerts

        return Alerts(await self.host.database())
