"""A runner for any program that reads a prompt and writes an answer: the built-in agent, or a command-line agent.

The command is a list from the configuration, never a line for a shell. An inner list is optional: it is left out when
one of its placeholders has no value, so that ["my-agent", ["--resume", "{sessionId}"]] resumes only what there is. What
the program says is one JSON object, a stream of JSON lines, or plain text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, cast

import msgspec

from rota.agents.isolation.base import (
    AgentInput,
    Isolation,
    Limits,
    OnProgress,
    RunEnvironment,
    RunnerResult,
    RunRequest,
)
from rota.agents.isolation.disk import is_larger_than
from rota.agents.isolation.process import MCP_CONFIG
from rota.agents.isolation.supervised_process import ProcessExit, supervise
from rota.clock import format_duration
from rota.codec import warmed
from rota.errors import InvalidConfig

__all__ = [
    "AgentAnswer",
    "AnswerReader",
    "CommandRunner",
    "MessageFormat",
    "Template",
    "check_template",
    "filled",
    "is_session_id",
]

MessageFormat = Literal["json", "text"]
Template = Sequence[str | Sequence[str]]
"""Arguments, and lists of arguments that may be left out."""

_PLACEHOLDER: Final = re.compile(r"\{([a-zA-Z]+)\}")
_TOO_LARGE: Final = (
    "The group's folder grew beyond {:,} bytes, or parts of it are too many or too deep to be looked at."
)
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")
_RATE_LIMITED: Final = re.compile(r"rate.?limit|too many requests|\b429\b|quota|overloaded", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class CommandRunner:
    """Runs one command in one isolation."""

    isolation: Isolation
    command: Template
    output_format: MessageFormat = "json"
    """How it answers; with "text" whatever it prints is the result."""
    input_format: MessageFormat = "json"
    """What it reads: the JSON object of `AgentInput`, or with "text" the prompt alone."""
    disk_look_every: float = 2.0

    async def run(self, request: RunRequest, on_progress: OnProgress | None = None) -> RunnerResult:
        """The agent's answer."""
        began = time.monotonic()
        reader = AnswerReader(self.output_format, on_progress)
        environment = request.environment
        command = filled(self.command, request.input, mcp_config=environment.variables.get(MCP_CONFIG))
        spec = self.isolation.process_spec(command, environment, request.limits)
        ended = await supervise(
            spec,
            _spoken_to(request.input, self.input_format),
            request.limits,
            reader.read,
            is_too_big=partial(is_larger_than, environment.folder, request.limits.disk_bytes),
            look_every=self.disk_look_every,
            is_done=reader.has_answered,
        )
        result = _result(ended, reader.answer(), request.limits)
        return msgspec.structs.replace(
            result, duration_ms=round((time.monotonic() - began) * 1_000), left_behind=ended.left_behind
        )

    async def output_of(
        self, command: tuple[str, ...], environment: RunEnvironment, limits: Limits
    ) -> tuple[ProcessExit, list[bytes]]:
        """Run another command, a gate script say, in the same isolation; how it ended and its lines."""
        lines: list[bytes] = []
        spec = self.isolation.process_spec(command, environment, limits)
        ended = await supervise(
            spec, b"", limits, lines.append, is_too_big=partial(is_larger_than, environment.folder, limits.disk_bytes)
        )
        return ended, lines


# --- what it is told ---


def check_template(template: Template) -> None:
    """Refuse a command with a placeholder that nobody knows, before the first run of it."""
    filled(template, AgentInput(prompt="", session_id="s", group_folder="g", chat_jid=""))


def filled(template: Template, given: AgentInput, *, mcp_config: str | None = None) -> tuple[str, ...]:
    """The command's arguments with the placeholders of this run filled in."""
    session = given.session_id if given.session_id is not None and is_session_id(given.session_id) else None
    values = {
        "sessionId": session,
        "groupFolder": given.group_folder,
        "timezone": given.timezone,
        "mcpConfig": mcp_config,
    }
    found: list[str] = []
    for part in template:
        arguments = [part] if isinstance(part, str) else part
        names = [name for argument in arguments for name in _PLACEHOLDER.findall(argument)]
        for name in names:
            if name not in values:
                known = ", ".join(f"{{{one}}}" for one in values)
                raise InvalidConfig(
                    f"agents.command has the placeholder {{{name}}}, which is unknown. Use one of: {known}."
                )
        if all(values[name] is not None for name in names):
            found += [_PLACEHOLDER.sub(lambda match: values[match[1]] or "", argument) for argument in arguments]
        elif isinstance(part, str):
            found.append("")  # it may not be left out: what comes after it has its place
    return tuple(found)


def _spoken_to(given: AgentInput, input_format: MessageFormat) -> bytes:
    if input_format == "json":
        return msgspec.json.encode(given) + b"\n"
    if given.data is None:
        return given.prompt.encode("utf-8", "replace")
    data = msgspec.json.encode(given.data).decode()
    return f"{given.prompt}\n\nData from the check before this run:\n{data}".encode("utf-8", "replace")


# --- what it says ---


class AgentAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """An agent's last word."""

    status: Literal["success", "error"]
    result: Any = None
    error: str | None = None
    new_session_id: str | None = None


warmed(msgspec.json.Decoder(AgentAnswer), '{"status":"success"}')


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
        said = _said(line)
        if isinstance(said, AgentAnswer):
            self._answer = said
        elif said is None or "progress" not in said or "status" in said:
            self._keep(line)
        elif self.on_progress is not None:
            self.on_progress(said["progress"])

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
        whole = _said(text)
        return whole if isinstance(whole, AgentAnswer) else None

    def _keep(self, line: bytes) -> None:
        self._rest += line
        self._rest += b"\n"


def _said(text: bytes) -> AgentAnswer | dict[str, Any] | None:
    """What a text says that is one JSON object: an answer, or whatever it holds instead."""
    text = text.strip()
    if not text.startswith(b"{") or not text.endswith(b"}"):
        return None
    try:
        value = cast("dict[str, Any]", msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    try:
        return msgspec.convert(value, AgentAnswer)
    except msgspec.ValidationError:
        return value


def is_session_id(text: str) -> bool:
    """Whether it can be handed to a program as an argument: no blanks, no dash in front, not too long."""
    return _SESSION.fullmatch(text) is not None


# --- what that means ---


def _result(ended: ProcessExit, answer: AgentAnswer | None, limits: Limits) -> RunnerResult:
    """What an ending and an answer mean together. An answer counts if the agent ended by itself, or stayed silent."""
    if answer is not None and (ended.is_clean or ended.cause == "idle"):
        return _of_answer(answer)
    match ended.cause:
        case "wall":
            limit = format_duration(limits.wall_ms)
            return _failed("timeout", f"The agent ran longer than its limit of {limit} and was ended.")
        case "output":
            return _failed("output", f"The agent wrote more than {limits.output_bytes:,} bytes and was ended.")
        case "disk":
            return _failed("disk", f"{_TOO_LARGE.format(limits.disk_bytes)} The agent was ended.")
        case _:
            return _ended_badly(ended, answer)


def _ended_badly(ended: ProcessExit, answer: AgentAnswer | None) -> RunnerResult:
    if ended.not_started is not None:
        advice = "The user that it runs as must be able to reach its folder and its program."
        return _failed("crashed", f"The agent could not be started: {ended.not_started}. {advice}")
    if not ended.is_known:
        return _failed(
            "crashed",
            "The process that watches over the agent was killed, and the agent with it. See in the system's log whether"
            " memory ran out.",
        )
    if answer is not None and answer.status == "error":
        return _of_answer(answer)
    how = f"by signal {ended.signal}" if ended.signal is not None else f"with exit code {ended.exit_code}"
    last = ended.errors.strip().splitlines()[-1:] or ["It said nothing on its standard error."]
    what = "The agent ended without an answer," if answer is None else "The agent answered, but ended"
    return _failed("crashed", f"{what} {how}. {last[0][:500]}", said=ended.errors)


def _of_answer(answer: AgentAnswer) -> RunnerResult:
    session = answer.new_session_id
    kept = session if session is not None and is_session_id(session) else None
    if answer.status == "error":
        return replace_session(_failed("error", answer.error or "Unknown error"), kept)
    result = answer.result
    text = result if isinstance(result, str) or result is None else msgspec.json.encode(result).decode()
    return RunnerResult(status="success", result=text, new_session_id=kept)


warmed(msgspec.json.Decoder(RunnerResult), '{"status":"success"}')


def replace_session(result: RunnerResult, session: str | None) -> RunnerResult:
    """The same result with the session that the agent went on in."""
    return msgspec.structs.replace(result, new_session_id=session)


def _failed(reason: str, error: str, said: str = "") -> RunnerResult:
    limited = reason in ("error", "crashed") and _RATE_LIMITED.search(f"{error} {said[-2_000:]}") is not None
    return msgspec.convert(
        {"status": "error", "error": error, "reason": "rate_limited" if limited else reason}, RunnerResult
    )
