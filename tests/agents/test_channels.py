"""Notices reach a file or a webhook, and trouble on the way is nobody's failure."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from rota.agents.channels import Channels, Notice
from rota.agents.groups import ChannelSettings, Group
from rota.webhooks import Webhooks, verify

NOTICE = Notice(kind="result", group="family", schedule_id="task-1", text="All is well.", at=1_767_603_600_000)


def group(*channels: ChannelSettings) -> Group:
    return Group(folder="family", number=1, name="Family", chat_jid="x", channels=channels)


async def test_a_file_gets_a_line_for_each_notice(tmp_path: Path) -> None:
    channels = Channels(tmp_path / "notices")
    for _ in range(2):
        await channels.tell(group(ChannelSettings(kind="file")), NOTICE)
    lines = (tmp_path / "notices" / "family.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["All is well."] * 2
    assert json.loads(lines[0])["at"] == "2026-01-05T09:00:00.000Z"


async def test_a_webhook_is_signed(tmp_path: Path) -> None:
    received: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        await received.put((headers, body))
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        hook = ChannelSettings(kind="webhook", url=f"http://127.0.0.1:{port}/hook", secret="whsec_aHVudGVyMg==")
        channels = Channels(tmp_path, Webhooks(allow_private=True, allow_http=True))
        await channels.tell(group(hook), NOTICE)
        async with asyncio.timeout(10):
            headers, body = await received.get()
    assert json.loads(body)["schedule_id"] == "task-1"
    assert verify("whsec_aHVudGVyMg==", headers, body, now=NOTICE.at)
    assert not verify("another", headers, body, now=NOTICE.at)


async def test_a_private_address_is_not_called_and_the_other_channels_are(tmp_path: Path) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append(True)
        writer.close()

    called: list[bool] = []
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        hook = ChannelSettings(kind="webhook", url=f"https://127.0.0.1:{port}/hook")
        await Channels(tmp_path).tell(group(hook, ChannelSettings(kind="file")), NOTICE)
    assert called == []
    assert (tmp_path / "family.jsonl").exists()


async def test_nobody_to_tell_is_no_trouble(tmp_path: Path) -> None:
    await Channels(tmp_path).tell(None, NOTICE)
    assert not (tmp_path / "family.jsonl").exists()


async def test_a_webhook_is_tried_again_under_the_same_id(tmp_path: Path) -> None:
    answers = ["503 Service Unavailable", "500 Internal Server Error", "204 No Content"]
    ids: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        await reader.readexactly(int(headers["content-length"]))
        ids.append(headers["webhook-id"])
        writer.write(f"HTTP/1.1 {answers[len(ids) - 1]}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        hook = ChannelSettings(kind="webhook", url=f"http://127.0.0.1:{port}/hook")
        channels = Channels(tmp_path, Webhooks(allow_private=True, allow_http=True), pauses=(0.01, 0.01))
        await channels.tell(group(hook), NOTICE)
    assert len(ids) == 3
    assert len(set(ids)) == 1
