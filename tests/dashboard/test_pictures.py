"""The pictures of the documentation can be taken anew: their pages are there, and what the moving one tells happens."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from docs.pictures.__main__ import FILM, IMAGES, browsed, lived
from docs.pictures.film import shoot
from docs.pictures.shots import shots_of, take

STILLS, MOVING = 3_000_000, 1_500_000
"""Bytes that all of them may have: everybody who clones the repository pays for them."""


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*-*.png")}


async def test_the_pictures_are_taken(tmp_path: Path) -> None:
    async with lived(tmp_path) as (stage, payments), browsed(stage) as context:
        shots = await shots_of(stage.app)
        await take(context, stage.url, shots, tmp_path)
        await shoot(context, stage.url, stage.app, payments, tmp_path / FILM)

    with Image.open(tmp_path / FILM) as film:
        assert getattr(film, "n_frames", 1) > 5
    taken = names_in(tmp_path)
    assert taken >= {f"{shot.name}-{width}.png" for shot in shots for width in (1440, 1280, 390)}
    # What the documentation shows is what the script takes, and no more.
    assert names_in(IMAGES) == taken


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in IMAGES.glob("*.png")) < STILLS
    assert (IMAGES / FILM).stat().st_size < MOVING
