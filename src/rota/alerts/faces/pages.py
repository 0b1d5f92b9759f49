"""What fires now, how every rule stands and who wants silence of which, what has fired, and what rules can look at."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import Final

from fastapi.responses import Response

from rota.access import Role
from rota.alerts import AlertOperator, Alerts, kinds_of, rules_as_they_stand, rules_of, shown_at, shown_kinds
from rota.alerts.rule_states import RuleState
from rota.api.paths import quote_key
from rota.clock import parse_duration
from rota.core.alert import AlertState
from rota.dashboard.actions import Action
from rota.dashboard.forms import Form
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View, safe_back

__all__ = ["PAGES", "actions_of", "show", "silence", "silences_of", "unsilence"]

PILLS: Final = {
    AlertState.OK: "on",
    AlertState.PENDING: "pending",
    AlertState.FIRING: "firing",
    AlertState.CLEARING: "paused",
}
"""Which colour a state has."""


async def show(view: View) -> Page:
    alerts = Alerts(await view.app.database())
    now, past = await alerts.firing(), await alerts.history(PAGE_SIZE, view.given("cursor"))
    rules = await rules_as_they_stand(view.app)
    known = rules_of(view.app.host.config, kinds_of(view.app.host.parts.values()))
    values = {
        "firing": now,
        "shown_at": {one: shown_at(known.get(one.rule), one.subject) for one in now},
        "rules": rules,
        "pills": PILLS,
        "actions_of": actions_of,
        "silences_of": silences_of,
        "given": {name: view.given(name) or "" for name in ("rule", "subject", "for", "reason")},
        "history": past.items,
        "cursor": past.cursor,
        "kinds": shown_kinds(view.app.host.parts.values()),
    }
    return Page("alerts.html", "Alerts", values, concerns="*")


def actions_of(rule: RuleState) -> list[Action]:
    """Silence of all that a rule looks at, and the end of each that there is."""
    ends = [
        _action(rule.rule, each.subject, "unsilence", f"Unsilence {each.subject}".rstrip()) for each in rule.silences
    ]
    return [*ends, *([] if rule.silenced_until else silences_of(rule.rule))]


def silences_of(rule: str, subject: str = "") -> list[Action]:
    """Silence for an hour or a day."""
    return [_action(rule, subject, "silence", f"Silence for {words}", long) for long, words in _CHOICES]


_CHOICES: Final = (("1h", "an hour"), ("1d", "a day"))


def _action(rule: str, subject: str, verb: str, label: str, long: str | None = None) -> Action:
    body = {**({"subject": subject} if subject else {}), **({} if long is None else {"duration": long})}
    named = [rule, *([subject] if subject else [])]
    return Action(
        label=label,
        path=f"/act/alert/{verb}",
        fields=(("rule", rule), ("subject", subject), *(() if long is None else (("for", long),))),
        command=shlex.join(["rota", "alert", verb, *named, *([] if long is None else ["--for", long])]),
        method="POST",
        url=f"/api/alerts/rules/{quote_key(rule)}/{verb}",
        body=json.dumps(body),
    )


async def silence(view: View, form: Form) -> Response:
    """Tell nobody for a time."""
    form.require("rule", "for")
    duration_ms = form.read("for", partial(parse_duration, what="duration"))
    form.check()
    rule, subject = form.need("rule"), form.get("subject") or ""
    operator = AlertOperator(view.app, view.principal)
    made = await operator.silence(rule, subject, duration_ms or 0, form.get("reason") or "")
    whom = f"{rule} of {subject}" if subject else rule
    return view.back(f"{whom} is silenced until {view.clock(made.until_at)}.", _origin(view, form))


async def unsilence(view: View, form: Form) -> Response:
    """Let it be heard again."""
    rule, subject = form.need("rule"), form.get("subject") or ""
    await AlertOperator(view.app, view.principal).unsilence(rule, subject)
    whom = f"{rule} of {subject}" if subject else rule
    return view.back(f"{whom} is heard again.", _origin(view, form))


def _origin(view: View, form: Form) -> str:
    return safe_back(form.exact("back"), view.site.service.base_path)


PAGES: Final = Pages(
    menu=(MenuEntry("alerts", "/alerts", "Alerts", "a", Role.VIEWER, "System", after="instances"),),
    shown=(("/alerts", show, Role.VIEWER),),
    acts=(("/act/alert/silence", silence, Role.OPERATOR), ("/act/alert/unsilence", unsilence, Role.OPERATOR)),
    templates="rota.alerts.faces",
)
