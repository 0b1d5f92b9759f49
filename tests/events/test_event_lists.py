"""The lists of events in a terminal: no wider than it is, and with ids that can be copied whole."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from rich.cells import cell_len
from tests.events.event_scene import TOPIC, an_operator, dead_letter, published, read_up_to, refused, seen, set_all

from rota import Rota
from rota.cli import main
from rota.database.tables.events import handles, outbox
from rota.errors import BusAway
from rota.events import Event
from rota.events.buses.local import LocalBus

MARKUP = "[red]x[/red]"
KEYS = ("o1", "k" * 150, MARKUP, "<script>alert(1)</script>", "注文番号-二〇二六-漢字のとても長い鍵")
ERROR = f"{MARKUP} <b> the service at https://billing.example.com/v2/invoices says\n\x1b[31mno " + "again " * 60
LONG_TYPE = "Genesis.CharacterProfile.DetailBatchGenerationRequested"
CONSUMERS = ("billing", "a_consumer_with_a_rather_long_name_of_its_own")
CORRELATION = "8c4e5f7a-0000-4000-8000-000000000000"

LISTS = {
    "event ls": ("event_id",),
    "event ls --status new": ("event_id",),
    "event dlq": ("event_id", "consumer"),
    "event dlq --consumer billing": ("event_id", "consumer"),
    "event consumers": ("consumer",),
    "outbox ls": ("event_id",),
    "handle ls": ("id", "correlation_id"),
}
"""Each list, and what people copy out of it."""


class Seen(NamedTuple):
    lines: list[str]
    out: str

    @property
    def words(self) -> set[str]:
        return {word for line in self.lines for word in line.split()}


class See(Protocol):
    """What a command shows in a terminal of so many columns, without its colours; or in a pipe."""

    def __call__(self, command: str, columns: int | None = 80) -> Seen: ...


@pytest.fixture
def see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> See:
    url = f"sqlite:///{tmp_path}/rota.db?synchronous=OFF"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_STORE", url)
    monkeypatch.setenv("TERM", "xterm-256color")
    asyncio.run(_scene(url))

    def call(command: str, columns: int | None = 80) -> Seen:
        monkeypatch.setenv("COLUMNS", str(columns or 80))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: columns is not None)
        capsys.readouterr()
        assert main(command.split()) == 0
        said = capsys.readouterr()
        return Seen(re.sub(r"\x1b\[[0-9;]*m", "", said.out + said.err).splitlines(), said.out)

    return call


async def _scene(url: str) -> None:
    """Whatever a list may have to show: long, wide, with markup; refused, dead, and tried again."""
    async with Rota(url) as app:
        database, operator = await app.database(), an_operator(app)
        await refused(app, "r1", "r2")
        await set_all(database, outbox, error=ERROR)
        await (await app.events()).outbox.publish(
            Event(LONG_TYPE, aggregate_id="s1", event_id="an/id/of/their/own"),
            *(Event("Shop.Order.Created", aggregate_id="o", key=key) for key in KEYS),
        )
        for key, event_id in zip(KEYS, await published(app, *"abcde"), strict=True):
            for consumer in CONSUMERS:
                await dead_letter(database, event_id, consumer, key=key, error=ERROR)
        await seen(database, "e1", status="retrying", topic="rota.shop.cart", next_at=5, error=ERROR)
        await read_up_to(database, CONSUMERS[0], 0)
        wanted: dict[str, Any] = {"expected": ["Shop.Order.Created"], "expected_count": 1_000_000}
        for correlation in (CORRELATION, MARKUP):
            await operator.create_handle(correlation_id=correlation, task_name="detail_batch_of_characters", **wanted)
        await set_all(database, handles, error=ERROR, done=1_200, failed=3)


def _ids(items: Iterable[dict[str, object]], names: Iterable[str]) -> set[str]:
    return {str(item[name]) for item in items for name in names}


@pytest.mark.parametrize("columns", [80, 100, 140])
@pytest.mark.parametrize("command", LISTS)
def test_a_list_is_no_wider_than_its_terminal(see: See, command: str, columns: int) -> None:
    """But for a key that is longer than a line: it stands by itself, and whoever copies it has it whole."""
    widths = {line: cell_len(line) for line in see(command, columns).lines if line.strip() != KEYS[1]}
    assert {line: width for line, width in widths.items() if width > columns} == {}
    assert max(widths.values()) > 20


@pytest.mark.parametrize("columns", [40, 80, 140, None])
@pytest.mark.parametrize(("command", "names"), LISTS.items())
def test_ids_stand_whole(see: See, command: str, names: tuple[str, ...], columns: int | None) -> None:
    items = json.loads(see(f"{command} --json", columns).out)["items"]
    assert _ids(items, names) - see(command, columns).words == set()


def test_what_matters_is_seen_in_80_columns(see: See) -> None:
    """What it is, how it stands, when, and why: on the first line of a row."""
    refused_row = next(line for line in see("outbox ls").lines if " dead " in line)
    assert re.match(r" Shop\.Order\.Created +dead +(now|\S+ ago) +\[red\]x\[/red\]", refused_row)
    letter = next(line for line in see("event dlq --consumer billing").lines if "billing" in line)
    assert re.match(r" Shop\.Order\.Created +billing +\S+ ago +\[red\]x\[/red\] <b>", letter)
    handle = next(line for line in see("handle ls").lines if "detail_batch" in line)
    assert "1,200 of" in handle


def test_texts_of_others_are_cut_and_do_nothing(see: See) -> None:
    said = see("event dlq --consumer billing")
    assert "\x1b[31mno" not in said.out
    assert sum("again" in line for line in said.lines) <= 3 * len(KEYS)
    assert "…" in said.out
    assert {MARKUP, "<script>alert(1)</script>"} <= see("event ls", 200).words


def test_a_pipe_has_everything(see: See) -> None:
    said = see("event dlq", None)
    assert len(said.lines) == 1 + len(KEYS) * len(CONSUMERS)
    assert all("again again" in line for line in said.lines[1:])
    assert "…" not in said.out


@pytest.mark.parametrize("columns", [80, None])
def test_the_lag_in_words(see: See, monkeypatch: pytest.MonkeyPatch, columns: int | None) -> None:
    async def lag(self: LocalBus, consumer: str, topics: object) -> dict[str, int]:
        return {"rota.shop.cart": 0, TOPIC: 1_200} if consumer == "billing" else {}

    monkeypatch.setattr(LocalBus, "lag", lag)
    said = see("event consumers", columns)
    assert "rota.shop.order 1,200, rota.shop.cart 0" in said.out
    assert "{" not in said.out

    async def away(self: LocalBus, consumer: str, topics: object) -> dict[str, int]:
        raise BusAway("The bus is away.")

    monkeypatch.setattr(LocalBus, "lag", away)
    assert "unknown" in see("event consumers", columns).words


def test_json_has_no_words_for_people(see: See) -> None:
    (consumer, *_) = json.loads(see("event consumers --json").out)["items"]
    assert set(consumer) == {"consumer", "here", "topics", "lag", "retrying", "dead"}
    (handle, *_) = json.loads(see("handle ls --json").out)["items"]
    assert (handle["done"], handle["failed"]) == (1_200, 3)
    assert "progress" not in handle
