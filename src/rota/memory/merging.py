"""Making one text of several that say the same.

`RuleMerger` is the default. It keeps what its sources said: a sentence is left out only if an equal one is kept, with
the same words, whatever their capitals and stops. One that merely contains it is no equal: "I doubt that Clara comes"
says the contrary of "Clara comes". A question is no statement either. A `Merger` may also answer that the contexts are
better kept apart; then nothing is merged.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol, cast

import msgspec

from rota.memory.context import MAX_KEYWORDS, MAX_TEXT_LENGTH, Context

__all__ = [
    "Merged",
    "Merger",
    "RuleMerger",
    "items_of",
    "merged_details",
    "merged_keywords",
    "merged_texts",
    "sentences_of",
]

_STOPS: Final = ".,;:!\u2026\u3002\uff01\uff0c\u3001\uff1b\uff1a\uff61\u0964\u06d4\u060c\u061b"
"""What may stand behind a word without making it another one. A question mark is none of them."""
_ABBREVIATIONS: Final = (
    "mr mrs ms dr prof rev hon st sr jr gen col capt lt sgt mt ft inc ltd co corp dept est no nos vol fig vs etc approx"
    " e.g i.e cf al jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun"
    " hr fr nr bzw ca usw z.b d.h u.a str mme mlle sra dra srta ing"
)
_CLOSING: Final = r"\"'\u2019\u201d\u00bb)\]"
_NO_END: Final = "|".join(
    (
        r"(?<!\w)(?:" + "|".join(map(re.escape, _ABBREVIATIONS.split())) + r")\.",
        r"(?<![^\W_])[^\W\d_]\.",  # initials, and what is shortened to letters: J. R., p.m.
        r"(?<!\d)\d{1,2}\.",  # ordinals and the numbers of a list: am 5. Mai
        r"\.\.+|\u2026",  # somebody thinks, and goes on
    )
)
_STOP: Final = re.compile(
    rf"(?P<none>(?i:{_NO_END})[{_CLOSING}]*)"
    rf"|[.!?\u061f\u0964\u06d4\u1362]+[{_CLOSING}]*(?=\s|$)"
    r"|[\u3002\uff01\uff1f\uff61]+(?![\u300d\u300f\u201d\u2019\uff09])"
)
_NEXT: Final = re.compile(r"\s*(\S)")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_TAIL: Final = 40
"""Characters at the end of a line that tell whether it ends with a stop."""
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
    """The sentences of all texts, each once, in order; as they were spelled first."""
    kept: dict[tuple[str, ...], str] = {}
    for text in texts:
        for sentence in sentences_of(text):
            kept.setdefault(_words_of(sentence), sentence)
    return _told(list(kept.values()))


def sentences_of(text: str) -> list[str]:
    """A text, cut where its sentences end for certain.

    What is cut in the middle of a sentence is compared by its halves, and half a sentence may well equal half of one
    that says the contrary. So a doubtful stop ends nothing: that costs a repetition, never a meaning.
    """
    return [
        sentence.strip()
        for paragraph in _PARAGRAPH.split(text)
        for passage in _passages_of(paragraph)
        for sentence in _cut(passage)
    ]


def _passages_of(paragraph: str) -> Iterator[str]:
    """The lines of a list, each for itself; of prose that is broken into lines, those that belong together.

    Prose ends with a stop, though not each of its lines does. Nor does a line end where the next one goes on small.
    """
    lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
    is_prose = bool(lines) and _is_ended(lines[-1])
    passage = lines[:1]
    for before, line in pairwise(lines):
        if not _goes_on(before, line, is_prose=is_prose):
            yield "\n".join(passage)
            passage = []
        passage.append(line)
    if passage:
        yield "\n".join(passage)


def _goes_on(line: str, following: str, *, is_prose: bool) -> bool:
    return not _is_ended(line) and (is_prose or following[0].islower())


def _is_ended(line: str) -> bool:
    """Whether the end of a line is the end of a sentence."""
    tail = line[-_TAIL:]
    return any(stop["none"] is None and stop.end() == len(tail) for stop in _STOP.finditer(tail))


def _cut(passage: str) -> Iterator[str]:
    """A passage, cut behind each stop that ends a sentence; not before a small letter: nothing begins there."""
    start = 0
    for stop in _STOP.finditer(passage):
        following = _NEXT.match(passage, stop.end())
        if stop["none"] is None and following is not None and not following[1].islower():
            yield passage[start : stop.end()]
            start = stop.end()
    yield passage[start:]


def _told(sentences: Sequence[str]) -> str:
    """A sentence a line, with a free line where `sentences_of` would else read on: it finds the same ones again."""
    parts = list(sentences[:1])
    for before, sentence in pairwise(sentences):
        reads_on = _goes_on(before, sentence, is_prose=_is_ended(sentence))
        parts += ["\n\n" if reads_on or "\n" in before + sentence else "\n", sentence]
    return "".join(parts)


def _words_of(sentence: str) -> tuple[str, ...]:
    """Its words without capitals and stops; signs that make a difference (-5, C#) stay. Stops alone are a word."""
    words = [word.rstrip(_STOPS) for word in unicodedata.normalize("NFC", sentence).casefold().split()]
    return tuple(word for word in words if word) or (sentence,)


def merged_details(sources: Sequence[Context]) -> dict[str, Any]:
    """What the sources' senders said about them: where they agree, that; where they differ, all of it as a list."""
    given: dict[str, list[Any]] = {}
    for source in sources:
        for name, value in source.details.items():
            given.setdefault(name, []).append(value)
    return {name: _united(values) for name, values in given.items()}


def _united(values: Sequence[Any]) -> Any:
    """One value of several. A list stands for its items: the result of an earlier merge may have made it."""
    if len({_key_of(value) for value in values}) == 1:
        return values[0]
    items: dict[bytes, Any] = {}
    for item in (item for value in values for item in items_of(value)):
        items.setdefault(_key_of(item), item)
    return list(items.values())


def items_of(value: Any) -> list[Any]:
    """The values that a detail stands for: those of a list, or the one that it is."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _key_of(value: Any) -> bytes:
    # As JSON: Python takes 1, 1.0 and True for the same.
    return msgspec.json.encode(value, order="deterministic")


def merged_keywords(sources: Sequence[Context]) -> tuple[str, ...]:
    """The most frequent ones; of equally frequent ones, in the order of the alphabet."""
    counts = Counter(keyword for source in sources for keyword in dict.fromkeys(source.keywords))
    return tuple(sorted(counts, key=lambda keyword: (-counts[keyword], keyword))[:MAX_KEYWORDS])
