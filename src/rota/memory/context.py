"""One context: something that a user said, saw or read, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from rota.clock import Instant, isoformat
from rota.errors import InvalidInput, LimitExceeded
from rota.keys import UserKeyConfig, check_id

__all__ = [
    "MAX_DEVICE_LENGTH",
    "MAX_KEYWORDS",
    "MAX_TEXT_LENGTH",
    "Context",
    "Kind",
    "NewContext",
    "Owner",
    "Scope",
    "State",
    "check_text",
    "role_of",
]

MAX_TEXT_LENGTH: Final = 100_000
"""Characters of one context, merged ones included."""
MAX_DEVICE_LENGTH: Final = 100
"""Characters of a device's or an agent's id; it keeps the three ids together indexable."""
MAX_KEYWORDS: Final = 10
MAX_IMPORTANCE: Final = 10
MAX_DETAILS_BYTES: Final = 16 * 1024


class Kind(StrEnum):
    """Where a context came from."""

    CHAT = "chat"
    SCREENSHOT = "screenshot"
    DOCUMENT = "document"


class State(StrEnum):
    """What compression has done with a context."""

    FRESH = "fresh"
    """Nothing yet."""
    KEPT = "kept"
    """It was looked at, and stands for itself or for those that were merged into it."""
    MERGED = "merged"
    """It lives on in another context, and is kept as its source until its retention ends."""


class Owner(msgspec.Struct, frozen=True, order=True):
    """Whose a context is. Contexts of different owners never meet."""

    user_id: str
    device_id: str = "default"
    agent_id: str = "default"

    def check(self) -> Owner:
        """The owner itself, if every database can keep the ids and tell them apart."""
        if not check_id(self.user_id, "user_id"):
            raise InvalidInput("The user_id is empty. Give the id of the user whose memory this is.")
        for what, value in (("device_id", self.device_id), ("agent_id", self.agent_id)):
            if not check_id(value, what):
                raise InvalidInput(f"The {what} is empty. Leave it out to mean 'default'.")
            if len(value) > MAX_DEVICE_LENGTH:
                raise LimitExceeded(
                    f"The {what} '{value[:24]}...' has {len(value)} characters; the limit is {MAX_DEVICE_LENGTH}."
                )
        return self


class Scope(msgspec.Struct, frozen=True):
    """The owners that one task stands for: None is any. A key without the device stands for all of a user's devices."""

    user_id: str
    device_id: str | None = None
    agent_id: str | None = None

    @classmethod
    def of(cls, user_id: str, device_id: str | None, agent_id: str | None, keys: UserKeyConfig) -> Scope:
        """What a task's ids mean, given which of them are part of its key."""
        return cls(
            user_id,
            (device_id or keys.default_device_id) if keys.use_device_id else None,
            (agent_id or keys.default_agent_id) if keys.use_agent_id else None,
        )


class NewContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context that is about to be captured. Without `created_at` it happened when it was captured."""

    text: str
    kind: Kind = Kind.CHAT
    title: str = ""
    keywords: Sequence[str] = ()
    importance: int = 5
    details: Mapping[str, Any] = {}
    created_at: Instant | None = None
    enable_merge: bool = True

    def check(self) -> NewContext:
        """The context itself, if it can be kept."""
        check_text(self.text, "text")
        check_text(self.title, "title", limit=500)
        if not self.text.strip():
            raise InvalidInput("The text of a context is empty. There is nothing to remember.")
        if not 0 <= self.importance <= MAX_IMPORTANCE:
            raise InvalidInput(f"The importance is {self.importance}. Use 0 to {MAX_IMPORTANCE}.")
        if len(self.keywords) > 5 * MAX_KEYWORDS:
            raise LimitExceeded(f"A context has {len(self.keywords)} keywords; the limit is {5 * MAX_KEYWORDS}.")
        for keyword in self.keywords:
            check_text(keyword, "keyword", limit=100)
        if len(msgspec.json.encode(self.details)) > MAX_DETAILS_BYTES:
            raise LimitExceeded(f"The details of a context are larger than {MAX_DETAILS_BYTES:,} bytes. Send less.")
        return self


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """A context as it is kept."""

    id: int
    owner: Owner
    kind: Kind
    state: State
    title: str
    text: str
    keywords: tuple[str, ...]
    importance: int
    details: Mapping[str, Any]
    created_at: Instant
    captured_at: Instant
    updated_at: Instant
    compressed_at: Instant | None
    enable_merge: bool
    has_compression: bool
    leads: bool
    merge_count: int
    merged_into: int | None
    leader_id: int | None
    batch_id: str | None
    embedder: str | None
    embedding: bytes | None

    @property
    def place(self) -> tuple[Instant, int]:
        """Its place in the order. The result of a merge keeps the place of the context that it grew from."""
        return self.captured_at, self.id if self.leader_id is None else self.leader_id

    @property
    def role(self) -> str:
        """Who said it, as the sender has it (user, assistant, ...); empty if nobody did: a document, a screenshot."""
        return role_of(self.details)

    def to_dict(self) -> dict[str, object]:
        """For people and programs; the vector stays here."""
        return {
            "id": self.id,
            "user_id": self.owner.user_id,
            "device_id": self.owner.device_id,
            "agent_id": self.owner.agent_id,
            "kind": self.kind.value,
            "state": self.state.value,
            "title": self.title,
            "text": self.text,
            "keywords": list(self.keywords),
            "importance": self.importance,
            "details": dict(self.details),
            "created_at": isoformat(self.created_at),
            "captured_at": isoformat(self.captured_at),
            "updated_at": isoformat(self.updated_at),
            "compressed_at": isoformat(self.compressed_at),
            "enable_merge": self.enable_merge,
            "has_compression": self.has_compression,
            "merge_count": self.merge_count,
            "merged_into": self.merged_into,
            "batch_id": self.batch_id,
            "embedder": self.embedder,
        }


def role_of(details: Mapping[str, Any]) -> str:
    """Who said something, by its details."""
    return str(details.get("role") or "")


def check_text(text: str, what: str, *, limit: int = MAX_TEXT_LENGTH) -> str:
    """The text itself, if every database can keep it."""
    if len(text) > limit:
        raise LimitExceeded(f"The {what} has {len(text):,} characters; the limit is {limit:,}. Split it.")
    if "\0" in text:
        raise InvalidInput(f"The {what} contains a NUL character. Remove it.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The {what} is no valid Unicode text (lone surrogate). Decode it as UTF-8.") from None
    return text
