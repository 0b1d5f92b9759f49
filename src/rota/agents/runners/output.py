"""What an agent says: one JSON object, a stream of JSON lines, or plain text."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, cast

import msgspec

from rota.agents.runners.base import OnProgress
from rota.codec import warmed

__all__ = ["Answer", "AnswerReader", "Spoken", "is_session_id"]

Spoken = Literal["json", "text"]

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """An agent's last word."""

    status: Literal["success", "error"]
    result: Any = None
    error: str | None = None
    new_session_id: str | None = None


warmed(msgspec.json.Decoder(Answer), '{"status":"success"}')


def is_session_id(text: str) -> bool:
    """Whether it can be handed to a program as an argument: no blanks, no dash in front, not too long."""
    return _SESSION.fullmatch(text) is not None


class AnswerReader:
    """Takes an agent's output line by line; `answer` is what it came to.

    A JSON line with a `status` is the answer (the last one counts), one with `progress` is handed on. If no line is
    an answer, the whole output may be one JSON object over several lines. With `text` everything else is the result.
    """

    def __init__(self, spoken: Spoken, on_progress: OnProgress | None = None) -> None:
        self._spoken = spoken
        self._on_progress = on_progress
        # Not a list of lines: millions of empty ones would take a hundred times the memory that they have bytes.
        self._rest = bytearray()
        self._answer: Answer | None = None

    def read(self, line: bytes) -> None:
        """One line of the standard output."""
        said = _object(line)
        if said is not None and "progress" in said and "status" not in said:
            self._tell(said["progress"])
            return
        found = None if said is None else _answer(said)
        if found is not None:
            self._answer = found
            return
        self._rest += line
        self._rest += b"\n"
        if self._spoken == "text" and line.strip():
            self._tell(line.decode("utf-8", "replace")[:1_000])

    @property
    def has_answered(self) -> bool:
        """Whether a line was an answer already; another one may follow."""
        return self._answer is not None

    def answer(self) -> Answer | None:
        """The answer, or None if there is none to be found in what was said."""
        if self._answer is not None:
            return self._answer
        text = bytes(self._rest).strip()
        whole = _object(text)
        found = None if whole is None else _answer(whole)
        if found is not None or self._spoken == "json":
            return found
        return Answer("success", result=text.decode("utf-8", "replace"))

    def _tell(self, progress: object) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)


def _object(text: bytes) -> dict[str, Any] | None:
    text = text.strip()
    if not text.startswith(b"{") or not text.endswith(b"}"):
        return None
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _answer(said: dict[str, Any]) -> Answer | None:
    try:
        return msgspec.convert(said, Answer)
    except msgspec.ValidationError:
        return None
