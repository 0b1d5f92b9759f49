"""What becomes of a handle: pure rules, and the only place that knows them.

A handle stands for a flow that waits for events of one correlation id. It is made before the first of them, so nothing
can come too early. What has come by the end is fixed when it leaves `pending`, and is the same for whoever asks.

| from     | step     | what has happened                                              | to       |
|----------|----------|----------------------------------------------------------------|----------|
| pending  | complete | the last expected event has arrived                            | ready    |
| pending  | time out | the deadline is over, and there is somebody to call            | ready    |
| pending  | lapse    | the deadline is over, and there is nobody to call              | expired  |
| pending  | force    | an operator does not want to wait any longer                   | ready    |
| ready    | claim    | an instance sets out to call                                   | resuming |
| ready    | collect  | a flow of our own takes what has come                          | resumed  |
| ready    | lapse    | nobody to call, and nobody has taken it before the deadline    | expired  |
| ready    | force    | the next call is made now                                      | ready    |
| resuming | claim    | the lease of whoever set out is over                           | resuming |
| resuming | accept   | the flow goes on, or did so already                            | resumed  |
| resuming | put off  | the flow is not paused yet, or cannot be reached               | ready    |
| resuming | refuse   | it never will: the flow is gone, or the address is none        | failed   |
| failed   | force    | an operator has mended what was wrong                          | ready    |
| expired  | collect  | a flow of our own asks after all                               | resumed  |

`pending`, `ready` and `resuming` are open: a correlation id has at most one such handle.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal

import msgspec

from rota.clock import DAY, SECOND, Instant, Millis
from rota.codec import warmed
from rota.core.retry import back_off
from rota.core.task_type import RetryPolicy
from rota.errors import IllegalTransition, InvalidInput, RotaError
from rota.events.envelope import check_type
from rota.webhooks import endpoint_of, sign

__all__ = [
    "MAX_EXPECTED",
    "NEXT",
    "OPEN",
    "Callback",
    "Handle",
    "HandleStatus",
    "HandleStep",
    "Outcome",
    "PrefectCallback",
    "Resumed",
    "UnknownHandle",
    "WebhookCallback",
    "check_callback",
    "check_expected",
    "check_timeout",
    "counts_as",
    "decode_callback",
    "decode_outcome",
    "decode_types",
    "put_off_ms",
    "status_after",
]

MAX_EXPECTED: Final = 1_000_000
MAX_TYPES: Final = 100
LONGEST_MS: Final[Millis] = 366 * DAY
_RETRY: Final = RetryPolicy(base_ms=SECOND, factor=2.0, max_ms=60 * SECOND)
_LEAST_MS: Final[Millis] = 100


class UnknownHandle(RotaError, LookupError):
    """No handle has this id or this correlation id, or it was pruned."""

    code = "unknown_handle"


class HandleStatus(StrEnum):
    """Where a handle stands."""

    PENDING = "pending"
    READY = "ready"
    RESUMING = "resuming"
    RESUMED = "resumed"
    EXPIRED = "expired"
    FAILED = "failed"


class HandleStep(StrEnum):
    """What can happen to it."""

    COMPLETE = "complete"
    TIME_OUT = "time out"
    LAPSE = "lapse"
    FORCE = "force"
    CLAIM = "claim"
    COLLECT = "collect"
    ACCEPT = "accept"
    PUT_OFF = "put off"
    REFUSE = "refuse"


OPEN: Final = (HandleStatus.PENDING, HandleStatus.READY, HandleStatus.RESUMING)

NEXT: Final[Mapping[tuple[HandleStatus, HandleStep], HandleStatus]] = {
    (HandleStatus.PENDING, HandleStep.COMPLETE): HandleStatus.READY,
    (HandleStatus.PENDING, HandleStep.TIME_OUT): HandleStatus.READY,
    (HandleStatus.PENDING, HandleStep.LAPSE): HandleStatus.EXPIRED,
    (HandleStatus.PENDING, HandleStep.FORCE): HandleStatus.READY,
    (HandleStatus.READY, HandleStep.CLAIM): HandleStatus.RESUMING,
    (HandleStatus.READY, HandleStep.COLLECT): HandleStatus.RESUMED,
    (HandleStatus.READY, HandleStep.LAPSE): HandleStatus.EXPIRED,
    (HandleStatus.READY, HandleStep.FORCE): HandleStatus.READY,
    (HandleStatus.RESUMING, HandleStep.CLAIM): HandleStatus.RESUMING,
    (HandleStatus.RESUMING, HandleStep.ACCEPT): HandleStatus.RESUMED,
    (HandleStatus.RESUMING, HandleStep.PUT_OFF): HandleStatus.READY,
    (HandleStatus.RESUMING, HandleStep.REFUSE): HandleStatus.FAILED,
    (HandleStatus.FAILED, HandleStep.FORCE): HandleStatus.READY,
    (HandleStatus.EXPIRED, HandleStep.COLLECT): HandleStatus.RESUMED,
}


def status_after(status: HandleStatus, step: HandleStep, handle_id: str) -> HandleStatus:
    """Where a step leads; `IllegalTransition` if it leads nowhere from here."""
    after = NEXT.get((status, step))
    if after is None:
        raise IllegalTransition(f"The handle {handle_id} is {status}: '{step}' leads nowhere from there.")
    return after


class WebhookCallback(msgspec.Struct, frozen=True, tag_field="kind", tag="webhook", forbid_unknown_fields=True):
    """Whoever waits is called at this address."""

    url: str
    secret: str | None = None

    def __repr__(self) -> str:
        return f"WebhookCallback({self.url!r})"


class PrefectCallback(msgspec.Struct, frozen=True, tag_field="kind", tag="prefect", forbid_unknown_fields=True):
    """A flow run of Prefect waits: the handle's `flow_run_id`."""


Callback = WebhookCallback | PrefectCallback


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """A handle, as it is shown. Of its callback the kind only: the rest may hold secrets."""

    id: str
    correlation_id: str
    flow_run_id: str | None
    task_name: str
    expected: list[str]
    expected_count: int
    done: int
    failed: int
    status: HandleStatus
    callback: str | None
    user_id: str | None
    error: str | None
    attempts: int
    next_at: Instant
    expires_at: Instant
    resumed_at: Instant | None
    created_at: Instant


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever is resumed is handed: ids and counts, nothing that anybody could have written into an event."""

    handle_id: str
    correlation_id: str
    expected: int
    done: int
    failed: int
    expired: bool
    """Whether the deadline came first: then this is what had come by then."""


class Resumed(Outcome, frozen=True, kw_only=True):
    """The outcome with the events that were counted, in the order of their arrival."""

    event_ids: list[str]


_TYPES: Final = warmed(msgspec.json.Decoder(list[str]), '["A.B.Created"]')
_OUTCOME: Final = warmed(
    msgspec.json.Decoder(Outcome),
    '{"handle_id":"h","correlation_id":"c","expected":1,"done":1,"failed":0,"expired":false}',
)
_CALLBACK: Final[msgspec.json.Decoder[Callback]] = warmed(
    msgspec.json.Decoder(Callback), '{"kind":"prefect"}', '{"kind":"webhook","url":"u","secret":"s"}'
)


def decode_types(text: str) -> list[str]:
    """The types of the column `expected`."""
    return _TYPES.decode(text)


def decode_outcome(text: str) -> Outcome:
    """What the column `payload` holds."""
    return _OUTCOME.decode(text)


def decode_callback(text: str) -> Callback:
    """What the column `callback` holds."""
    return _CALLBACK.decode(text)


def counts_as(event_type: str) -> Literal["done", "failed"]:
    """An event that says `Failed` is a failure, any other a success."""
    return "failed" if event_type.endswith("Failed") else "done"


def put_off_ms(attempts: int, chance: float) -> Millis:
    """How long until the next call: doubling from 1 s up to 60 s, and anything between nothing and that, so that a
    server that comes back is not called by everybody at once."""
    return max(back_off(_RETRY, max(attempts, 1), chance), _LEAST_MS)


def check_expected(expected: Sequence[str], failed_types: Sequence[str], count: int) -> list[str]:
    """The types that a handle waits for, each once."""
    if isinstance(expected, str) or isinstance(failed_types, str):
        raise InvalidInput("Give the expected types as a list, even if it is one.")
    types = [check_type(event_type) for event_type in dict.fromkeys([*expected, *failed_types])]
    if not 1 <= len(types) <= MAX_TYPES:
        raise InvalidInput(f"A handle waits for 1 to {MAX_TYPES} types of events; these are {len(types)}.")
    for event_type in failed_types:
        if counts_as(event_type) != "failed":
            raise InvalidInput(f"{event_type!r} is given as a failure, but its name does not end in Failed.")
    if not 1 <= count <= MAX_EXPECTED:
        raise InvalidInput(f"A handle waits for 1 to {MAX_EXPECTED:,} events; expected_count is {count!r}.")
    return types


def check_timeout(timeout_ms: Millis) -> Millis:
    """The timeout itself, if it is one."""
    if not 1 <= timeout_ms <= LONGEST_MS:
        raise InvalidInput(f"A handle waits for 1 ms to 366 days; the timeout is {timeout_ms!r} ms.")
    return timeout_ms


def check_callback(callback: Callback | Mapping[str, object] | None, flow_run_id: str | None) -> Callback | None:
    """The callback, if it can ever be called."""
    if callback is None:
        return None
    checked = _callback_of(callback) if isinstance(callback, Mapping) else callback
    if isinstance(checked, WebhookCallback):
        endpoint_of(checked.url, allow_http=True)
        if checked.secret is not None:
            sign(checked.secret, "", 0, b"")
    else:
        _check_flow_run(flow_run_id)
    return checked


def _callback_of(given: Mapping[str, object]) -> Callback:
    try:
        return _CALLBACK.decode(msgspec.json.encode(given))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"The callback cannot be used: {error}."
            " Write {'kind': 'webhook', 'url': ..., 'secret': ...} or {'kind': 'prefect'}."
        ) from None


def _check_flow_run(flow_run_id: str | None) -> None:
    try:
        uuid.UUID(flow_run_id or "")
    except ValueError:
        raise InvalidInput(
            f"flow_run_id is {flow_run_id!r}, which is no id of a flow run. Prefect's are UUIDs: prefect.runtime."
            "flow_run.id says the flow's own."
        ) from None
