"""Pushes and their answers, over HTTP and for whoever calls `Memory` directly.

Names and limits are those that clients know. Fields that are not known here are passed over: they send more than is
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, WithJsonSchema

from rota.clock import Instant, from_datetime
from rota.errors import InvalidInput
from rota.keys import MAX_ID_LENGTH
from rota.memory.context import MAX_DEVICE_LENGTH, MAX_TEXT_LENGTH, Kind, NewContext

__all__ = [
    "MAX_MESSAGES",
    "ChatMessagePush",
    "ChatPush",
    "DocumentPush",
    "Message",
    "MessageAnswer",
    "PushAnswer",
    "PushData",
    "ScreenshotPush",
    "parse",
]

MAX_MESSAGES: Final = 100
_EARLIEST_AT: Final[Instant] = from_datetime(datetime(1900, 1, 1, tzinfo=UTC))
_LATEST_AT: Final[Instant] = from_datetime(datetime(9999, 12, 31, tzinfo=UTC))

Shape = TypeVar("Shape", bound=BaseModel)
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Importance = Annotated[int, Field(ge=0, le=10, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Time = Annotated[
    datetime,
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "number"}],
            "description": "ISO 8601, or Unix seconds or milliseconds. Without a zone it is UTC.",
            "examples": ["2026-01-05T09:30:00Z"],
        }
    ),
]
Keywords = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=50)]


def _an_example(**fields: JsonValue) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [dict(fields)]})


class _Push(BaseModel):
    """Whose it is: a missing id is "default"."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    user_id: Annotated[str | None, Field(max_length=MAX_ID_LENGTH)] = None
    """Whose it is."""
    device_id: Annotated[str | None, Field(max_length=MAX_DEVICE_LENGTH)] = None
    """The device that it comes from."""
    agent_id: Annotated[str | None, Field(max_length=MAX_DEVICE_LENGTH)] = None
    """The agent that was spoken to."""
    enable_merge: Flag = True
    """Whether it may be merged with others."""


class Message(BaseModel):
    """One message of a conversation. Without a timestamp it was said now."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    role: Annotated[str, Field(min_length=1, max_length=32)] = "user"
    """Who said it, like `user` or `assistant`."""
    content: Text
    """What was said."""
    timestamp: Time | None = None
    """When it was said; without it: now."""
    importance: Importance = 5
    """From 0 to 10."""
    keywords: Keywords = []
    """Words that it is about."""

    def to_context(self, *, enable_merge: bool) -> NewContext:
        return NewContext(
            text=self.content,
            kind=Kind.CHAT,
            keywords=tuple(self.keywords),
            importance=self.importance,
            details={"role": self.role},
            created_at=instant_of(self.timestamp),
            enable_merge=enable_merge,
        )


class ChatPush(_Push):
    """POST /api/push/chat"""

    model_config = _an_example(user_id="u1", messages=[{"role": "user", "content": "I live in Oslo."}])

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    """The messages, at most 100."""

    def to_contexts(self) -> list[NewContext]:
        return [message.to_context(enable_merge=self.enable_merge) for message in self.messages]


class ChatMessagePush(_Push, Message):
    """POST /api/push/chat/message"""

    model_config = _an_example(user_id="u1", content="I live in Oslo.")

    def to_contexts(self) -> list[NewContext]:
        return [self.to_context(enable_merge=self.enable_merge)]


class ScreenshotPush(_Push):
    """POST /api/push/screenshot: what was read from it, and where it was taken; the picture itself stays outside."""

    model_config = _an_example(user_id="u1", text="Oslo S, platform 4", app="maps")

    text: Text
    """What was read from it."""
    path: Annotated[str | None, Field(max_length=4_096)] = None
    """Where the picture lies."""
    window: Annotated[str | None, Field(max_length=500)] = None
    """The title of the window."""
    app: Annotated[str | None, Field(max_length=500)] = None
    """The program that was looked at."""
    timestamp: Time | None = None
    """When it was taken; without it: now."""
    importance: Importance = 5
    """From 0 to 10."""
    keywords: Keywords = []
    """Words that it is about."""

    def to_contexts(self) -> list[NewContext]:
        details = {"path": self.path, "window": self.window, "app": self.app}
        return [
            NewContext(
                text=self.text,
                kind=Kind.SCREENSHOT,
                title=self.window or "",
                keywords=tuple(self.keywords),
                importance=self.importance,
                details={name: value for name, value in details.items() if value is not None},
                created_at=instant_of(self.timestamp),
                enable_merge=self.enable_merge,
            )
        ]


class DocumentPush(_Push):
    """POST /api/push/document"""

    model_config = _an_example(user_id="u1", text="Oslo is a city.", title="Oslo")

    text: Text
    """The text of it."""
    title: Annotated[str, Field(max_length=500)] = ""
    """What it is called."""
    url: Annotated[str | None, Field(max_length=4_096)] = None
    """Where it was found."""
    timestamp: Time | None = None
    """When it was read; without it: now."""
    importance: Importance = 5
    """From 0 to 10."""
    keywords: Keywords = []
    """Words that it is about."""

    def to_contexts(self) -> list[NewContext]:
        return [
            NewContext(
                text=self.text,
                kind=Kind.DOCUMENT,
                title=self.title,
                keywords=tuple(self.keywords),
                importance=self.importance,
                details={"url": self.url} if self.url else {},
                created_at=instant_of(self.timestamp),
                enable_merge=self.enable_merge,
            )
        ]


class PushData(BaseModel):
    """What was taken."""

    model_config = ConfigDict(use_attribute_docstrings=True) | _an_example(
        batch_id="5d0c2f", message_count=1, context_ids=[7]
    )

    batch_id: str
    """What this push is called."""
    message_count: int
    """How many were taken on."""
    context_ids: list[int]
    """The contexts that they have become."""


class PushAnswer(BaseModel):
    """The answer to a push."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    success: Literal[True] = True
    """Always true."""
    data: PushData
    """What was taken."""


class MessageAnswer(BaseModel):
    """The answer to /api/push/chat/message."""

    model_config = ConfigDict(use_attribute_docstrings=True) | _an_example(batch_id="5d0c2f", context_id=7)

    status: Literal["success"] = "success"
    """Always `success`."""
    batch_id: str
    """What this push is called."""
    context_id: int
    """The context that it has become."""


def instant_of(moment: datetime | None) -> Instant | None:
    """A time without a zone is UTC."""
    if moment is None:
        return None
    at = from_datetime(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    if not _EARLIEST_AT <= at <= _LATEST_AT:
        raise InvalidInput(f"The timestamp {moment.isoformat()} is outside the years 1900 to 9999. Say when it was.")
    return at


def parse(shape: type[Shape], data: Mapping[str, Any]) -> Shape:
    """A push from plain data; what is wrong with it is one `InvalidInput`, in a sentence for each mistake."""
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        mistakes = [f"{'.'.join(map(str, one['loc'])) or 'the push'}: {one['msg']}" for one in error.errors()]
        raise InvalidInput(f"The push cannot be taken. {'. '.join(mistakes[:10])}.") from None
