"""Rota's side of the supervisor: start it, feed the command, listen within limits, and never leave it alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from rota.agents.isolation.base import Limits, ProcessSpec
from rota.clock import SECOND, Millis
from rota.codec import warmed
from rota.errors import RunnerUnavailable
from rota.logs import get_logger

__all__ = ["OnLine", "ProcessExit", "supervise"]

OnLine = Callable[[bytes], None]
Cause = Literal["ended", "asked", "wall", "output", "disk", "idle"]

SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
ERRORS_KEPT: Final = 16_384
"""Bytes of the standard error that are kept: the last ones say what went wrong."""
MAX_SPEC: Final = 60_000
"""Bytes of a spec: it must fit into an empty pipe, so that writing it waits for nobody."""
PATIENCE: Final = 35.0
"""Seconds beyond the grace in which the supervisor must have ended all and reported; then it is ended itself."""
LAST_WORDS: Final = 5.0
"""Seconds in which the rest of the output is read after the end."""
_GONE: Final = 1.0
_CHUNK: Final = 65_536
_HEARD: Final = 16_384
"""Bytes of output that are worked on at a time."""

_log = get_logger("rota.agents")


class _Report(msgspec.Struct, frozen=True):
    cause: Literal["ended", "asked", "wall"] = "ended"
    exit: int | None = None
    signal: int | None = None
    left: int = 0
    cpu_ms: Millis = 0
    memory_kib: int = 0
    error: str | None = None


_decode_report = warmed(msgspec.json.Decoder(_Report), "{}").decode


@dataclass(frozen=True, kw_only=True)
class ProcessExit:
    """How a command ended, and the last of what it said on its standard error."""

    cause: Cause
    exit_code: int | None
    signal: int | None
    left_behind: int
    errors: str
    not_started: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the supervisor could still say how it ended."""
        return self.exit_code is not None or self.signal is not None

    @property
    def is_clean(self) -> bool:
        return self.cause == "ended" and self.exit_code == 0


async def supervise(
    spec: ProcessSpec,
    stdin: bytes,
    limits: Limits,
    on_line: OnLine,
    *,
    is_too_big: Callable[[], bool] | None = None,
    look_every: float = 1.0,
    is_done: Callable[[], bool] | None = None,
) -> ProcessExit:
    """Run a command under a supervisor; `on_line` gets each line of its output. Cancelling it ends the command.

    `is_too_big` looks at the disk, on a thread, every `look_every` seconds; True ends the run. Once `is_done` is true,
    a silence of `limits.linger_ms` ends it too: whoever has answered and stays holds up the next one of its group.
    """
    text = msgspec.json.encode({**asdict(spec), "wall_ms": limits.wall_ms, "grace_ms": limits.grace_ms}) + b"\n"
    if len(text) > MAX_SPEC:
        raise RunnerUnavailable(f"The command and its environment have {len(text):,} bytes; {MAX_SPEC:,} is the most.")
    async with _supervisor(text, limits.grace_ms / SECOND) as run:
        stdout, stderr = run.process.stdout, run.process.stderr
        assert stdout is not None
        assert stderr is not None
        lines, errors = _Lines(on_line), _Tail()
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(run.feed(stdin))
            watching = None if is_too_big is None else group.create_task(run.watch_disk(is_too_big, look_every))
            listening = [
                group.create_task(run.listen(stdout, limits, lines.add, is_done)),
                group.create_task(run.listen(stderr, limits, errors.add, is_done)),
            ]
            await run.over.wait()
            # Whoever could still hold the output open has been ended; should one be left, nobody waits for it.
            _, deaf = await asyncio.wait(listening, timeout=LAST_WORDS)
            for task in deaf:
                task.cancel()
            feeding.cancel()
            if watching is not None:
                watching.cancel()
        if listening[0] not in deaf and lines.rest:
            lines.add(b"\n")  # what stands after the last line break is a line, too
        return run.how_it_ended(bytes(errors.kept).decode("utf-8", "replace"))


@contextlib.asynccontextmanager
async def _supervisor(spec: bytes, grace: float) -> AsyncGenerator[_Supervised]:
    lifeline_read, lifeline = os.pipe()
    status, status_write = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(SUPERVISOR),
            str(lifeline_read),
            str(status_write),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(lifeline_read, status_write),
            start_new_session=True,
        )
    except BaseException as error:
        os.close(lifeline)
        os.close(status)
        if isinstance(error, OSError):
            raise RunnerUnavailable(f"No process can be started for the agent: {error}. Try again later.") from error
        raise
    finally:
        os.close(lifeline_read)
        os.close(status_write)
    run = _Supervised(process, lifeline, status)
    # The supervisor alone holds the other end of the status pipe: its end is heard there whatever else is open.
    os.set_blocking(status, False)
    asyncio.get_running_loop().add_reader(status, run.hear)
    try:
        os.write(lifeline, spec)
        yield run
    finally:
        await run.end(grace)


@dataclass(eq=False)
class _Supervised:
    """One supervisor and the pipes to it."""

    process: asyncio.subprocess.Process
    _lifeline: int | None
    _status: int
    _cause: Cause | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)
    _silence: asyncio.TimerHandle | None = field(default=None, init=False)
    _reports: bytes = field(default=b"", init=False)
    over: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def ask_to_end(self, cause: Cause) -> None:
        """Ask for the end; the supervisor sees to it."""
        if self._lifeline is not None:
            self._cause = cause
            os.close(self._lifeline)
            self._lifeline = None

    async def end(self, grace: float) -> None:
        """Nothing is left afterwards, however the conversation went. The agent has `grace` seconds to end in."""
        if self._silence is not None:
            self._silence.cancel()
        self.ask_to_end("asked")
        try:
            async with asyncio.timeout(grace + PATIENCE):
                await self.over.wait()
        except TimeoutError:
            _log.error("agent supervisor did not end", pid=self.process.pid)
        finally:
            asyncio.get_running_loop().remove_reader(self._status)
            os.close(self._status)
            # Nearly always it is gone now. Closing the transport of a process that nobody has waited for yet would make
            # two of us wait for it, and the event loop complain that it was taken from it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GONE):
                    await self.process.wait()
            # It ends what is still there of the supervisor, and the pipes: waiting for the process alone would also
            # wait for whoever holds them open. There is no public way to it.
            self.process._transport.close()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: SLF001
            await self.process.wait()

    def hear(self) -> None:
        """A report, or the end of the supervisor."""
        part = os.read(self._status, _CHUNK)
        self._reports += part
        if not part:
            self.over.set()
            asyncio.get_running_loop().remove_reader(self._status)

    async def feed(self, stdin: bytes) -> None:
        assert self.process.stdin is not None
        # An agent that has heard enough, or has ended, is no error here: its answer tells.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.process.stdin.write(stdin)
            await self.process.stdin.drain()
        self.process.stdin.close()

    async def listen(
        self,
        stream: asyncio.StreamReader,
        limits: Limits,
        add: Callable[[bytes], None],
        is_done: Callable[[], bool] | None,
    ) -> None:
        while part := await stream.read(_HEARD):
            await asyncio.sleep(0)  # a flood of short lines must not hold up everybody else
            self._seen += len(part)
            if self._seen > limits.output_bytes:
                self.ask_to_end("output")  # the rest is read and dropped, so that nobody blocks on a full pipe
                continue
            add(part)
            if is_done is not None and is_done():
                # From now on, and anew with everything that is still said.
                if self._silence is not None:
                    self._silence.cancel()
                self._silence = asyncio.get_running_loop().call_later(
                    limits.linger_ms / SECOND, self.ask_to_end, "idle"
                )

    async def watch_disk(self, is_too_big: Callable[[], bool], look_every: float) -> None:
        while True:
            await asyncio.sleep(look_every)
            if await asyncio.to_thread(is_too_big):
                self.ask_to_end("disk")
                return

    def how_it_ended(self, errors: str) -> ProcessExit:
        """How it ended, by the supervisor's last report; why it could not start is in one before."""
        reports = [_decode_report(line) for line in self._reports.splitlines()]
        # Without any the supervisor was killed: how the agent ended is known to nobody.
        last = reports[-1] if reports else _Report()
        return ProcessExit(
            cause=self._cause if self._cause in ("output", "disk", "idle") else last.cause,
            exit_code=last.exit,
            signal=last.signal,
            left_behind=last.left,
            errors=errors,
            not_started=next((report.error for report in reports if report.error is not None), None),
        )


@dataclass(eq=False)
class _Lines:
    """Cuts a stream into lines."""

    on_line: OnLine
    rest: bytearray = field(default_factory=bytearray, init=False)

    def add(self, part: bytes) -> None:
        self.rest += part
        if b"\n" in part:
            *lines, rest = bytes(self.rest).split(b"\n")
            self.rest = bytearray(rest)
            for line in lines:
                self.on_line(line)


@dataclass(eq=False)
class _Tail:
    """Keeps the end of a stream."""

    kept: bytearray = field(default_factory=bytearray, init=False)

    def add(self, part: bytes) -> None:
        self.kept += part
        del self.kept[:-ERRORS_KEPT]
