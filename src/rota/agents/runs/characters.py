"""What a reader sees as one character though it has several code points (a grapheme cluster): accents, flags, families
of emoji, Korean syllables, Indic conjuncts."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["is_within_character"]

_JOINER: Final = "\u200d"
_TRAILING: Final = frozenset("\u200c\u0e33\u0eb3\uff9e\uff9f")
"""Parts of the character before them, though they are no marks by their class: the non-joiner, the Thai and Lao vowel
AM, and the voicing marks of narrow Japanese."""
_LEADING: Final = frozenset((*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x0D4E, 0x110BD, 0x110CD))
"""Signs that belong to the character after them."""
_VIRAMA: Final = 9
"""The combining class of signs that join an Indic letter to the next."""


def is_within_character(text: str, at: int) -> bool:
    """Whether the code points on both sides of a position are parts of one character."""
    before, after = text[at - 1], text[at]
    if "\n" in (before, after) or "\r" in (before, after):
        return (before, after) == ("\r", "\n")
    if _extends(after) or before == _JOINER or ord(before) in _LEADING or unicodedata.combining(before) == _VIRAMA:
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
        or character in _TRAILING
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
    if first in _LEADS or first in _OLD_LEADS:
        return second in _LEADS or second in _OLD_LEADS or _is_vowel(second) or second in _SYLLABLES
    if _is_vowel(first) or (first in _SYLLABLES and (first - _SYLLABLES.start) % 28 == 0):
        return _is_vowel(second) or _is_trail(second)
    return (first in _SYLLABLES or _is_trail(first)) and _is_trail(second)


_SYLLABLES: Final = range(0xAC00, 0xD7A4)
_LEADS: Final = range(0x1100, 0x1160)
_OLD_LEADS: Final = range(0xA960, 0xA97D)


def _is_vowel(point: int) -> bool:
    return point in range(0x1160, 0x11A8) or point in range(0xD7B0, 0xD7C7)


def _is_trail(point: int) -> bool:
    return point in range(0x11A8, 0x1200) or point in range(0xD7CB, 0xD7FC)
