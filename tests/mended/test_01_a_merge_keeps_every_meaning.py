"""A merge leaves a sentence out only if an equal one is kept: what merely contains it may say the contrary."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.memory.test_llm import Model, said
from tests.memory.test_merging import a_context

from rota.database import Database
from rota.memory import ChatPush, Memory, Message, Scope
from rota.memory.llm import LlmMerger
from rota.memory.memory import MemorySettings
from rota.memory.merging import merged_texts, sentences_of
from rota.testing import FakeClock

PLAIN = "My sister Clara is coming to dinner on Friday at the lake house."
SMALL = PLAIN.replace("My", "my")
TURNED = {
    "unsure": f"I'm not sure if {SMALL}",
    "condition": f"If it rains {SMALL}",
    "doubt": f"I doubt {SMALL}",
    "hearsay": f"Mum thinks {SMALL}",
    "denial": f"It is not true that {SMALL}",
    "afterthought": f"{PLAIN[:-1]}, or so she says.",
    "time": f"Until last week {SMALL}",
    "question": f"{PLAIN[:-1]}?",
    "quotation": f'Tom: "{PLAIN}"',
}

WORDS = st.sampled_from(
    ["Clara", "comes", "not", "if", "it", "rains", "Mr.", "e.g.", "J.", "5", "-5", "3.5", "5.", "No."]
)
ENDS = st.sampled_from([". ", "! ", "? ", "... ", " ", "\n", "\n\n", ".\n", "", "。", "\uff1f"])
TEXTS = st.lists(st.tuples(WORDS, ENDS).map("".join), min_size=1, max_size=14).map("".join)


@pytest.fixture(params=["sqlite", "postgres"])
async def memory(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncGenerator[Memory]:
    """A memory that takes for the same whatever is at all alike: what is merged is not the matter here."""
    database = Database(request.getfixturevalue(f"{request.param}_url"), clock=clock)
    await database.open()

    async def opened() -> Database:
        return database

    async def touch(*_: object) -> bool:
        return True

    yield Memory(opened, touch, list, settings=MemorySettings(threshold=0.5), clock=clock)
    await database.close()


@pytest.mark.parametrize("what", TURNED)
@pytest.mark.parametrize("turned_first", [True, False])
async def test_what_turns_a_meaning_swallows_nothing(
    memory: Memory, clock: FakeClock, what: str, *, turned_first: bool
) -> None:
    """Said one after the other, merged, and looked at when cleanup has deleted the sources."""
    told = [TURNED[what], PLAIN] if turned_first else [PLAIN, TURNED[what]]
    for text in told:
        await memory.push(ChatPush(user_id="ada", messages=[Message(content=text)]))
        clock.advance("1h")
    assert (await memory.compress(Scope("ada"))).groups == 1
    clock.advance("31d")
    assert (await memory.cleanup_expired_data()).sources == 2
    (left,) = (await (await memory.contexts()).page(Scope("ada"))).contexts
    assert left.text.splitlines() == told


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_every_distinct_sentence_of_the_sources_is_in_the_merged_text(texts: list[str]) -> None:
    merged = merged_texts(texts)
    assert {spoken(one) for one in sentences_of(merged)} == {
        spoken(one) for text in texts for one in sentences_of(text)
    }
    assert merged_texts([merged, *texts]) == merged


def spoken(sentence: str) -> str:
    """A sentence by its words, and whether it asks; numbers and signs as they are."""
    return " ".join(re.sub(r"[.!,。]+(?=\s|$)", " ", sentence.casefold()).split()) or sentence


def test_an_equal_sentence_is_said_once_whatever_its_capitals_and_stops() -> None:
    assert merged_texts(["Tea is at nine. I know!", "tea is at nine", "I KNOW."]) == "Tea is at nine.\nI know!"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I like Mr. Brown. He is here.", "I hate Dr. Brown."),
        ("The lease is not\nvalid before May.", "The lease is\nvalid before May."),
        ("I will not meet\nClara on Monday.", "I will meet\nClara on Monday."),
        ("i do not\nlike fish", "i do\nlike fish"),
        ("It is -5 degrees in Oslo.", "It is 5 degrees in Oslo."),
        ("I write C.", "I write C#."),
        ("It grew by 3.5 in all.", "It grew by 35 in all."),
        ("彼は「行きます。」と言った。", "行きます。"),
    ],
)
def test_what_is_cut_or_written_alike_is_not_the_same(first: str, second: str) -> None:
    for one, other in ((first, second), (second, first)):
        assert " ".join(merged_texts([one, other]).split()) == " ".join(f"{one} {other}".split())


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("I met Mr. Brown. He is kind.", ["I met Mr. Brown.", "He is kind."]),
        ("See e.g. Paris. It costs 3.5 euros. Fine!", ["See e.g. Paris.", "It costs 3.5 euros.", "Fine!"]),
        ("J. R. R. Tolkien wrote it. I like it.", ["J. R. R. Tolkien wrote it.", "I like it."]),
        ("Well... Maybe not. Yes.", ["Well... Maybe not.", "Yes."]),
        ("Am 5. Mai komme ich, z.B. zu Hr. Abt. Gut.", ["Am 5. Mai komme ich, z.B. zu Hr. Abt.", "Gut."]),
        ("私は行かない。本当\uff1fはい\uff01", ["私は行かない。", "本当\uff1f", "はい\uff01"]),
        ("彼は「行きます。」と言った。", ["彼は「行きます。」と言った。"]),
        ("मैं आता हूँ। वह नहीं आता।", ["मैं आता हूँ।", "वह नहीं आता।"]),
        ("Milk\nEggs\n\nBread", ["Milk", "Eggs", "Bread"]),
        ("He\nis ill. Is\nhe?", ["He\nis ill.", "Is\nhe?"]),
    ],
)
def test_a_sentence_ends_where_it_does_for_certain(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Clara comes on Friday at 8 o'clock.",
        "Clara does not come on Friday.",
        "Clara does not come on Friday at 8 o'clock.",
    ],
)
async def test_a_model_that_loses_a_number_or_a_turn_is_not_believed(text: str) -> None:
    sources = [a_context("If it rains Clara doesn't come on Friday at 8 o'clock."), a_context("Clara comes on Friday.")]
    async with Model() as model:
        model.answer = said({"merge": True, "text": text})
        merged = await LlmMerger(model.url, "small").merge(sources)
        assert merged is not None
        assert (merged.text, merged.is_substitute) == ("\n".join(source.text for source in sources), True)
        faithful = "Clara comes on Friday, but not at 8 if it rains."
        model.answer = said({"merge": True, "text": faithful})
        merged = await LlmMerger(model.url, "small").merge(sources)
        assert merged is not None
        assert (merged.text, merged.is_substitute) == (faithful, False)
