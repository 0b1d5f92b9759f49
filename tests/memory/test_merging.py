"""Merging by rule keeps what was said."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rota.memory.context import MAX_TEXT_LENGTH, Context, Kind, Owner, State
from rota.memory.merging import RuleMerger, merged_texts, sentences_of

WORDS = st.sampled_from(["the", "cat", "dog", "likes", "fish", "on", "Monday", "Tuesday", "not", "9", "10"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
TEXTS = st.lists(SENTENCES, min_size=1, max_size=4).map(". ".join)


def a_context(text: str, **changes: object) -> Context:
    values: dict[str, object] = {
        "id": 1,
        "owner": Owner("u1"),
        "kind": Kind.CHAT,
        "state": State.FRESH,
        "title": "",
        "text": text,
        "keywords": (),
        "importance": 5,
        "details": {},
        "created_at": 0,
        "captured_at": 0,
        "updated_at": 0,
        "compressed_at": None,
        "enable_merge": True,
        "has_compression": False,
        "leads": False,
        "merge_count": 0,
        "merged_into": None,
        "leader_id": None,
        "batch_id": None,
        "embedder": None,
        "embedding": None,
        **changes,
    }
    return Context(**values)  # pyright: ignore[reportArgumentType] -- the changes are the test's own


def spoken(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_every_sentence_of_every_source_is_still_there(texts: list[str]) -> None:
    merged = [spoken(sentence) for sentence in sentences_of(merged_texts(texts))]
    for text in texts:
        for sentence in sentences_of(text):
            assert any(spoken(sentence) in kept for kept in merged)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_nothing_is_said_twice_and_merging_again_changes_nothing(texts: list[str]) -> None:
    merged = merged_texts(texts)
    sentences = [spoken(sentence) for sentence in sentences_of(merged)]
    assert len(set(sentences)) == len(sentences)
    assert merged_texts([merged]) == merged
    assert merged_texts([merged, *texts]) == merged


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_any_text_can_be_merged(texts: list[str]) -> None:
    merged = merged_texts(texts)
    assert merged_texts([merged]) == merged


async def test_keywords_importance_and_title() -> None:
    sources = [
        a_context("Tea.", keywords=("tea", "hot"), importance=3),
        a_context("More tea.", keywords=("tea",), importance=8, title="Drinks"),
    ]
    merged = await RuleMerger().merge(sources)
    assert merged is not None
    assert (merged.title, merged.text, merged.keywords, merged.importance) == (
        "Drinks",
        "Tea.\nMore tea.",
        ("tea", "hot"),
        8,
    )


async def test_what_would_be_too_long_is_kept_apart() -> None:
    sources = [a_context("a" * MAX_TEXT_LENGTH), a_context("b" * 10)]
    assert await RuleMerger().merge(sources) is None


async def test_long_lists_are_merged_in_a_moment() -> None:
    """Two documents of thousands of short lines: asking each about each took longer than any run may take."""
    lines = [f"Line {number} of the list" for number in range(2_500)]
    longer = [f"{line} again" for line in lines[: len(lines) // 2]]
    merged = await RuleMerger().merge([a_context("\n".join(lines)), a_context("\n".join(longer))])
    assert merged is not None
    assert merged.text.splitlines() == [*lines, *longer]
