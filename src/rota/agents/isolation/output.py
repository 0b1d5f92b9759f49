"""What an agent says: one JSON object, a stream of JSON lines, or plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import msgspec

from rota.agents.isolation.base import OnProgress
from rota.codec import warmed

__all__ = ["AgentAnswer", "AnswerReader", "MessageFormat", "is_session_id"]

MessageFormat = Literal["json", "text"]

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class AgentAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """An agent's last word."""

    status: Literal["success", "error"]
    result: Any = None
    error: str | None = None
    new_session_id: str | None = None


warmed(msgspec.json.Decoder(AgentAnswer), '{"status":"success"}')


def is_session_id(text: str) -> bool:
    """Whether it can be handed to a program as an argument: no blanks, no dash in front, not too long."""
    return _SESSION.fullmatch(text) is not None


@dataclass(eq=False)
class AnswerReader:
    """Takes an agent's output line by line; `answer` is what it came to.

    With `json` a line with a `status` is the answer (the last one counts), one with `progress` is handed on. If no line
    is an answer, the whole output may be one JSON object over several lines. With `text` the whole output is the result
    and means nothing else: an agent quotes what it has read, and what it has read may look like an answer.
    """

    output_format: MessageFormat
    on_progress: OnProgress | None = None
    # Not a list of lines: millions of empty ones would take a hundred times the memory that they have bytes.
    _rest: bytearray = field(default_factory=bytearray, init=False)
    _answer: AgentAnswer | None = field(default=None, init=False)

    def read(self, line: bytes) -> None:
        """One line of the standard output."""
        if self.output_format == "text":
            self._keep(line)
            if line.strip() and self.on_progress is not None:
                self.on_progress(line.decode("utf-8", "replace")[:1_000])
            return
        said = _object(line)
        if said is not None and "progress" in said and "status" not in said:
            if self.on_progress is not None:
                self.on_progress(said["progress"])
            return
        found = None if said is None else _answer(said)
        if found is None:
            self._keep(line)
        else:
            self._answer = found

    @property
    def has_answered(self) -> bool:
        """Whether a line was an answer already; another one may follow. Text is answered by its end alone."""
        return self._answer is not None

    def answer(self) -> AgentAnswer | None:
        """The answer, or None if there is none to be found in what was said."""
        if self._answer is not None:
            return self._answer
        text = bytes(self._rest).strip()
        if self.output_format == "text":
            return AgentAnswer("success", result=text.decode("utf-8", "replace"))
        whole = _object(text)
        return None if whole is None else _answer(whole)

    def _keep(self, line: bytes) -> None:
        self._rest += line
        self._rest += b"\n"


def _object(text: bytes) -> dict[str, Any] | None:
    text = text.strip()
    if not text.startswith(b"{") or not text.endswith(b"}"):
        return None
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _answer(said: dict[str, Any]) -> AgentAnswer | None:
    try:
        return msgspec.convert(said, AgentAnswer)
    except msgspec.ValidationError:
        return None
