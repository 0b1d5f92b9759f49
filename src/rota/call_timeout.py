"""How long one call to a store or a database may take before it is given up: one number, which every part is given.

The configuration has it (`call_timeout`) and hands it to whatever it makes. What is made without one takes the default
at that moment, so that a test session on a busy machine raises it in one place.
"""

from __future__ import annotations

from typing import Final

from rota.clock import SECOND, Millis

__all__ = ["DEFAULT_MS", "DEFAULT_SECONDS", "seconds_of"]

DEFAULT_MS: Final[Millis] = 5 * SECOND

DEFAULT_SECONDS = DEFAULT_MS / SECOND
"""What holds where nobody says anything."""


def seconds_of(call_timeout: float | None) -> float:
    """The given limit, or the default."""
    return DEFAULT_SECONDS if call_timeout is None else call_timeout
