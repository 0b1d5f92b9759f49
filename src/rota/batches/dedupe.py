"""Which names are the same: equal but for case, accents and width, or so alike that a reader takes them for one.

Pure, and the same on every machine. Who came first stays.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from rapidfuzz import fuzz, process

__all__ = [
    "DEFAULT_THRESHOLD",
    "MAX_NAME",
    "THRESHOLDS",
    "Duplicate",
    "Invalid",
    "Kind",
    "Named",
    "Seen",
    "Sifted",
    "Verdict",
    "normal",
    "problem_of",
    "sift",
    "threshold_of",
]

MAX_NAME: Final = 200
"""Characters of a name; a longer one is a sentence."""

# How alike two names may be, from 0 to 1: the letters that they share, in order, by the letters of both. One letter
# more or less in a name of eight gives 0.94. In a short name that letter is another name (Anna and Hanna), so the types
# with short names want more; in a long one, of several words, it is a slip of the model (Guild of the Red Hands).
THRESHOLDS: Final[Mapping[str, float]] = {
    "character_name": 0.95,
    "location_name": 0.95,
    "item": 0.93,
    "skill": 0.96,
    "organization": 0.92,
}
DEFAULT_THRESHOLD: Final = 0.95


class Kind(StrEnum):
    """What a name is beside those that are there."""

    NEW = "new"
    EXACT = "exact"
    SIMILAR = "similar"


class Verdict(NamedTuple):
    """What was found about a name, and which name it is the twin of."""

    kind: Kind
    twin: str | None = None


class Named(Protocol):
    """Whatever has a name."""

    @property
    def name(self) -> str: ...


Thing = TypeVar("Thing", bound=Named)


class Duplicate(NamedTuple, Generic[Thing]):
    item: Thing
    twin: str
    kind: Kind


class Invalid(NamedTuple, Generic[Thing]):
    item: Thing
    reason: str


class Sifted(NamedTuple, Generic[Thing]):
    """What became of some items."""

    kept: list[Thing]
    duplicates: list[Duplicate[Thing]]
    invalid: list[Invalid[Thing]]


def threshold_of(type: str) -> float:  # noqa: A002 - the word that callers use
    return THRESHOLDS.get(type, DEFAULT_THRESHOLD)


def normal(name: str) -> str:
    """The name as it is compared: without case, accents, widths, what has no width, and double spaces."""
    if name.isascii():
        return " ".join(name.lower().split())
    folded = unicodedata.normalize("NFKC", name).casefold()
    letters = "".join(sign for sign in unicodedata.normalize("NFKD", folded) if not _is_dropped(sign))
    return " ".join(unicodedata.normalize("NFC", letters).split())


def _is_dropped(sign: str) -> bool:
    # Only the accents that scripts share. Other marks are letters of their own script: without them the Japanese "ga"
    # would be "ka", and Thai would lose its vowels.
    return unicodedata.category(sign) == "Cf" or any(first <= sign <= last for first, last in _ACCENTS)


_ACCENTS: Final = (("\u0300", "\u036f"), ("\u1ab0", "\u1aff"), ("\u1dc0", "\u1dff"), ("\ufe20", "\ufe2f"))


def problem_of(name: str) -> str | None:
    """Why a name is none; None if it is one."""
    if len(name) > MAX_NAME:
        return f"the name has {len(name):,} characters; {MAX_NAME} are the most"
    plain = normal(name)
    if not plain:
        return "the name is empty"
    return f"the name is too long: spelt out it has {len(plain):,} characters" if len(plain) > MAX_NAME else None


class Seen:
    """The names that are there, asked about others. Names of one type, by the threshold of that type."""

    def __init__(self, names: Iterable[str] = (), threshold: float = DEFAULT_THRESHOLD) -> None:
        self._cutoff = threshold * 100
        self._names: dict[str, str] = {}
        self._plain: list[str] = []
        for name in names:
            self.add(name)

    def __len__(self) -> int:
        return len(self._plain)

    def add(self, name: str) -> None:
        self._add(normal(name), name)

    def check(self, name: str) -> Verdict:
        return self._check(normal(name))

    def take(self, name: str) -> Verdict:
        """The same, and a new name is there from now on."""
        plain = normal(name)
        verdict = self._check(plain)
        if verdict.kind is Kind.NEW:
            self._add(plain, name)
        return verdict

    def _add(self, plain: str, name: str) -> None:
        if plain not in self._names:
            self._names[plain] = name
            self._plain.append(plain)

    def _check(self, plain: str) -> Verdict:
        twin = self._names.get(plain)
        if twin is not None:
            return Verdict(Kind.EXACT, twin)
        # Of several that are equally alike it is the first.
        found = process.extractOne(plain, self._plain, scorer=fuzz.ratio, score_cutoff=self._cutoff)
        return Verdict(Kind.NEW) if found is None else Verdict(Kind.SIMILAR, self._names[found[0]])


def sift(items: Iterable[Thing], there: Iterable[str], threshold: float = DEFAULT_THRESHOLD) -> Sifted[Thing]:
    """Keep the items whose names are neither there nor like one that was kept before."""
    seen = Seen(there, threshold)
    sifted = Sifted[Thing]([], [], [])
    for item in items:
        problem = problem_of(item.name)
        if problem is not None:
            sifted.invalid.append(Invalid(item, problem))
            continue
        verdict = seen.take(item.name)
        if verdict.twin is None:
            sifted.kept.append(item)
        else:
            sifted.duplicates.append(Duplicate(item, verdict.twin, verdict.kind))
    return sifted
