"""Embeddings as whole numbers: one signed byte a dimension.

Products of whole numbers are exact in floating point as long as the sums stay small. So a cosine is the same number
whatever the machine, the library or the shape of the matrices that it was computed in, and a rule that compares cosines
gives the same answer for any order and any split of its input. It also takes a quarter of the room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from rota.lazy import lazy_module

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = lazy_module("numpy")

__all__ = ["Matrix", "Vectors", "cosines", "from_bytes", "lengths", "quantise", "to_bytes"]

Vectors: TypeAlias = "NDArray[np.int8]"
"""One row for each text."""
Matrix: TypeAlias = "NDArray[np.float64]"

_GREATEST: Final = 127

# 127 x 127 x 1,040 is the greatest sum that single precision still holds exactly.
_EXACT_IN_SINGLE: Final = 1_040


def quantise(values: NDArray[np.floating]) -> Vectors:
    """Each row, scaled so that its greatest component is 127. A row of zeros stays one."""
    greatest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    share = np.divide(values, greatest, out=np.zeros_like(values), where=greatest > 0)
    return np.rint(share * _GREATEST).astype(np.int8)


def lengths(vectors: Vectors) -> NDArray[np.float64]:
    """The length of each row; 1 for a row of zeros, so that its cosine with anything is 0."""
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.sqrt(np.maximum(squares, 1.0))


def cosines(left: Vectors, right: Vectors) -> Matrix:
    """The cosine of every row on the left with every row on the right."""
    exact = np.float32 if left.shape[1] <= _EXACT_IN_SINGLE else np.float64
    products = (left.astype(exact) @ right.astype(exact).T).astype(np.float64)
    return products / np.outer(lengths(left), lengths(right))


def to_bytes(vectors: Vectors) -> list[bytes]:
    """Each row as the database keeps it."""
    return [row.tobytes() for row in np.ascontiguousarray(vectors)]


def from_bytes(rows: list[bytes]) -> Vectors:
    """The rows that `to_bytes` gave, at least one; all of one embedder, and so of one length."""
    return np.frombuffer(b"".join(rows), dtype=np.int8).reshape(len(rows), len(rows[0]))
