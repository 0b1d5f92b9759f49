"""Events: how consumers and the outbox stand, what is tried again, what was given up, and what was published last."""

from __future__ import annotations

import json
import shlex
from typing import Final

from fastapi.responses import Response

from rota.access import Role
from rota.dashboard import words
from rota.dashboard.actions import Action
from rota.dashboard.forms import Form
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View, safe_back
from rota.errors import InvalidInput
from rota.events.operator import EventOperator
from rota.events.part import EventsPart
from rota.events.reading import DeadLetter, DeadQuery, EventFilter, EventReading, EventView, views_of

__all__ = ["EXAMPLE", "PAGES", "of_letter", "of_refused", "on_all", "show"]

EXAMPLE: Final = """\
from rota.events import Event

@app.consumer("Shop.Order.Created", name="billing")
async def bill(event: Event) -> None:
    print(event.payload)

events = await app.events()
await events.outbox.publish(
    Event("Shop.Order.Created", aggregate_id="o1", payload={"total": 12})
)
"""
"""What somebody needs who has no events yet."""

_SHOWN: Final = 200
_LABELS: Final = {"redrive": "Redrive", "purge": "Purge"}


def operator_of(view: View) -> EventOperator:
    """Acts on the events in the name of whoever looks."""
    return EventOperator(view.app.host.part(EventsPart), view.principal, view.app.database)


async def show(view: View) -> Page:
    """Only what is asked for is looked up: the figures are asked for every few seconds."""
    part = view.app.host.part(EventsPart)
    reading = EventReading(await view.app.database())
    letters = await reading.dead_letters(limit=PAGE_SIZE) if view.wants("dead") else None
    newest = await reading.events(limit=PAGE_SIZE, cursor=view.given("cursor")) if view.wants("events") else None
    values = {
        "bus": (await part.events()).bus.name,
        "figures": await reading.figures(),
        "retrying": sum((await reading.retries_by_consumer()).values()),
        "dead_in_all": await reading.count_dead(),
        "consumers": await views_of(part) if view.wants("consumers") else [],
        "retries": await reading.retries(PAGE_SIZE) if view.wants("retries") else [],
        "letters": [] if letters is None else letters.items,
        "refused": (await reading.events(EventFilter(status=("dead",)), PAGE_SIZE)).items if view.wants("dead") else [],
        "events": [] if newest is None else newest.items,
        "cursor": None if newest is None else newest.cursor,
        "is_new_here": not (part.consumers or await reading.has_any()),
        "example": EXAMPLE,
        "short": _short,
        "of_letter": of_letter,
        "of_refused": of_refused,
        "on_all": on_all,
    }
    return Page("events.html", "Events", values, concerns="*")


def _short(event: EventView) -> str | None:
    """The beginning of a payload: a row has room for no more."""
    if event.payload is None:
        return None
    text = json.dumps(event.payload, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


# --- what can be done ------------------------------------------------------------------------------------------------


def of_letter(letter: DeadLetter) -> list[Action]:
    """What can be done about one dead letter."""
    return [_on_letter(verb, letter) for verb in _LABELS]


def _on_letter(verb: str, letter: DeadLetter) -> Action:
    name = f"{letter.event_id} at {letter.consumer}"
    return Action(
        label=_LABELS[verb],
        path="/act/event",
        fields=(("verb", verb), ("event", letter.event_id), ("consumer", letter.consumer)),
        command=shlex.join(["rota", "event", verb, letter.event_id, "--consumer", letter.consumer]),
        method="POST",
        url=f"/api/events/dead/{verb}",
        body=json.dumps({"event_ids": [letter.event_id], "consumer": letter.consumer}),
        question=f"Purge the dead letter {name}? It is deleted permanently." if verb == "purge" else None,
        danger=verb == "purge",
    )


def on_all(verb: str, count: int) -> Action:
    """The same with all dead letters."""
    questions = {
        "redrive": f"Redrive {words.count(count, 'dead letter')}? Their consumers try them again.",
        "purge": f"Purge {words.count(count, 'dead letter')}? They are deleted permanently.",
    }
    return Action(
        label=f"{_LABELS[verb]} all",
        path="/act/event",
        fields=(("verb", verb), ("expected", str(count))),
        command=shlex.join(["rota", "event", verb, "--all"]),
        method="POST",
        url=f"/api/events/dead/{verb}",
        body=json.dumps({"all": True}),
        question=questions[verb],
        danger=verb == "purge",
    )


def of_refused(event: EventView) -> list[Action]:
    """What can be done about an event that the bus has refused."""
    return [_on_refused(event, purge=False), _on_refused(event, purge=True)]


def _on_refused(event: EventView, *, purge: bool) -> Action:
    words_of_purge = f"Purge the event {event.event_id}? It is deleted permanently."
    return Action(
        label="Purge" if purge else "Retry",
        path="/act/outbox",
        fields=(("verb", "purge" if purge else "retry"), ("event", event.event_id)),
        command=shlex.join(["rota", "outbox", "retry", event.event_id, *(["--purge"] if purge else [])]),
        method="POST",
        url="/api/outbox/retry",
        body=json.dumps({"event_ids": [event.event_id], **({"purge": True} if purge else {})}),
        question=words_of_purge if purge else None,
        danger=purge,
    )


# --- and is done -----------------------------------------------------------------------------------------------------


async def act_on_letters(view: View, form: Form) -> Response:
    """A button about one dead letter, or about all of them."""
    verb, event_id, operator = form.need("verb"), form.get("event"), operator_of(view)
    if verb not in _LABELS:
        raise InvalidInput(f"There is nothing called {verb[:20]!r} to do here. Use one of: {', '.join(_LABELS)}.")
    wanted = DeadQuery(consumer=form.get("consumer"), event_ids=() if event_id is None else (event_id,))
    act = operator.redrive if verb == "redrive" else operator.purge
    changed = await act(wanted, expected=_expected(form))
    done = "redriven" if verb == "redrive" else "purged"
    return view.back(f"{words.count(changed, 'dead letter')} {done}.", _origin(view, form))


async def act_on_refused(view: View, form: Form) -> Response:
    """A button about an event that the bus has refused."""
    event_ids, operator = [form.need("event")], operator_of(view)
    if form.need("verb") == "purge":
        return view.back(f"{words.count(await operator.purge_outbox(event_ids), 'event')} purged.", _origin(view, form))
    changed = await operator.retry_outbox(event_ids)
    return view.back(f"{words.count(changed, 'event')} offered to the bus again.", _origin(view, form))


def _expected(form: Form) -> int | None:
    """How many somebody has agreed to, where it is about all of them."""
    given = form.get("expected")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise InvalidInput(f"The form says {given[:20]!r} where a number belongs. Load the page again.")
    return int(given)


def _origin(view: View, form: Form) -> str:
    return safe_back(form.exact("back"), view.site.service.base_path)


PAGES: Final = Pages(
    menu=(MenuEntry("events", "/events", "Events", "v", Role.VIEWER, "Work"),),
    shown=(("/events", show, Role.VIEWER),),
    acts=(("/act/event", act_on_letters, Role.OPERATOR), ("/act/outbox", act_on_refused, Role.OPERATOR)),
    templates="rota.events.faces",
)
