"""The gate: a small script that says before each run whether there is anything for the agent to do.

Its last line of JSON counts: {"wakeAgent": bool, "data": ...}. It runs in the agent's own isolation. Whatever else it
does (no JSON, an error, more time or output than it has) means that the agent is not woken, and the run says why.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from rota.agents.folders import remove_file, write_file
from rota.agents.runners.base import Limits, Seat
from rota.agents.runners.command import CommandRunner
from rota.agents.runners.container import HOME
from rota.agents.runners.supervised import Ended
from rota.codec import warmed

__all__ = ["MAX_SCRIPT", "Gate", "ask_gate"]

MAX_SCRIPT: Final = 32_000
"""Characters of a script."""


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    wake_agent: bool
    data: Any = None


_decode_line = warmed(msgspec.json.Decoder(_Line), '{"wakeAgent":true}').decode


@dataclass(frozen=True)
class Gate:
    """What the script decided. `trouble` is set if it could not decide."""

    is_open: bool
    data: object = None
    trouble: str | None = None


async def ask_gate(script: str, runner: CommandRunner, seat: Seat, limits: Limits, *, wall_ms: int, most: int) -> Gate:
    """Run the script; a `#!` line names its interpreter, without one it is bash."""
    name = f".gate-{secrets.token_hex(8)}"
    write_file(seat.folder, name, script.encode("utf-8", "replace"), uid=seat.uid, mode=0o700)
    where = f"{HOME}/{name}" if runner.isolation.name == "container" else str(seat.folder / name)
    command = (where,) if script.startswith("#!") else ("bash", where)
    narrow = replace(limits, wall_ms=min(wall_ms, limits.wall_ms), output_bytes=min(most, limits.output_bytes))
    try:
        ended, lines = await runner.output_of(command, replace(seat, run_id=f"{seat.run_id}-gate"), narrow)
    finally:
        remove_file(seat.folder, name)
    return _decision(ended, lines)


def _decision(ended: Ended, lines: list[bytes]) -> Gate:
    if not ended.is_clean:
        last = ended.not_started or "".join(ended.errors.strip().splitlines()[-1:])
        return Gate(is_open=False, trouble=f"The gate script did not end well ({_how(ended)}). {last[:300]}".strip())
    for line in reversed(lines):
        if not line.strip().startswith(b"{"):
            continue
        try:
            said = _decode_line(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            break
        return Gate(is_open=said.wake_agent, data=said.data)
    return Gate(
        is_open=False,
        trouble='The gate script did not say whether to wake the agent. Its last line must be {"wakeAgent": true}.',
    )


def _how(ended: Ended) -> str:
    match ended.cause:
        case "wall":
            return "it took too long"
        case "output":
            return "it wrote too much"
        case "disk":
            return "it filled the folder"
        case _:
            return f"signal {ended.signal}" if ended.signal is not None else f"exit code {ended.exit_code}"
