"""Pushes and their answers, over HTTP and for whoever calls `Memory` directly.

Names and limits are those that clients know. Fields that are not known here are passed over: they send more than is
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

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


class _Push(BaseModel):
    """Whose it is: a missing id is "default"."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    user_id: Annotated[str | None, Field(max_length=MAX_ID_LENGTH)] = None
    device_id: Annotated[str | None, Field(max_length=MAX_DEVICE_LENGTH)] = None
    agent_id: Annotated[str | None, Field(max_length=MAX_DEVICE_LENGTH)] = None
    enable_merge: Flag = True


class Message(BaseModel):
    """One message of a conversation. Without a timestamp it was said now."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: Annotated[str, Field(min_length=1, max_length=32)] = "user"
    content: Text
    timestamp: Time | None = None
    importance: Importance = 5
    keywords: Keywords = []

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

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]

    def to_contexts(self) -> list[NewContext]:
        return [message.to_context(enable_merge=self.enable_merge) for message in self.messages]


class ChatMessagePush(_Push, Message):
    """POST /api/push/chat/message"""

    def to_contexts(self) -> list[NewContext]:
        return [self.to_context(enable_merge=self.enable_merge)]


class ScreenshotPush(_Push):
    """POST /api/push/screenshot: what was read from it, and where it was taken; the picture itself stays outside."""

    text: Text
    path: Annotated[str | None, Field(max_length=4_096)] = None
    window: Annotated[str | None, Field(max_length=500)] = None
    app: Annotated[str | None, Field(max_length=500)] = None
    timestamp: Time | None = None
    importance: Importance = 5
    keywords: Keywords = []

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

    text: Text
    title: Annotated[str, Field(max_length=500)] = ""
    url: Annotated[str | None, Field(max_length=4_096)] = None
    timestamp: Time | None = None
    importance: Importance = 5
    keywords: Keywords = []

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

    batch_id: str
    message_count: int
    context_ids: list[int]


class PushAnswer(BaseModel):
    """The answer to a push."""

    success: Literal[True] = True
    data: PushData


class MessageAnswer(BaseModel):
    """The answer to /api/push/chat/message."""

    status: Literal["success"] = "success"
    batch_id: str
    context_id: int


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
