"""Telling a group's owner what happened: to the log always, to a file or a webhook if the group has one.

For a webhook the notice becomes a task of its own: it survives a crash, is tried ten times, ends among
the dead letters if nobody ever takes it, and keeps no agent waiting.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

from rota.agents.group_folders import make_groups_folder
from rota.agents.groups import ChannelSettings, Group, Groups
from rota.agents.names import NOTICE
from rota.clock import Instant, isoformat
from rota.codec import warmed
from rota.core.outcome import ScheduleOutcome
from rota.core.task import NewTask
from rota.database import Database
from rota.errors import UnknownTaskType, WebhookFailed, WebhookRefused
from rota.logs import get_logger
from rota.private_files import close_to_others, make_folder, opener
from rota.runtime.run import Run
from rota.runtime.signals import Discard
from rota.stores.base import Store
from rota.webhooks import Webhooks

__all__ = ["NOTICE", "Channels", "Notice", "NoticeKind", "NoticeSender"]

NoticeKind = Literal["result", "error", "held", "approval_wanted", "decided", "stopped"]

_REFUSALS: Final = frozenset({ScheduleOutcome.DISABLED, ScheduleOutcome.FULL, ScheduleOutcome.QUOTA})

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


class _Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A notice on its way. The secret that signs it stays with the group."""

    notice: Notice
    url: str


warmed(msgspec.json.Decoder(_Delivery))


class Channels:
    """Takes notices in."""

    def __init__(self, notices_dir: Path, store: Callable[[], Awaitable[Store]]) -> None:
        self._notices_dir = notices_dir
        self._store = store

    async def tell(self, group: Group | None, notice: Notice) -> None:
        """Tell the owner by every channel of the group. `StoreUnavailable` if it could not be taken in; telling the
        same again is then no second notice."""
        channels = () if group is None else group.channels
        deliveries = [_task(notice, channel) for channel in channels if channel.kind == "webhook"]
        if deliveries:
            await self._post(deliveries)
        _log.info("agent notice", kind=notice.kind, group=notice.group, schedule=notice.schedule_id, text=notice.text)
        if any(channel.kind == "file" for channel in channels):
            try:
                await asyncio.to_thread(self._append, notice)
            except OSError as error:  # a full disk must not make an agent work again
                _log.warning("agent notice not written", group=notice.group, error=str(error))

    async def _post(self, deliveries: list[NewTask]) -> None:
        try:
            answers = await (await self._store()).schedule(deliveries)
            refused = [answer.outcome.value for answer in answers if answer.outcome in _REFUSALS]
        except UnknownTaskType as error:
            refused = [str(error)]
        if refused:
            # Nobody's run fails because telling about it did.
            _log.error("agent notice not taken in", key=deliveries[0].key, why=refused[0])

    def _append(self, notice: Notice) -> None:
        """One line of JSON at the end of the group's file, which lies outside of what its agents can write."""
        make_groups_folder(self._notices_dir.parent)
        make_folder(self._notices_dir)
        path = self._notices_dir / f"{notice.group}.jsonl"
        close_to_others(path)
        with open(path, "ab", opener=opener) as file:
            file.write(msgspec.json.encode(notice.to_dict()) + b"\n")


class NoticeSender:
    """The handler of the task type `agent_notice`. `webhooks` refuses private addresses unless it was made not to."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        database: Callable[[], Awaitable[Database]],
        webhooks: Webhooks,
    ) -> None:
        self._store = store
        self._database = database
        self._webhooks = webhooks

    async def deliver(self, run: Run) -> None:
        """Hand a notice over. What fails is tried again; what can only fail again is given up, with the reason."""
        delivery = _delivery_of(run.payload)
        notice = delivery.notice
        channel = await self._channel(delivery)
        body = msgspec.json.encode(notice.to_dict())
        now = await (await self._store()).now()
        try:
            # The same id each time: whoever has it already can tell.
            await self._webhooks.post(delivery.url, body, message_id=f"agent-{run.key}", now=now, secret=channel.secret)
        except (WebhookFailed, WebhookRefused) as error:
            if isinstance(error, WebhookFailed) and not error.is_final:
                raise
            _log.warning("agent notice given up", group=notice.group, schedule=notice.schedule_id, error=str(error))
            raise Discard(f"Not delivered: {error}") from error

    async def _channel(self, delivery: _Delivery) -> ChannelSettings:
        group = await Groups(await self._database()).find(delivery.notice.group)
        for channel in () if group is None else group.channels:
            if channel.kind == "webhook" and channel.url == delivery.url:
                return channel
        raise Discard("Not delivered: the group has no such webhook any more.")


def _delivery_of(payload: object) -> _Delivery:
    try:
        return msgspec.convert(payload, _Delivery)
    except msgspec.ValidationError as error:
        raise Discard(f"Not delivered: it is no notice of an agent ({error}).") from error


def _task(notice: Notice, channel: ChannelSettings) -> NewTask:
    delivery = _Delivery(notice=notice, url=channel.url or "")
    whose = hashlib.sha256(f"{notice.schedule_id}\n{notice.run}\n{delivery.url}".encode()).hexdigest()[:16]
    return NewTask(
        task_type=NOTICE,
        key=f"{notice.kind}-{notice.at}-{whose}",
        payload=msgspec.json.encode(delivery).decode(),
        serial=notice.group,
    )
