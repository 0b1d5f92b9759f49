"""Making one text of several that say the same.

`RuleMerger` is the default. It keeps what its sources said: a sentence is left out only if a sentence that is kept
contains it, word for word (whatever the spelling of capitals, accents and stops). A `Merger` may also answer that the
contexts are better kept apart; then nothing is merged.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import msgspec

from rota.memory.context import MAX_KEYWORDS, MAX_TEXT_LENGTH, Context

__all__ = ["Merged", "Merger", "RuleMerger", "merged_keywords", "merged_texts", "sentences_of"]

_SENTENCE_END: Final = re.compile(r"(?<=[.!?\u2026\u3002\uff01\uff1f])\s+|\n+|(?<=[\u3002\uff01\uff1f])")
_WORDS: Final = re.compile(r"\w+")
_QUICK: Final = 10_000
"""Characters that take no time worth speaking of: a few milliseconds."""


class Merged(msgspec.Struct, frozen=True):
    """What several contexts say together."""

    title: str
    text: str
    keywords: tuple[str, ...]
    importance: int
    is_substitute: bool = False
    """Whether it is by rule because the model that should have written it could not."""


class Merger(Protocol):
    """What makes one text of several."""

    async def merge(self, sources: Sequence[Context]) -> Merged | None:
        """The leader first, then those who joined it in order. None: keep them apart."""
        ...


class RuleMerger:
    """Every sentence once, in order; the most frequent keywords; the greatest importance."""

    async def merge(self, sources: Sequence[Context]) -> Merged | None:
        texts = [source.text for source in sources]
        if sum(map(len, texts)) <= _QUICK:
            text = merged_texts(texts)
        else:
            # Documents: whoever else lives on this event loop does not wait for them.
            text = await asyncio.to_thread(merged_texts, texts)
        if len(text) > MAX_TEXT_LENGTH:
            # Cutting it would forget something: whoever comes now stands for itself.
            return None
        return Merged(
            title=next((source.title for source in sources if source.title), ""),
            text=text,
            keywords=merged_keywords(sources),
            importance=max(source.importance for source in sources),
        )


def merged_texts(texts: Sequence[str]) -> str:
    """The sentences of all texts, without those that another one contains."""
    kept = _Kept()
    for text in texts:
        for sentence in sentences_of(text):
            kept.add(sentence)
    return "\n".join(kept.texts())


class _Sentence(NamedTuple):
    text: str
    words: Sequence[str]
    plain: str
    """Its words between spaces, so that one is contained in another only as whole words."""


class _Kept:
    """The sentences that are kept so far, found by their words: a document has thousands, and each is asked about."""

    def __init__(self) -> None:
        self._at: dict[int, _Sentence] = {}
        self._having: defaultdict[str, set[int]] = defaultdict(set)
        self._beginning: defaultdict[str, set[int]] = defaultdict(set)
        self._seen: set[str] = set()

    def texts(self) -> list[str]:
        """In order."""
        return [self._at[place].text for place in sorted(self._at)]

    def add(self, text: str) -> None:
        """Keep a sentence, unless one that is kept contains it; whatever it contains itself goes."""
        words = _words_of(text)
        sentence = _Sentence(text, words, f" {' '.join(words)} ")
        if sentence.plain in self._seen or self._is_contained(sentence):
            return
        self._seen.add(sentence.plain)
        covered = sorted(self._contained_in(sentence))
        for place in covered:
            self._remove(place)
        # A sentence that says the same and more takes the place of the first one that it contains.
        self._put(covered[0] if covered else len(self._seen), sentence)

    def _is_contained(self, sentence: _Sentence) -> bool:
        rarest = min((self._having[word] for word in sentence.words), key=len)
        return any(sentence.plain in self._at[place].plain for place in rarest)

    def _contained_in(self, sentence: _Sentence) -> set[int]:
        beginnings = {*sentence.words, *map(" ".join, pairwise(sentence.words))}
        begin_within = {place for beginning in beginnings for place in self._beginning.get(beginning, ())}
        return {place for place in begin_within if self._at[place].plain in sentence.plain}

    def _put(self, place: int, sentence: _Sentence) -> None:
        self._at[place] = sentence
        self._beginning[" ".join(sentence.words[:2])].add(place)
        for word in sentence.words:
            self._having[word].add(place)

    def _remove(self, place: int) -> None:
        sentence = self._at.pop(place)
        self._beginning[" ".join(sentence.words[:2])].discard(place)
        for word in sentence.words:
            self._having[word].discard(place)


def sentences_of(text: str) -> list[str]:
    """A text, cut at the ends of its sentences and lines."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def _words_of(sentence: str) -> list[str]:
    """Its words, however they are spelled. Signs alone are one word."""
    return _WORDS.findall(sentence.casefold()) or [sentence]


def merged_keywords(sources: Sequence[Context]) -> tuple[str, ...]:
    """The most frequent ones; of equally frequent ones, in the order of the alphabet."""
    counts = Counter(keyword for source in sources for keyword in dict.fromkeys(source.keywords))
    return tuple(sorted(counts, key=lambda keyword: (-counts[keyword], keyword))[:MAX_KEYWORDS])
