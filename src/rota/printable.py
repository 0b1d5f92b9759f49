"""Texts of others, shown so that they cannot look like something else.

What turns the direction of letters, has no width or moves a cursor can make a script read as another one; whoever
approves it must see it.
"""

from __future__ import annotations

__all__ = ["printable", "printable_lines"]


def printable(text: str) -> str:
    """The text with control characters spelt out: an id must not be able to repaint a terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))
