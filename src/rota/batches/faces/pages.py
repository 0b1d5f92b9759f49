"""Batches: a form to ask for one, how they do, and one of them with its items as they come."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final

from fastapi.responses import Response
from markupsafe import Markup

from rota.access import Role
from rota.api.paths import KeyInPath, quote_key
from rota.batches.batch import FIRST_ITEMS, Batch, BatchStatus, Subtask, SubtaskStatus
from rota.batches.faces.words import account_of, reason_of, style_of
from rota.batches.limits import limits_of
from rota.batches.names import DETAIL_BATCH
from rota.batches.operator import BatchOperator
from rota.batches.part import BatchesPart, batches_of
from rota.batches.request import BatchRequest
from rota.batches.service import BatchItem, BatchQuery
from rota.batches.today import today
from rota.clock import Instant, from_datetime, to_datetime
from rota.core.task_type import RateLimit
from rota.dashboard import words
from rota.dashboard.actions import Action
from rota.dashboard.charts import progress
from rota.dashboard.forms import Form, whole_number
from rota.dashboard.navigation import MenuEntry
from rota.dashboard.pages.lists import PAGE_SIZE
from rota.dashboard.part import Pages
from rota.dashboard.view import Page, View, safe_back
from rota.errors import IllegalTransition, InvalidInput
from rota.stores.base import Page as StorePage
from rota.triggers.zone import zone

__all__ = ["EXAMPLE", "PAGES", "carry_out", "of_batch", "one", "restored", "show", "start", "to_restore"]

EXAMPLE: Final = "rota batch run location_name -n 50 --style norse --follow"
"""What somebody needs who has no batches yet."""

ITEMS_SHOWN: Final = 100
"""Items of one page, and so many of the dropped ones and of the subtasks."""
_ABOUT: Final = 300
"""Characters of what an item says about itself."""
_LABELS: Final = {"pause": "Pause", "resume": "Resume", "cancel": "Cancel"}
_COLOURS: Final[Mapping[BatchStatus, str]] = {
    BatchStatus.RUNNING: "running",
    BatchStatus.PAUSED: "warn",
    BatchStatus.COMPLETED: "ok",
    BatchStatus.FAILED: "bad",
    BatchStatus.CANCELLED: "aside",
}
_PILLS: Final[Mapping[SubtaskStatus, str]] = {
    SubtaskStatus.QUEUED: "pending",
    SubtaskStatus.DISPATCHED: "running",
    SubtaskStatus.DONE: "completed",
    SubtaskStatus.FAILED: "failed",
    SubtaskStatus.CANCELLED: "cancelled",
}


def operator_of(view: View) -> BatchOperator:
    """Acts on the batches in the name of whoever looks."""
    return BatchOperator(view.app, view.principal)


# --- all of them -----------------------------------------------------------------------------------------------------


async def show(view: View) -> Page:
    """Only what is asked for is looked up: while batches run, the page is asked for several times a second."""
    batches, part = batches_of(view.app), view.app.host.part(BatchesPart)
    query = BatchQuery(status=view.given("status"), type=view.given("type"), session_id=view.given("session"))
    listed = await batches.list(query, PAGE_SIZE, view.given("cursor")) if view.wants("rows") else None
    database = await view.app.database()
    values = {
        "types": [each.name for each in part.types],
        "most": part.config.max_count,
        "is_served": any(record.task_type.name == DETAIL_BATCH for record in await view.app.types()),
        "same_as_asking": _asking(view),
        "switches": await batches.switches(),
        "to_restore": to_restore(),
        "today": await today(database, view.now, _day_began(view)) if view.wants("figures") else None,
        "batches": [] if listed is None else listed.items,
        "cursor": None if listed is None else listed.cursor,
        "query": query,
        "is_filtered": any((query.status, query.type, query.session_id)),
        "statuses": [status.value for status in BatchStatus],
        "same": _listing(view, query),
        "bar": _bar,
        "reason_of": reason_of,
        "style_of": style_of,
        "of_batch": of_batch,
        "example": EXAMPLE,
    }
    return Page("batches.html", "Batches", values, concerns=DETAIL_BATCH)


def _day_began(view: View) -> Instant:
    """Midnight, where whoever looks is."""
    now: datetime = to_datetime(view.now).astimezone(zone(view.preferences.zone()))
    return from_datetime(now.replace(hour=0, minute=0, second=0, microsecond=0))


def _asking(view: View) -> tuple[str, str]:
    """Asking for a batch on the command line, and over HTTP."""
    body = {"type": "location_name", "count": 50, "style": "norse", "priority": 5}
    return EXAMPLE, view.call("POST", "/api/batches", json.dumps(body))


def _listing(view: View, query: BatchQuery) -> tuple[str, str]:
    """Listing the same batches elsewhere."""
    given = {"status": query.status, "type": query.type, "session_id": query.session_id}
    options = [[f"--{name.removesuffix('_id')}", value] for name, value in given.items() if value is not None]
    command = shlex.join(["rota", "batch", "ls", *chain.from_iterable(options)])
    return command, view.call("GET", view.path("/api/batches", **given))


def _bar(batch: Batch, *, has_mark: bool = False) -> Markup:
    """How much of it is there; the mark is where a person can begin with it."""
    said = f"{batch.items:,} of {words.count(batch.count, 'item')}"
    if has_mark and batch.first_response_ms is not None:
        said += f"; first response after {words.span(batch.first_response_ms)}"
    mark = _first_items(batch) if has_mark else None
    return progress(batch.items, batch.count, _COLOURS[batch.status], said, mark=mark)


def _first_items(batch: Batch) -> int:
    """How many items the first response has: what a batch ends with, if that is less."""
    usual = min(FIRST_ITEMS, batch.count)
    return usual if batch.first_at is None else min(usual, batch.items)


# --- one -------------------------------------------------------------------------------------------------------------


async def one(view: View, batch_id: KeyInPath) -> Page:
    """A batch as it stands: its items as they come, what was dropped, and its subtasks."""
    batches = batches_of(view.app)
    batch = await batches.get(batch_id)
    subtasks = await batches.subtasks(batch_id)
    items = twins = invalid = StorePage[BatchItem]([], None)
    if view.wants("items"):
        items = await batches.items(batch_id, limit=ITEMS_SHOWN, cursor=view.given("cursor"))
        if batch.duplicates:
            twins = await batches.items(batch_id, outcome="duplicate", limit=ITEMS_SHOWN)
        if batch.invalid:
            invalid = await batches.items(batch_id, outcome="invalid", limit=ITEMS_SHOWN)
    values = {
        "batch": batch,
        "style": style_of(batch),
        "account": account_of(batch, subtasks),
        "bar": _bar(batch, has_mark=True),
        "first_items": _first_items(batch),
        "actions": of_batch(batch),
        "commands": [
            (shlex.join(["rota", "batch", "show", batch_id]), view.call("GET", f"/api/batches/{quote_key(batch_id)}"))
        ],
        "limits": await _limits(view) if view.wants("facts") else [],
        "items": items.items,
        "cursor": items.cursor,
        "duplicates": twins.items,
        "invalid": invalid.items,
        "nameless": 0 if invalid.cursor is not None else batch.invalid - len(invalid.items),
        "shown": partial(_shown, view),
        "hint_of": partial(_hint_of, view),
        "about": _about,
        "subtask_of": _subtask_of,
        "subtasks": subtasks[:ITEMS_SHOWN],
        "subtasks_in_all": len(subtasks),
        "subtask_pill": _subtask_pill,
        "task_type": DETAIL_BATCH,
    }
    title = f"{batch.count:,} \N{MULTIPLICATION SIGN} {batch.type}"
    return Page("batch.html", title, values, concerns=DETAIL_BATCH, within="batches")


def _shown(view: View, text: str) -> Markup:
    """A name as text. Whatever a model makes of its direction of writing ends where the name does."""
    if view.preferences.hides_payloads:
        return Markup('<span class="hint">hidden</span>')
    return Markup("<bdi>{}</bdi>").format(text)


def _hint_of(view: View, text: str) -> str:
    """The same whole, for what has no room for all of it."""
    return "" if view.preferences.hides_payloads else text


def _about(item: BatchItem) -> list[tuple[str, str]]:
    """What an item says beside its name, each with what it is called; a description needs no such word."""
    told = [(name, text if isinstance(text, str) else json.dumps(text)) for name, text in item.fields.items()]
    return [("" if name == "description" else name, _shortened(text)) for name, text in told if text]


def _shortened(text: str) -> str:
    return text if len(text) <= _ABOUT else text[:_ABOUT] + "…"


def _subtask_of(item: BatchItem) -> str:
    """The subtask that brought an item, as the table below names it: an id ends with index and round."""
    _, index, round_ = item.subtask_id.rsplit(":", 2)
    return index if round_ == "0" else f"{index} in round {round_}"


def _subtask_pill(subtask: Subtask) -> str:
    return _PILLS[subtask.status]


async def _limits(view: View) -> list[tuple[str, str]]:
    """How fast the agents may go, all instances together: what the store has of the type, where somebody has set it."""
    record = next((each for each in await view.app.types() if each.task_type.name == DETAIL_BATCH), None)
    if record is None:
        return []
    config = view.app.host.part(BatchesPart).config
    calls, tokens = record.effective.start_limit, record.effective.rate_limit
    if config.requests_per_minute is None and calls == limits_of(config).calls:
        calls = None  # a bucket that limits nobody, until a provider says "not so fast"
    limits = (("Calls", calls), ("Tokens", tokens))
    return [(label, f"at most {_a_minute(limit):,} a minute") for label, limit in limits if limit is not None]


def _a_minute(limit: RateLimit) -> int:
    """The most that a bucket grants in any minute."""
    return round(limit.rate * 60) + limit.burst - 1


# --- what can be done ------------------------------------------------------------------------------------------------


def of_batch(batch: Batch) -> list[Action]:
    """What can be done to a batch as it stands."""
    if not batch.status.is_open:
        return []
    return [_on_batch(verb, batch) for verb in ("resume" if batch.status is BatchStatus.PAUSED else "pause", "cancel")]


def _on_batch(verb: str, batch: Batch) -> Action:
    whole = words.count(batch.count, "item")
    question = f"Cancel this batch of {whole}? The {batch.items:,} that have come stay; no more are made."
    return Action(
        label=_LABELS[verb],
        path="/act/batch",
        fields=(("verb", verb), ("id", batch.id)),
        command=shlex.join(["rota", "batch", verb, batch.id]),
        method="POST",
        url=f"/api/batches/{quote_key(batch.id)}/{verb}",
        question=question if verb == "cancel" else None,
        danger=verb == "cancel",
    )


def to_restore() -> Action:
    """Take batches on as usual."""
    return Action(
        label="Restore",
        path="/act/batch/restore",
        fields=(),
        command="rota batch restore",
        method="POST",
        url="/api/batches/restore",
    )


# --- and is done -----------------------------------------------------------------------------------------------------


async def start(view: View, form: Form) -> Response:
    """The form that asks for a batch."""
    form.require("type", "count", "priority")
    count, priority = form.read("count", whole_number), form.read("priority", whole_number)
    form.check()
    request = BatchRequest(
        type=form.need("type"), count=count or 0, style=form.get("style") or "", priority=priority or 0
    )
    handle = await operator_of(view).start(request)
    sentence = f"{words.count(request.count, 'item')} of the type {request.type} asked for."
    return view.back(sentence, view.url(f"/batches/{quote_key(handle.id)}"))


_DONE: Final[Mapping[str, tuple[Callable[[BatchOperator, str], Awaitable[Batch]], str]]] = {
    "pause": (BatchOperator.pause, "paused"),
    "resume": (BatchOperator.resume, "resumed"),
    "cancel": (BatchOperator.cancel, "cancelled"),
}


async def carry_out(view: View, form: Form) -> Response:
    """A button about one batch."""
    verb, batch_id, back = form.need("verb"), form.need("id"), _origin(view, form)
    if verb not in _DONE:
        raise InvalidInput(f"There is nothing called {verb[:20]!r} to do here. Use one of: {', '.join(_DONE)}.")
    act, said = _DONE[verb]
    try:
        batch = await act(operator_of(view), batch_id)
    except IllegalTransition as refused:
        # It has ended meanwhile, or somebody was faster: no error, but worth a sentence.
        return view.back(str(refused), back)
    if verb == "cancel" and batch.status is not BatchStatus.CANCELLED:
        return view.back(f"The batch had ended before: {batch.status}.", back)
    return view.back(f"The batch is {said}.", back)


async def restored(view: View, form: Form) -> Response:
    """Switches taken back."""
    await operator_of(view).restore()
    return view.back("Batches are taken on as usual.", _origin(view, form))


def _origin(view: View, form: Form) -> str:
    return safe_back(form.exact("back"), view.site.service.base_path)


PAGES: Final = Pages(
    menu=(MenuEntry("batches", "/batches", "Batches", "b", Role.VIEWER, "Work"),),
    shown=(("/batches", show, Role.VIEWER), ("/batches/{batch_id}", one, Role.VIEWER)),
    acts=(
        ("/act/batch", carry_out, Role.OPERATOR),
        ("/act/batch/start", start, Role.OPERATOR),
        ("/act/batch/restore", restored, Role.ADMIN),
    ),
    templates="rota.batches.faces",
    made_by={DETAIL_BATCH: EXAMPLE},
)
