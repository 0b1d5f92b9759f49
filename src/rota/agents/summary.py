"""The short form of a result: at most 200 characters, and never half of what a reader sees as one."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["SUMMARY_LENGTH", "cut", "summary_of"]

SUMMARY_LENGTH: Final = 200

_JOINER: Final = "\u200d"


def summary_of(result: str | None, error: str | None) -> str:
    """Seed 001's `last_result`: "Error: ...", the beginning of the result, or "Completed"."""
    if error is not None:
        return cut(f"Error: {error}")
    return cut(result.strip()) or "Completed" if result else "Completed"


def cut(text: str, most: int = SUMMARY_LENGTH) -> str:
    """The beginning of a text, cut between two characters as people count them: accents, flags, families of emoji and
    Korean syllables stay whole. One that is longer than the limit by itself is cut after all."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(clean) <= most:
        return clean
    end = most
    while end > 0 and _belongs_together(clean, end):
        end -= 1
    return clean[: end or most]


def _belongs_together(text: str, at: int) -> bool:
    """Whether the code points on both sides of a position are parts of one character."""
    before, after = text[at - 1], text[at]
    if _extends(after) or before == _JOINER or (before, after) == ("\r", "\n"):
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        return _flag_letters_before(text, at) % 2 == 1
    return _is_within_syllable(before, after)


def _extends(character: str) -> bool:
    """Accents, vowel signs, variation selectors, skin tones, tags and the joiner itself."""
    point = ord(character)
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or character == _JOINER
        or 0x1F3FB <= point <= 0x1F3FF
        or 0xE0020 <= point <= 0xE007F
    )


def _is_flag_letter(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def _flag_letters_before(text: str, at: int) -> int:
    """How many letters of flags stand in a row before a position: two make a flag."""
    count = 0
    while at - count > 0 and _is_flag_letter(text[at - count - 1]):
        count += 1
    return count


def _is_within_syllable(before: str, after: str) -> bool:
    """Korean written in single letters: leading consonant, vowel, trailing consonant."""
    first, second = ord(before), ord(after)
    leads, vowels, trails = range(0x1100, 0x1160), range(0x1160, 0x11A8), range(0x11A8, 0x1200)
    if first in leads:
        return second in leads or second in vowels or 0xAC00 <= second <= 0xD7A3
    syllable = 0xAC00 <= first <= 0xD7A3
    has_no_trail = syllable and (first - 0xAC00) % 28 == 0
    if first in vowels or has_no_trail:
        return second in vowels or second in trails
    return (syllable or first in trails) and second in trails
