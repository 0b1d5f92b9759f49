"""What is asked for: one request for a batch, and everything that can be wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from rota.batches.agents.registry import ItemType, ItemTypes
from rota.clock import DAY, SECOND, Millis
from rota.codec import to_json
from rota.errors import InvalidInput, RotaError
from rota.keys import check_id

__all__ = ["MAX_SEED", "MAX_STYLE_BYTES", "BatchRequest", "BatchesFrozen", "BatchesFull", "OtherRequest"]

MAX_STYLE_BYTES: Final = 4_096
MAX_SEED: Final = 2**53 - 1
"""Every reader of JSON has the same idea of a whole number up to here."""
MAX_PRIORITY: Final = 10
LONGEST_MS: Final[Millis] = DAY


class OtherRequest(RotaError):
    """The idempotency key was used before, with another body; nothing was changed."""

    code = "idempotency_conflict"
    status = 409


class BatchesFrozen(RotaError):
    """An operator has stopped the intake of batches; nothing was taken on."""

    code = "batches_frozen"
    status = 503


class BatchesFull(RotaError):
    """There is no room for another batch now, or its owner has had its share. `retry_after` says when to ask again."""

    code = "batches_full"
    status = 429

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A number of items of a type, in a style."""

    type: str
    count: int
    style: str | dict[str, Any] = ""
    session_id: str | None = None
    """Whom it is for. Subtasks of one session share permits; None: the batch is a session of its own."""
    user_id: str | None = None
    priority: int = 5
    seed: int | None = None
    """The offline generator makes the same of the same seed; None: another one each time."""
    distinct: Literal["batch", "session"] = "batch"
    """Among which items no two may be alike: those of the batch, or of all batches of the session."""
    deadline_ms: Millis | None = None
    budget_tokens: int | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    """The command that this belongs to; None: the batch itself."""
    resume: Mapping[str, Any] | None = None
    """Have a flow resumed at the end: a callback of `rota.events`, or {} for a handle that somebody waits for."""

    def checked(self, types: ItemTypes, max_count: int) -> ItemType:
        """The type of its items, if all that can be seen of it is right; else `InvalidInput` names field and limit."""
        item_type = types.find(self.type)
        _check_number("count", self.count, 1, max_count)
        _check_number("priority", self.priority, 0, MAX_PRIORITY)
        if self.seed is not None:
            _check_number("seed", self.seed, 0, MAX_SEED)
        if self.deadline_ms is not None and not SECOND <= self.deadline_ms <= LONGEST_MS:
            raise InvalidInput(f"deadline is {self.deadline_ms / SECOND:g} s. Use 1s to 1d.")
        if self.budget_tokens is not None:
            _check_number("budget_tokens", self.budget_tokens, 1, 10**12)
        if self.distinct not in ("batch", "session"):
            raise InvalidInput(f"distinct is {self.distinct!r}. Use 'batch' or 'session'.")
        self._check_style()
        for name in ("session_id", "user_id", "idempotency_key", "correlation_id"):
            value = getattr(self, name)
            if value is not None:
                check_id(value, name)
                if not value:
                    raise InvalidInput(f"{name} is empty. Leave it out, or give it at least one character.")
        return item_type

    def _check_style(self) -> None:
        if not isinstance(self.style, str | dict):  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller is typed
            raise InvalidInput(f"style is a {type(self.style).__name__}. Use a text, or an object.")
        try:
            size = len(to_json(self.style))
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInput(f"style cannot be written as JSON: {error}.") from None
        if size > MAX_STYLE_BYTES:
            raise InvalidInput(f"style has {size:,} bytes of JSON; {MAX_STYLE_BYTES:,} is the limit.", field="style")

    @property
    def digest(self) -> str:
        """The same for the same request, whatever key it comes with."""
        body = msgspec.structs.asdict(msgspec.structs.replace(self, idempotency_key=None))
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()


def _check_number(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{name} is {value!r}. Use a whole number from {least:,} to {most:,}.", field=name)
