"""What an item must satisfy before it may join a group.

Everything is checked before the first write, so that one bad item fails alone and never spoils its neighbours' group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import fields, replace

from rota.clock import DAY, SECOND, Millis
from rota.core.failure import FailureReport
from rota.core.rank import HIGHEST_PRIORITY, LOWEST_PRIORITY
from rota.core.task import Activity, Change, Identified, Identity, NewTask, Renewal, Settlement, Transition, policy_of
from rota.core.task_type import TaskType, did_you_mean
from rota.errors import InvalidInput, InvalidTrigger, LimitExceeded
from rota.keys import MAX_KEY_BYTES, check_task_type
from rota.stores.base import (
    LIMITS,
    MAX_DETAILS_BYTES,
    MAX_PAGE,
    MAX_PAYLOAD_BYTES,
    MAX_PROGRESS_BYTES,
    MAX_TEXT,
    Overrides,
    RunLeft,
    RunQuery,
    RunRef,
    RunSort,
    TaskQuery,
)
from rota.triggers import decode_trigger

__all__ = [
    "check_activity",
    "check_change",
    "check_cursor",
    "check_failure",
    "check_find",
    "check_identity",
    "check_left",
    "check_new",
    "check_note",
    "check_overrides",
    "check_page",
    "check_renewal",
    "check_run",
    "check_runs",
    "check_settlement",
    "check_take",
    "check_user",
    "size_of",
]

MAX_SHORT = 255
"""Characters of an id, or of what is as short as one."""
LONGEST_DEBT_MS: Millis = 10 * 366 * DAY
"""How long it may take to pay off what is owed in one go: as long as the longest duration there is."""

_SETTLING = frozenset(
    {Transition.COMPLETE, Transition.DISCARD, Transition.RETRY, Transition.FAIL, Transition.SNOOZE, Transition.RELEASE}
)


_check_task_type = lru_cache(1_000)(check_task_type)
"""Names are few, and each is good or bad for ever."""


def check_identity(identity: Identity | Identified) -> None:
    _check_task_type(identity.task_type)
    if not identity.key:
        raise InvalidInput(f"A task of type {identity.task_type!r} was given an empty key. Give it one.")
    _check_text("key", identity.key)
    size = len(identity.key.encode())
    if size > MAX_KEY_BYTES:
        raise LimitExceeded(
            f"The key of a {identity.task_type!r} task has {size} bytes; {MAX_KEY_BYTES} is the limit.", field="key"
        )


def check_new(new: NewTask) -> None:
    check_identity(new)
    _check_payload(new.payload)
    _check_series(new.trigger, new.policy)
    for name, text in (("serial", new.serial), ("owner", new.owner), ("user_id", new.user_id)):
        _check_text(name, text, MAX_SHORT)
    for name, text in (("device_id", new.device_id), ("agent_id", new.agent_id), ("trace", new.trace)):
        _check_text(name, text, MAX_SHORT)
    if new.priority is not None:
        _check_priority(new.priority)
    if new.delay_ms < 0 or (new.delay_ms and (new.trigger is not None or new.scheduled_at is not None)):
        raise InvalidInput(f"delay_ms is {new.delay_ms}; it must be 0 or more, without trigger and scheduled_at.")
    for name, number in (("permits", new.permits), ("cost", new.cost), ("max_runs", new.max_runs)):
        if number is not None and not 1 <= number <= 1_000_000:
            raise InvalidInput(f"{name} is {number}; it must be 1 to 1,000,000.", field=name)


def check_change(change: Change) -> None:
    check_identity(change)
    if isinstance(change.payload, str):
        _check_payload(change.payload)
    _check_series(
        change.trigger if isinstance(change.trigger, str) else None,
        change.policy if isinstance(change.policy, str) else None,
    )
    if isinstance(change.priority, int):
        _check_priority(change.priority)


def check_activity(activity: Activity) -> None:
    check_identity(activity)
    for name in ("user_id", "device_id", "agent_id", "trace"):
        _check_text(name, getattr(activity, name), MAX_SHORT)


def check_renewal(renewal: Renewal) -> None:
    if renewal.progress is not None and len(renewal.progress.encode()) > MAX_PROGRESS_BYTES:
        raise LimitExceeded(f"The progress of {renewal.identity} is over {MAX_PROGRESS_BYTES:,} bytes. Report less.")


def check_settlement(settlement: Settlement) -> Settlement:
    """The settlement with its texts cut to what is kept of them."""
    check_identity(settlement)
    if settlement.transition not in _SETTLING:
        raise InvalidInput(
            f"A run cannot be settled by {settlement.transition!r}. Use one of: {', '.join(sorted(_SETTLING))}."
        )
    for name in ("reason", "error", "result"):
        _check_text(name, getattr(settlement, name))
    if settlement.details is not None:
        _check_details(settlement.details)
    if len(settlement.error or "") <= MAX_TEXT and len(settlement.result or "") <= MAX_TEXT:
        return settlement
    return replace(settlement, error=_cut(settlement.error), result=_cut(settlement.result))


def check_left(left: RunLeft) -> None:
    check_identity(left.run.identity)
    _check_details(left.details)


def check_run(run: RunRef) -> None:
    check_identity(run.identity)


def _check_details(details: str) -> None:
    _check_text("details", details)
    if len(details.encode()) > MAX_DETAILS_BYTES:
        raise LimitExceeded(f"The details of a run have over {MAX_DETAILS_BYTES:,} bytes. Keep less of them.")


def check_failure(report: FailureReport) -> None:
    _check_task_type(report.task_type)
    for name in ("id", "kind", "place", "message"):
        _check_text(name, getattr(report, name), MAX_TEXT)


def check_overrides(changes: Mapping[str, object]) -> dict[str, object]:
    """An operator's overrides by name, as values of their types; None takes one back."""
    known = {field.name: field.type for field in fields(Overrides)}
    checked: dict[str, object] = {}
    for name, value in changes.items():
        if name not in known:
            raise InvalidInput(f"Nothing called {name!r} can be overridden. {did_you_mean(name, known)}")
        try:
            checked[name] = msgspec.convert(msgspec.to_builtins(value), known[name])
        except (msgspec.ValidationError, TypeError) as error:
            raise InvalidInput(f"The override {name} is {str(value)[:100]!r}: {error}.") from None
    given = {name: checked[name] for name in LIMITS if checked.get(name) is not None}
    problems = replace(TaskType(name="any"), **given).problems(where="override")
    if problems:
        raise InvalidInput(" ".join(problems))
    return checked


def check_note(name: str, value: str) -> None:
    if not name or not value:
        raise InvalidInput(f"The note {name[:40]!r} has no name or no text. Give both.")
    _check_text("name", name, MAX_SHORT)
    _check_text("text", value)


def check_user(user_id: str) -> None:
    if not user_id:
        raise InvalidInput("The user_id is empty. Name the user who is meant.")
    _check_text("user_id", user_id, MAX_SHORT)


def check_take(bucket: str, amount: int, rate: float, burst: int, *, owe: bool) -> None:
    _check_text("bucket", bucket, MAX_SHORT)
    if not (math.isfinite(rate) and rate > 0) or burst < 1:
        raise InvalidInput(
            f"The bucket {bucket!r} has rate {rate} and burst {burst}; rate must be over 0, burst at least 1."
        )
    if amount > burst and not owe:
        raise LimitExceeded(f"{amount} can never be taken from the bucket {bucket!r}: it holds {burst} at most.")
    # So written that what is no number is refused, too.
    if not abs(amount) <= max(burst, rate * LONGEST_DEBT_MS / SECOND):
        raise LimitExceeded(
            f"{amount} is more than the bucket {bucket!r} gets in ten years, at {rate:g} a second. Nobody would wait so"
            " long: look where the number comes from."
        )


def check_page(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise LimitExceeded(f"A page of {limit} was asked for; 1 to {MAX_PAGE:,} is possible.")


def check_find(query: TaskQuery) -> None:
    check_page(query.limit)
    if query.search is not None:
        _check_text("search", query.search, MAX_SHORT)


def check_cursor(cursor: str) -> Identity:
    """The identity that a page by (type, key) ended with."""
    task_type, slash, key = cursor.partition("/")
    if not slash:
        raise InvalidInput(f"The cursor {cursor!r} is none of ours. Take it from the last page, unchanged.")
    return Identity(task_type, key)


def check_runs(query: RunQuery) -> None:
    """Whether a query of the run log makes sense; ids and cursors are numbers as the store wrote them."""
    check_page(query.limit)
    if query.run_id is not None and not _is_number(query.run_id):
        raise InvalidInput(f"{query.run_id!r} is no run id. Take one from `rota run ls`.")
    if query.sort is RunSort.NEWEST and query.cursor is not None and not _is_number(query.cursor):
        raise InvalidInput(f"The cursor {query.cursor!r} is none of ours. Take it from the last page, unchanged.")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def size_of(item: object) -> int:
    """Roughly how many bytes an item brings into its group."""
    if isinstance(item, NewTask | Change) and isinstance(item.payload, str):
        return 200 + len(item.payload)
    if isinstance(item, Settlement):
        return 200 + len(item.error or "") + len(item.result or "") + len(item.details or "")
    if isinstance(item, RunLeft):
        return 200 + len(item.details)
    return 200


def _check_series(trigger: str | None, policy: str | None) -> None:
    if trigger is not None:
        decode_trigger(trigger)
    try:
        policy_of(policy)
    except msgspec.DecodeError as error:
        raise InvalidTrigger(f"The policy {str(policy)[:100]!r} of a series cannot be read: {error}.") from None


def _check_payload(payload: str | None) -> None:
    if payload is None:
        return
    _check_text("payload", payload)
    size = len(payload.encode())
    if size > MAX_PAYLOAD_BYTES:
        raise LimitExceeded(
            f"The payload has {size:,} bytes; {MAX_PAYLOAD_BYTES:,} is the limit. Keep it elsewhere, pass a reference.",
            field="payload",
        )


def _check_text(name: str, text: str | None, limit: int | None = None) -> None:
    """No store keeps NUL, and a lone surrogate is no UTF-8: refuse both here, where the caller can be told."""
    if text is None:
        return
    if limit is not None and len(text) > limit:
        raise LimitExceeded(f"{name} has {len(text)} characters; {limit} is the limit.", field=name)
    if "\x00" in text:
        raise InvalidInput(f"{name} contains a NUL character. Remove it.", field=name)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} is not valid Unicode at position {error.start}. Remove the lone surrogate.", field=name
        ) from None


def _check_priority(priority: int) -> None:
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InvalidInput(
            f"The priority is {priority}; it must be {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}.", field="priority"
        )
