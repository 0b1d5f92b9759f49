"""Making one text of several that say the same.

`RuleMerger` is the default. It keeps what its sources said: a sentence is left out only if a sentence that is kept
contains it, word for word (whatever the spelling of capitals, accents and stops). A `Merger` may also answer that the
contexts are better kept apart; then nothing is merged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from rota.memory.context import MAX_KEYWORDS, MAX_TEXT_LENGTH, Context

__all__ = ["Merged", "Merger", "RuleMerger", "merged_keywords", "merged_texts", "sentences_of"]

_SENTENCE_END: Final = re.compile(r"(?<=[.!?\u2026\u3002\uff01\uff1f])\s+|\n+|(?<=[\u3002\uff01\uff1f])")
_WORDS: Final = re.compile(r"\w+")


class Merged(msgspec.Struct, frozen=True):
    """What several contexts say together."""

    title: str
    text: str
    keywords: tuple[str, ...]
    importance: int


class Merger(Protocol):
    """What makes one text of several."""

    async def merge(self, sources: Sequence[Context]) -> Merged | None:
        """The leader first, then those who joined it in order. None: keep them apart."""
        ...


class RuleMerger:
    """Every sentence once, in order; the most frequent keywords; the greatest importance."""

    async def merge(self, sources: Sequence[Context]) -> Merged | None:
        text = merged_texts([source.text for source in sources])
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
    kept: list[tuple[str, str]] = []
    for text in texts:
        for sentence in sentences_of(text):
            words = _plain(sentence)
            if any(words in known for _, known in kept):
                continue
            # A sentence that says the same and more takes the place of the first one that it contains.
            covered = [at for at, (_, known) in enumerate(kept) if known in words]
            for at in reversed(covered[1:]):
                del kept[at]
            if covered:
                kept[covered[0]] = (sentence, words)
            else:
                kept.append((sentence, words))
    return "\n".join(sentence for sentence, _ in kept)


def sentences_of(text: str) -> list[str]:
    """A text, cut at the ends of its sentences and lines."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def _plain(sentence: str) -> str:
    """Its words between spaces, so that one is contained in another only as whole words. Signs alone are themselves."""
    words = _WORDS.findall(sentence.casefold())
    return f" {' '.join(words)} " if words else sentence


def merged_keywords(sources: Sequence[Context]) -> tuple[str, ...]:
    """The most frequent ones; of equally frequent ones, in the order of the alphabet."""
    counts = Counter(keyword for source in sources for keyword in dict.fromkeys(source.keywords))
    return tuple(sorted(counts, key=lambda keyword: (-counts[keyword], keyword))[:MAX_KEYWORDS])
