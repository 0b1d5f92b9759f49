"""The gate: a small script that says before each run whether there is anything for the agent to do.

Its last line of JSON counts: {"wakeAgent": bool, "data": ...}. It runs in the agent's own isolation. Whatever else it
does (no JSON, an error, more time or output than it has) means that the agent is not woken, and the run says why.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rota.agents.group_folders import remove_file, write_file
from rota.agents.isolation.base import Limits, RunEnvironment
from rota.agents.isolation.command import CommandRunner
from rota.agents.isolation.container import HOME
from rota.agents.isolation.supervised_process import ProcessExit
from rota.codec import warmed

__all__ = ["GateDecision", "ask_gate"]


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    wake_agent: bool
    data: Any = None


_decode_line = warmed(msgspec.json.Decoder(_Line), '{"wakeAgent":true}').decode


@dataclass(frozen=True)
class GateDecision:
    """What the script decided. `trouble` is set if it could not decide."""

    is_open: bool
    data: object = None
    trouble: str | None = None


async def ask_gate(
    script: str, runner: CommandRunner, environment: RunEnvironment, limits: Limits, *, wall_ms: int, most: int
) -> GateDecision:
    """Run the script; a `#!` line names its interpreter, without one it is bash."""
    name = f".gate-{secrets.token_hex(8)}"
    write_file(environment.folder, name, script.encode("utf-8", "replace"), uid=environment.uid, mode=0o700)
    where = f"{HOME}/{name}" if runner.isolation.name == "container" else str(environment.folder / name)
    command = (where,) if script.startswith("#!") else ("bash", where)
    narrow = replace(limits, wall_ms=min(wall_ms, limits.wall_ms), output_bytes=min(most, limits.output_bytes))
    try:
        ended, lines = await runner.output_of(
            command, replace(environment, run_id=f"{environment.run_id}-gate"), narrow
        )
    finally:
        remove_file(environment.folder, name)
    return _decision(ended, lines)


def _decision(ended: ProcessExit, lines: list[bytes]) -> GateDecision:
    if not ended.is_clean:
        last = ended.not_started or "".join(ended.errors.strip().splitlines()[-1:])
        return GateDecision(
            is_open=False, trouble=f"The gate script did not end well ({_how(ended)}). {last[:300]}".strip()
        )
    for line in reversed(lines):
        if not line.strip().startswith(b"{"):
            continue
        try:
            said = _decode_line(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            break
        return GateDecision(is_open=said.wake_agent, data=said.data)
    return GateDecision(
        is_open=False,
        trouble='The gate script did not say whether to wake the agent. Its last line must be {"wakeAgent": true}.',
    )


def _how(ended: ProcessExit) -> str:
    match ended.cause:
        case "wall":
            return "it took too long"
        case "output":
            return "it wrote too much"
        case "disk":
            return "it filled the folder"
        case _:
            return f"signal {ended.signal}" if ended.signal is not None else f"exit code {ended.exit_code}"
