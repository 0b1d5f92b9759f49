"""Numbers, spans and moments as people read them. Pure: what time it is, is an argument."""

from __future__ import annotations

import json
from typing import Final

from rota.clock import DAY, HOUR, MINUTE, SECOND, Instant, Millis, to_datetime
from rota.masking import masker
from rota.triggers.zone import zone

__all__ = ["NOTHING", "absolute", "compact", "count", "masked", "number", "pretty", "relative", "span"]

NOTHING: Final = "\N{EN DASH}"
"""What is shown where there is nothing to show."""

_UNITS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
_COMPACT: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))


def number(value: float | None) -> str:
    """With a comma at the thousands; nothing is a dash."""
    return NOTHING if value is None else f"{value:,}"


def compact(value: int) -> str:
    """Short enough for a narrow column: 12,345 stays exact below ten thousand and is 12k above."""
    for size, letter in _COMPACT:
        if abs(value) >= size:
            unit = 1_000 if letter == "k" else size
            return f"{value / unit:.3g}{letter}" if abs(value) < 1_000 * unit else f"{value // unit:,}{letter}"
    return f"{value:,}"


def count(value: int, word: str, words: str | None = None) -> str:
    """1 task, 2 tasks; `words` is the plural where it is not made by an s."""
    return f"{value:,} {word if value == 1 else words or word + 's'}"


def span(value: Millis | None) -> str:
    """A duration in its two greatest units: 820 ms, 1.2 s, 3 min 5 s, 2 d 4 h."""
    if value is None:
        return NOTHING
    value = max(0, value)
    if value < SECOND:
        return f"{value} ms"
    if value < 10 * SECOND:
        return f"{value / SECOND:.1f} s".replace(".0 s", " s")
    for place, (size, unit) in enumerate(_UNITS):
        if value >= size:
            whole, rest = divmod(value, size)
            if place + 1 < len(_UNITS):
                smaller, name = _UNITS[place + 1]
                if rest // smaller:
                    return f"{whole} {unit} {rest // smaller} {name}"
            return f"{whole} {unit}"
    raise AssertionError("every span of a second or more has a unit")


def relative(at: Instant, now: Instant) -> str:
    """In one unit, the way the script keeps it fresh: in 5 min, 3 h ago, now."""
    distance = abs(at - now)
    if distance < SECOND:
        return "now"
    size, unit = next(pair for pair in _UNITS if distance >= pair[0])
    words = f"{distance // size} {unit}"
    return f"in {words}" if at > now else f"{words} ago"


def absolute(at: Instant, timezone: str) -> str:
    """The wall clock of a zone, with the zone's short name."""
    return to_datetime(at).astimezone(zone(timezone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def pretty(text: str | None) -> str:
    """JSON with line breaks and its secrets hidden; what is no JSON stays as it is but for those. Always text, never
    markup."""
    if text is None:
        return ""
    try:
        return json.dumps(masker().value(json.loads(text)), indent=2, ensure_ascii=False)
    except ValueError:
        return masker().text(text)
    except RecursionError:  # nested deeper than Python reads: still shown, in one line
        return masker().text(text)


def masked(text: str | None) -> str | None:
    """What handlers and their callers wrote, with secrets hidden."""
    return None if text is None else masker().text(text)
