"""Telling a group's owner what happened: to the log always, to a file or a webhook if the group has one.

Nobody's run fails because telling about it did: what could not be delivered is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from rota.agents.groups import Group
from rota.clock import Instant, isoformat
from rota.errors import InvalidInput, WebhookFailed
from rota.logs import get_logger
from rota.webhooks import Webhooks

__all__ = ["Channels", "Notice", "NoticeKind"]

NoticeKind = Literal["result", "error", "held", "approval_wanted", "decided", "stopped"]

PAUSES: Final = (0.5, 2.0)
"""Seconds before the second and the third try of a webhook. A run waits for them, so they are few."""

_log = get_logger("rota.agents")


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an owner wants to know."""

    kind: NoticeKind
    group: str
    schedule_id: str
    text: str
    at: Instant
    run: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at)}


class Channels:
    """Delivers notices. `webhooks` refuses private addresses unless it was made not to."""

    def __init__(
        self, notices_dir: Path, webhooks: Webhooks | None = None, *, pauses: Sequence[float] = PAUSES
    ) -> None:
        self._notices_dir = notices_dir
        self._pauses = pauses
        self._webhooks = webhooks or Webhooks()

    async def tell(self, group: Group | None, notice: Notice) -> None:
        """Tell the owner by every channel of the group."""
        _log.info("agent notice", kind=notice.kind, group=notice.group, schedule=notice.schedule_id, text=notice.text)
        for channel in () if group is None else group.channels:
            try:
                if channel.kind == "file":
                    await asyncio.to_thread(self._append, notice)
                else:
                    await self._send(channel.url, channel.secret, notice)
            except Exception as error:  # whatever a far end does, the run that is told about must not suffer
                _log.warning("agent notice not delivered", channel=channel.kind, group=notice.group, error=str(error))

    def _append(self, notice: Notice) -> None:
        """One line of JSON at the end of the group's file, which lies outside of what its agents can write."""
        self._notices_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._notices_dir / f"{notice.group}.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(notice.to_dict()) + b"\n")

    async def _send(self, url: str | None, secret: str | None, notice: Notice) -> None:
        if url is None:
            raise InvalidInput(f"The webhook of the group {notice.group!r} has no url. Give it one.")
        body = msgspec.json.encode(notice.to_dict())
        message_id = f"agent-{notice.schedule_id}-{notice.kind}-{notice.at}"
        for pause in (*self._pauses, None):
            try:
                # The same id each time: whoever has it already can tell.
                await self._webhooks.post(url, body, message_id=message_id, now=notice.at, secret=secret)
                return
            except WebhookFailed as error:
                if pause is None or error.is_final:
                    raise
                await asyncio.sleep(pause)
