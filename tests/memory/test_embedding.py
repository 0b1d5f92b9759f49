"""The default embedder knows wording, and says so the same way for ever."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.memory_pairs import HELD_OUT_NEAR_MISSES, HELD_OUT_PARAPHRASES, NEAR_MISSES, PARAPHRASES
from rota.errors import InvalidConfig
from rota.memory.embedding import HashingEmbedder, SentenceTransformerEmbedder, embedder_for, words_of
from rota.memory.vectors import cosines, to_bytes

EMBEDDER = HashingEmbedder()


def similarity(one: str, other: str) -> float:
    vectors = EMBEDDER.embed([one, other])
    return float(cosines(vectors[:1], vectors[1:])[0, 0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I love hiking in the mountains.", "i really love hiking in the mountains!"),
        ("My sister lives in Oslo", "my sister is living in Oslo"),
        ("The train to Berlin leaves at 9:15", "The train leaves at 9:15 to Berlin"),
        ("I'm allergic to peanuts", "I am allergic to peanut"),
        ("My neighbour organises the fair in the centre", "My neighbor organizes the fair in the center"),
    ],
)
def test_the_same_in_other_words_is_similar(one: str, other: str) -> None:
    assert similarity(one, other) >= 0.85


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like coffee", "I don't like coffee"),
        ("The train leaves at 9", "The train leaves at 10"),
        ("My budget is 500 euros", "My budget is 5000 euros"),
        ("Meeting with Ana on Monday", "Meeting with Ana on Tuesday"),
        ("The cat sleeps", "Interest rates rise"),
        ("Prices went up last year", "Prices went down last year"),
        ("He walked out of the meeting", "He walked into the meeting"),
    ],
)
def test_a_near_miss_is_not(one: str, other: str) -> None:
    assert similarity(one, other) < 0.85


def test_a_vector_never_changes() -> None:
    """Vectors lie in databases: another release must compute the same ones, or change the embedder's name."""
    assert EMBEDDER.name == "hashing-512-2"
    vectors = EMBEDDER.embed(["The quick brown fox jumps over 2 lazy dogs.", "Don't forget: 9:15!", "我喜欢咖啡"])
    assert hashlib.sha256(b"".join(to_bytes(vectors))).hexdigest()[:16] == "329f2520800a9d3b"


@pytest.mark.parametrize(("same", "other"), [(PARAPHRASES, NEAR_MISSES), (HELD_OUT_PARAPHRASES, HELD_OUT_NEAR_MISSES)])
def test_quality_on_the_labelled_pairs(same: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]) -> None:
    """`python -m bench.memory` prints it. What it merges is right; what shares no word, it cannot find."""
    found = sum(similarity(*pair) >= 0.85 for pair in same)
    mistaken = sum(similarity(*pair) >= 0.85 for pair in other)
    assert found / (found + mistaken) >= 0.95
    assert found / len(same) >= 0.7


def test_endless_words_are_not_remembered() -> None:
    """Features of words are kept in memory; those of a word of 100,000 letters would take 10 MiB each."""
    embedder = HashingEmbedder()
    tracemalloc.start()
    for letter in "abcdefgh":
        embedder.embed([letter * 50_000])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2**20


@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_text_has_a_vector_and_company_does_not_matter(texts: list[str]) -> None:
    together = to_bytes(EMBEDDER.embed(texts))
    alone = [to_bytes(HashingEmbedder().embed([text]))[0] for text in texts]
    assert together == alone
    assert all(len(vector) == 512 for vector in together)


def test_words_without_spaces_are_cut() -> None:
    assert words_of("我喜欢咖啡") == ["我喜", "喜欢", "欢咖", "咖啡"]
    assert words_of("Don't stop RUNNING, it's 9:15!") == ["not", "stop", "run", "it", "9:15"]


def _nothing(_name: str) -> None: ...


def test_the_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.memory.embedding.find_spec", _nothing)
    with pytest.raises(InvalidConfig, match=r"pip install 'rota\[embeddings\]'"):
        SentenceTransformerEmbedder()
    assert embedder_for("hashing").name == EMBEDDER.name
