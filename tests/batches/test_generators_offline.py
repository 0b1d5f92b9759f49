"""Items without a network: the same for the same seed, as many as asked for, and in the style's manner."""

from __future__ import annotations

import asyncio
import string
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.batches.dedupe import Kind, Seen, normal, problem_of, sift, threshold_of
from rota.batches.generators import offline
from rota.batches.generators.base import GenerationRequest, Item
from rota.batches.generators.cultures import CULTURES, culture_for
from rota.batches.generators.offline import OfflineGenerator
from rota.batches.split import BASE_SIZES
from rota.llm import Usage

TYPES = [*BASE_SIZES, "tavern_song"]


def request(item_type: str = "character_name", count: int = 20, style: Any = "norse", **more: Any) -> GenerationRequest:
    return GenerationRequest(
        subtask_id="t", batch_id="b", session_id="s", type=item_type, count=count, style=style, **more
    )


async def made(asked: GenerationRequest) -> list[Item]:
    return (await OfflineGenerator().generate(asked)).items


@pytest.mark.parametrize("culture", CULTURES, ids=lambda culture: culture.name)
@pytest.mark.parametrize("item_type", TYPES)
async def test_every_culture_has_every_type(culture: Any, item_type: str) -> None:
    items = await made(request(item_type, 50, culture.name))
    assert len(items) == 50
    assert sift(items, [], threshold_of(item_type)).kept == items
    for item in items:
        assert problem_of(item.name) is None
        assert item.name[0].isupper() or item.name.startswith("al-")
        assert not set("{}_") & set(item.name + item.fields["description"])
        description = item.fields["description"]
        assert description[0].isupper()
        assert description.endswith(".")
        assert not set(description.lower().split()) & {"a a", "an an"}


@pytest.mark.parametrize("item_type", TYPES)
async def test_there_are_thousands(item_type: str) -> None:
    names: set[str] = set()
    for index in range(60):
        names |= {item.name for item in await made(request(item_type, 50, index=index))}
    assert len(names) > 1_500


async def test_the_same_is_made_of_the_same_seed_and_another_of_another() -> None:
    first = await made(request(seed=7))
    assert await made(request(seed=7)) == first
    for other in (request(seed=8), request(seed=7, index=1), request(seed=7, round=1)):
        assert await made(other) != first


async def test_it_is_the_same_in_another_process() -> None:
    program = (
        "import asyncio; from rota.batches.generators.base import GenerationRequest as R;"
        "from rota.batches.generators.offline import OfflineGenerator as G;"
        "print('|'.join(i.name for i in asyncio.run(G().generate(R(subtask_id='t', batch_id='b', session_id='s',"
        "type='item', count=9, style='', seed=5))).items))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    told, _ = await process.communicate()
    assert told.decode().strip().split("|") == [item.name for item in await made(request("item", 9, "", seed=5))]


async def test_names_that_are_there_are_avoided() -> None:
    there = [item.name for item in await made(request(count=50))]
    again = await made(request(count=50, avoid=tuple(name.upper() for name in there)))
    assert len(again) == 50
    assert all(Seen(there, threshold_of("character_name")).check(item.name).kind is Kind.NEW for item in again)


@pytest.mark.parametrize(
    ("style", "culture"),
    [
        ("dark nordic saga", "Norse"),
        ("Nordische Krieger", "Norse"),
        ("VIKING raiders", "Norse"),
        ("北欧神话", "Norse"),
        ("a Roman province", "Roman"),
        ("romantic, in Japan", "Japanese"),
        ("wuxia", "Chinese"),
        ("中国风", "Chinese"),
        ("Élfique et français", "Elvish"),
        ("Français", "French"),
        ("слав'янський, славянский", "Slavic"),
        ("Scottish highlands with vikings", "Celtic"),
        ({"culture": "Arabian", "mood": "grim"}, "Arabian"),
    ],
)
def test_the_style_chooses_the_culture(style: Any, culture: str) -> None:
    text = style if isinstance(style, str) else str(style)
    assert {culture_for(text, seed).name for seed in range(12)} == {culture}


def test_without_a_word_the_seed_chooses() -> None:
    assert {culture_for("grim and dark", seed).name for seed in range(9)} == {culture.name for culture in CULTURES}


@pytest.mark.parametrize("style", ["slave market", "square chin", "dessert", "romance", "a parish", "purple moor"])
def test_a_word_that_only_begins_so_is_no_hint(style: str) -> None:
    assert len({culture_for(style, seed).name for seed in range(9)}) == len(CULTURES)


async def test_where_no_names_are_left_fewer_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_TRIES", 1)
    there = tuple(item.name for item in await made(request(count=50)))
    assert len(await made(request(count=50, avoid=there))) == 0


@settings(max_examples=30)
@given(st.text(max_size=30), st.text(max_size=80), st.integers(0, 2**53), st.integers(1, 20))
async def test_whatever_is_asked_for_something_comes(item_type: str, style: str, seed: int, count: int) -> None:
    items = await made(request(item_type, count, style, seed=seed))
    assert len(items) == count
    assert len({normal(item.name) for item in items}) == count


async def test_nothing_is_spent() -> None:
    generator = OfflineGenerator()
    assert (await generator.generate(request())).usage == Usage()
    assert generator.estimate("item", 500, string.ascii_letters) == 0
    await generator.close()
