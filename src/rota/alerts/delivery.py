"""What became of one alert at each of its sinks: a small record, kept as JSON beside the alert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from rota.clock import MINUTE, SECOND, Instant, Millis, isoformat
from rota.codec import warmed

__all__ = ["MAX_TRIES", "OPEN", "Delivered", "Tried", "back_off_ms"]

MAX_TRIES = 10
OPEN = '{"done":false'
"""How the record begins as long as a sink is left: what can be asked of the database without reading JSON."""

_FIRST_PAUSE: Millis = 5 * SECOND
_LONGEST_PAUSE: Millis = 10 * MINUTE


def back_off_ms(tries: int) -> Millis:
    """How long to wait after so many tries that failed."""
    return min(_FIRST_PAUSE * 2 ** max(0, tries - 1), _LONGEST_PAUSE)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands with one sink."""

    tries: int = 0
    at: Instant | None = None
    ok: bool = False
    error: str | None = None
    given_up: bool = False

    @property
    def is_left(self) -> bool:
        return not self.ok and not self.given_up

    def failed(self, now: Instant, error: str, *, is_final: bool) -> Tried:
        tries = self.tries + 1
        return Tried(tries=tries, at=now, error=error[:500], given_up=is_final or tries >= MAX_TRIES)

    def succeeded(self, now: Instant) -> Tried:
        return Tried(tries=self.tries + 1, at=now, ok=True)


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """All sinks of one alert. Until `until_at` somebody is at work on it, or waits for the next try."""

    # The first field, so that the text begins with it.
    done: bool = False
    until_at: Instant = 0
    sinks: Mapping[str, Tried] = {}
    silenced: bool = False
    """Whether nobody was told, because somebody wanted silence."""

    @classmethod
    def to(cls, sinks: Iterable[str]) -> Delivered:
        """Nothing was tried yet."""
        return cls(sinks={name: Tried() for name in sinks})

    @classmethod
    def to_nobody(cls) -> Delivered:
        """Somebody wants silence."""
        return cls(done=True, silenced=True)

    @classmethod
    def decode(cls, text: str | None) -> Delivered:
        return cls(done=True) if text is None else _decode(text)

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    def left(self) -> list[str]:
        """The sinks that are still to be told."""
        return [name for name, tried in self.sinks.items() if tried.is_left]

    def wait_ms(self, now: Instant) -> Millis:
        """How long to leave it alone. An end that no pause explains comes from before the clock was set back."""
        wait_ms = self.until_at - now
        return wait_ms if 0 < wait_ms <= _LONGEST_PAUSE else 0

    def held_until(self, until_at: Instant) -> Delivered:
        return replace(self, until_at=until_at)

    @property
    def pause_ms(self) -> Millis:
        """How long to wait before the sinks that are left are tried again."""
        return back_off_ms(max((self.sinks[name].tries for name in self.left()), default=0))

    def after(self, outcomes: Mapping[str, Tried], now: Instant) -> Delivered:
        """With what some sinks have answered."""
        made = Delivered(sinks={**self.sinks, **outcomes})
        return replace(made, done=not made.left(), until_at=now + made.pause_ms)

    def shown(self) -> dict[str, dict[str, object]]:
        """For faces."""
        return {
            name: {**msgspec.structs.asdict(tried), "at": isoformat(tried.at)} for name, tried in self.sinks.items()
        }


_decode = warmed(msgspec.json.Decoder(Delivered), '{"sinks":{"log":{}}}').decode
