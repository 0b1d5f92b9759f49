"""Texts as vectors: similar texts lie in similar directions.

`HashingEmbedder` is the default: words and pieces of words are hashed to dimensions and signs. It needs no download,
gives the same vector everywhere and for ever, and knows wording only: two sentences that share no word are strangers to
it, whatever they mean. `SentenceTransformerEmbedder` knows meaning, and is an extra: pip install 'rota[embeddings]'.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast
from zlib import crc32

from rota.errors import InvalidConfig
from rota.lazy import lazy_module
from rota.memory.vectors import Vectors, quantise

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_module("numpy")

__all__ = ["Embedder", "HashingEmbedder", "SentenceTransformerEmbedder", "embedder_for", "words_of"]


class Embedder(Protocol):
    """What turns texts into vectors. The name changes whenever the vectors do, so that old ones are known as stale."""

    @property
    def name(self) -> str: ...

    @property
    def is_instant(self) -> bool:
        """Whether short texts may be embedded on the event loop: microseconds for each, no device and no network."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row for each text."""
        ...


def embedder_for(kind: Literal["hashing", "sentence-transformers"], model: str | None = None) -> Embedder:
    """The embedder that a configuration names."""
    if kind == "hashing":
        return HashingEmbedder()
    return SentenceTransformerEmbedder(model) if model else SentenceTransformerEmbedder()


# --- hashing ---------------------------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"\d+(?:[.:,]\d+)*|[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NEGATIONS: Final = _set_of("no not never none nobody nothing without neither nor cannot")
_LITTLE: Final = _set_of("""
    a an the and or but so of to in on at for from by with about as is are was were be been being am it its this that
    these those i me my mine we us our you your he him his she her they them their do does did have has had will would
    can could should may might must just really very please also too there here then than if today now again still
    s t m re ve ll d
""")
"""Words that say little. Those that have an opposite (up and down, over and under, out) are not among them."""
_ENDINGS: Final = ("ingly", "edly", "ing", "ies", "ed", "es", "ly", "s")

_WEIGHT_OF_LITTLE: Final = 0.12
_WEIGHT_OF_NUMBER: Final = 1.6
_WEIGHT_OF_NEGATION: Final = 1.6
_WEIGHT_OF_PIECES: Final = 0.55
_WEIGHT_OF_PAIR: Final = 0.2

_LONGEST_WORD: Final = 64
"""Characters up to which a word, or a pair of them, is worth remembering."""

Feature = tuple[int, float]


class HashingEmbedder:
    """Feature hashing of words, their pieces (character trigrams) and pairs of neighbours.

    Numbers and negations weigh more than other words, and small words hardly anything: "the train leaves at 9" and
    "the train leaves at 10" must not look alike.
    """

    is_instant = True

    def __init__(self, dimensions: int = 512) -> None:
        self.dimensions = dimensions
        self.name = f"hashing-{dimensions}-2"
        self._remembered = lru_cache(maxsize=50_000)(self._features_of)

    def embed(self, texts: Sequence[str]) -> Vectors:
        values = np.zeros((len(texts), self.dimensions))
        for row, text in zip(values, texts, strict=True):
            features = [feature for word in _weighed(text) for feature in self._features(word)]
            if features:
                places, weights = zip(*features, strict=True)
                row += np.bincount(places, weights, self.dimensions)
        return quantise(values)

    def _features(self, word: _Weighed) -> tuple[Feature, ...]:
        """What one word adds. Words come again and again, so this is remembered; endless ones do not."""
        return self._remembered(word) if len(word[0]) <= _LONGEST_WORD else self._features_of(word)

    def _features_of(self, word: _Weighed) -> tuple[Feature, ...]:
        text, weight, has_pieces = word
        own = self._feature("w", text, weight)
        if not has_pieces:
            return (own,)
        padded = f"<{text}>"
        pieces = [padded[at : at + 3] for at in range(len(padded) - 2)]
        share = _WEIGHT_OF_PIECES * weight / len(pieces) ** 0.5
        return (own, *(self._feature("p", piece, share) for piece in pieces))

    def _feature(self, kind: str, text: str, weight: float) -> Feature:
        number = crc32(f"{kind}:{text}".encode("utf-8", "surrogatepass"))
        return number % self.dimensions, weight if number & 0x4000_0000 else -weight


_Weighed = tuple[str, float, bool]
"""A word, its weight, and whether pieces of it count."""


def words_of(text: str) -> list[str]:
    """The words of a text in one spelling: small letters, no endings, "don't" as "do not"."""
    return [word for raw in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()) for word in _spelled(raw)]


def _spelled(raw: str) -> Iterator[str]:
    if _UNSPACED.search(raw):
        # No spaces between words: neighbouring pairs of signs stand for them.
        yield from (raw[at : at + 2] for at in range(max(1, len(raw) - 1)))
        return
    plain = raw.replace("\u2019", "'")
    if plain.endswith("n't"):
        yield "not"
        return
    yield _stem(plain.partition("'")[0])


def _stem(word: str) -> str:
    if word.isdigit() or word in _LITTLE or word in _NEGATIONS:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _one_spelling(_undoubled(word.removesuffix(ending)) + ("y" if ending == "ies" else ""))
    return _one_spelling(word.removesuffix("e") if len(word) > 4 else word)


def _one_spelling(stem: str) -> str:
    """British and American spelling are one: colour and color, organise and organize, metre and meter."""
    if len(stem) < 5:  # hour, four, your
        return stem
    if stem.endswith("iz"):
        return f"{stem[:-2]}is"
    if stem.endswith("tr"):
        return f"{stem[:-2]}ter"
    return stem.replace("our", "or")


def _undoubled(stem: str) -> str:
    """ "running" and "run" are one word: so are "runn" and "run"; "mak" and "make" have lost the same e."""
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiouls":
        return stem[:-1]
    return stem.removesuffix("e") if len(stem) > 4 else stem


def _weighed(text: str) -> Iterator[_Weighed]:
    words = words_of(text)
    for word in words:
        if word[0].isdigit():
            yield word, _WEIGHT_OF_NUMBER, False
        elif word in _NEGATIONS:
            yield "not", _WEIGHT_OF_NEGATION, False
        elif word in _LITTLE:
            yield word, _WEIGHT_OF_LITTLE, False
        else:
            yield word, 1.0, True
    telling = [word for word in words if word not in _LITTLE]
    for one, other in pairwise(telling):
        yield f"{one} {other}", _WEIGHT_OF_PAIR, False


# --- sentence-transformers -------------------------------------------------------------------------------------------


class SentenceTransformerEmbedder:
    """A model of the sentence-transformers library, loaded when it is first needed."""

    is_instant = False

    def __init__(self, model: str = "all-MiniLM-L6-v2") -> None:
        if find_spec("sentence_transformers") is None:
            raise InvalidConfig(
                "memory.embedder is 'sentence-transformers', which is not installed."
                " Run pip install 'rota[embeddings]', or use 'hashing'."
            )
        self.name = f"sentence-transformers-{model}"
        self._model_name = model
        self._model: Any = None
        self._loading = Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        return quantise(np.asarray(self._loaded().encode(list(texts), normalize_embeddings=True), dtype=np.float64))

    def _loaded(self) -> Any:
        with self._loading:  # runs embed in threads, and a model is large
            if self._model is None:
                from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports, reportUnknownVariableType] -- an extra

                self._model = cast("Any", SentenceTransformer(self._model_name))
            return self._model
