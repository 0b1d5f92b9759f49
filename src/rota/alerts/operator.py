"""What people do about alerts, with their name on it."""

from __future__ import annotations

from typing import Final

from rota.access import Principal, Role
from rota.access.acting import Actor
from rota.alerts.alerts import Alerts
from rota.alerts.kinds import kinds_of, rules_of
from rota.alerts.rule_states import RuleState
from rota.alerts.silences import Silence, Silences
from rota.clock import Millis
from rota.core.alert import EngineKind
from rota.core.task_type import did_you_mean
from rota.errors import IllegalTransition, InvalidInput
from rota.part import HasHost

__all__ = ["AlertOperator", "rules_as_they_stand"]

_OF_TYPES: Final = frozenset(EngineKind) - {EngineKind.INSTANCE_LOST}
"""The kinds whose subjects are task types."""


async def rules_as_they_stand(app: HasHost) -> list[RuleState]:
    """Every rule that is looked at, and every one of this configuration."""
    kinds = kinds_of(app.host.parts.values())
    return await Alerts(await app.host.database()).rules(rules_of(app.host.config, kinds), kinds)


class AlertOperator(Actor):
    """Acts on the alerts of a connected app in somebody's name."""

    def __init__(self, app: HasHost, principal: Principal) -> None:
        super().__init__(principal, app.host.database)
        self._app = app

    async def silence(self, rule: str, subject: str, duration_ms: Millis, reason: str = "") -> Silence:
        """Tell nobody of a rule, or of one subject of it, for so long from now."""
        self.need(Role.OPERATOR, "silence an alert")
        await self._check(rule, subject)
        silences = Silences(await self.database())
        async with self.recording("alert.silence", _target(rule, subject)) as note:
            before = await silences.find(rule, subject)
            note.before = None if before is None else before.to_dict()
            made = await silences.add(rule, subject, duration_ms, self.principal.name, reason)
            note.after = made.to_dict()
        return made

    async def unsilence(self, rule: str, subject: str) -> None:
        """Let it be heard again: what fires still is told now."""
        self.need(Role.OPERATOR, "end the silence of an alert")
        silences, target = Silences(await self.database()), _target(rule, subject)
        async with self.recording("alert.unsilence", target) as note:
            before = await silences.find(rule, subject)
            note.before = None if before is None else before.to_dict()
            if not await silences.remove(rule, subject):
                raise IllegalTransition(f"{target} is not silenced. Nothing changed; `rota alert rules` shows what is.")

    async def _check(self, rule: str, subject: str) -> None:
        known = {each.rule: each for each in await rules_as_they_stand(self._app)}
        if rule not in known:
            raise InvalidInput(
                f"There is no rule {rule!r}. {did_you_mean(rule, known)} `rota alert rules` lists them.", field="rule"
            )
        if subject and known[rule].kind in _OF_TYPES:
            types = [record.task_type.name for record in await (await self._app.host.ready()).list_types()]
            if subject not in types:
                raise InvalidInput(
                    f"The rule {rule!r} looks at task types, and there is none {subject!r}."
                    f" {did_you_mean(subject, types)}",
                    field="subject",
                )


def _target(rule: str, subject: str) -> str:
    return f"{rule}/{subject}" if subject else rule
