"""Where alerts go: the log, a webhook, a command. A sink either takes a message or raises."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from rota.alerts.alert_store import AlertNotice
from rota.clock import Instant, isoformat
from rota.core.alert import LOG, AlertChange, AlertSink
from rota.errors import RotaError
from rota.logs import get_logger
from rota.webhooks import Webhooks, sign

__all__ = ["CommandFailed", "CommandSink", "LogSink", "Sink", "WebhookSink", "make_sinks"]

COMMAND_SECONDS: Final = 10.0
MAX_OUTPUT_BYTES: Final = 65_536

log = get_logger("rota.alerts")


class Sink(Protocol):
    """One place that alerts go to."""

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        """Hand it over, or raise: `is_final` on the error says that trying again is no use."""
        ...


class LogSink:
    """The log: firing is an error, resolved is news."""

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        write = log.error if notice.change is AlertChange.FIRING else log.info
        write(f"alert {notice.change}", rule=notice.rule, subject=notice.subject, summary=notice.summary)


class WebhookSink:
    """A signed POST. Its id is the alert's, so a receiver can tell a second try from a second alert."""

    def __init__(self, webhooks: Webhooks, url: str, secret: str | None) -> None:
        self._webhooks = webhooks
        self._url = url
        self._secret = secret

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        message_id = f"alert_{notice.at}_{notice.id}"
        await self._webhooks.post(self._url, _body(notice), message_id=message_id, now=now, secret=self._secret)


class CommandFailed(RotaError):
    """A command did not take an alert."""

    code = "command_failed"


class CommandSink:
    """A program that gets the alert as JSON on its standard input. Never a shell; its whole group ends with it."""

    def __init__(self, argv: tuple[str, ...], timeout: float = COMMAND_SECONDS) -> None:
        self._argv = argv
        self._timeout = timeout

    async def send(self, notice: AlertNotice, now: Instant) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailed(f"The command {self._argv[0]!r} cannot be started: {error.strerror}.") from None
        try:
            async with asyncio.timeout(self._timeout):
                said, _ = await asyncio.gather(_head(process.stderr), _feed(process.stdin, _body(notice)))
                code = await process.wait()
        except TimeoutError:
            raise CommandFailed(f"The command {self._argv[0]!r} took longer than {self._timeout:g} s.") from None
        finally:
            await _end(process)
        if code != 0:
            raise CommandFailed(f"The command {self._argv[0]!r} ended with {code}: {said[:300] or 'it said nothing'}")


async def _head(stream: asyncio.StreamReader | None) -> str:
    """The beginning of what it says; the rest is read and dropped, so that it never waits for us."""
    assert stream is not None
    kept = b""
    while chunk := await stream.read(8_192):
        kept += chunk[: max(0, MAX_OUTPUT_BYTES - len(kept))]
    return kept.decode(errors="replace").strip()


async def _feed(stream: asyncio.StreamWriter | None, body: bytes) -> None:
    assert stream is not None
    # A program may not want to read it.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(body)
        await stream.drain()
    stream.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await stream.wait_closed()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End whatever is left of its group, and wait for itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def make_sinks(sinks: Mapping[str, AlertSink], webhooks: Webhooks) -> dict[str, Sink]:
    """The sinks of a configuration, and the log. Raises if an address or a secret can be seen to be of no use."""
    made: dict[str, Sink] = {LOG: LogSink()}
    for name, sink in sinks.items():
        if sink.webhook is None:
            made[name] = CommandSink(sink.command)
        else:
            webhooks.check(sink.webhook)
            if sink.secret is not None:
                sign(sink.secret, name, 0, b"")  # a secret that cannot sign is refused now, not when something is wrong
            made[name] = WebhookSink(webhooks, sink.webhook, sink.secret)
    return made


def _body(notice: AlertNotice) -> bytes:
    return msgspec.json.encode(
        {
            "type": f"alert.{notice.change}",
            "timestamp": isoformat(notice.at),
            "data": {
                "id": notice.id,
                "rule": notice.rule,
                "subject": notice.subject,
                "state": notice.change.value,
                "value": notice.value,
                "summary": notice.summary,
            },
        }
    )
