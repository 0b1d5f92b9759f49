"""Bar charts as plain SVG: readable on light and on dark pages, with nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

__all__ = ["Bar", "bar_chart"]

WIDTH: Final = 760
LABEL: Final = 250
VALUE: Final = 110
ROW: Final = 24
TOP: Final = 64
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:15px}.bar{fill:#9aa5b1}"
    ".own{fill:#3b6ea5}.reach{stroke:#555;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.bar{fill:#6b7684}.own{fill:#6ba3dc}.reach{stroke:#bbb}}"
)


@dataclass(frozen=True)
class Bar:
    """One queue: its median, how far the rounds reach, and what is written beside it."""

    name: str
    value: float
    low: float
    high: float
    text: str
    is_own: bool = False


def bar_chart(title: str, explained: str, bars: Sequence[Bar]) -> str:
    """Bars from nothing to the median, with a line from the lowest to the highest round."""
    height = TOP + ROW * len(bars) + 10
    longest = max((bar.high for bar in bars), default=0.0) or 1.0
    rows = "".join(_row(bar, TOP + ROW * at, (WIDTH - LABEL - VALUE) / longest) for at, bar in enumerate(bars))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img"><title>{escape(title)}: {escape(explained)}</title><style>{STYLE}</style>'
        f'<text class="title" x="10" y="24">{escape(title)}</text><text x="10" y="46">{escape(explained)}</text>'
        f"{rows}</svg>\n"
    )


def _row(bar: Bar, top: int, scale: float) -> str:
    middle, kind = top + 8, "own" if bar.is_own else "bar"
    low, high = LABEL + bar.low * scale, LABEL + bar.high * scale
    return (
        f'<text x="{LABEL - 8}" y="{top + 13}" text-anchor="end">{escape(bar.name)}</text>'
        f'<rect class="{kind}" x="{LABEL}" y="{top}" width="{bar.value * scale:.1f}" height="16" rx="2"/>'
        f'<line class="reach" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"/>'
        f'<text x="{high + 8:.1f}" y="{top + 13}">{escape(bar.text)}</text>'
    )
