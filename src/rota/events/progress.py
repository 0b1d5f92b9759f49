"""How far a consumer is done with each place: as far as everything before is done, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rota.events.buses.base import Place

__all__ = ["Progress"]


class Progress:
    """Offsets that were fetched, in their order, and which of them are done."""

    def __init__(self) -> None:
        self._open: dict[Place, deque[Any]] = {}
        self._done: dict[Place, set[Any]] = {}
        self._reached: dict[Place, Any] = {}
        """How far each place is done, where that is not committed yet."""

    def note(self, place: Place, offset: Any) -> None:
        """It was fetched, after all others of its place."""
        self._open.setdefault(place, deque()).append(offset)

    def done(self, place: Place, offset: Any) -> None:
        """One that was fetched is done. If its place is somebody else's by now, that is not ours to say."""
        if place in self._open:
            self._done.setdefault(place, set()).add(offset)
            self._move_on(place)

    def reached(self, also: Iterable[tuple[Place, Any]] = ()) -> dict[Place, Any]:
        """How far each place is done and not yet committed; as it will be when `also` these are done."""
        found = dict(self._reached)
        added: dict[Place, set[Any]] = {}
        for place, offset in also:
            added.setdefault(place, set()).add(offset)
        for place, new in added.items():
            done = self._done.get(place, set())
            for one in self._open.get(place, ()):
                if one not in new and one not in done:
                    break
                found[place] = one
        return found

    def committed(self, marks: Mapping[Place, Any]) -> None:
        """What was committed need not be again."""
        for place, offset in marks.items():
            if place in self._reached and self._reached[place] <= offset:
                del self._reached[place]

    def forget(self, kept: Collection[Place]) -> None:
        """Only these are ours any more."""
        for book in (self._open, self._done, self._reached):
            for place in [place for place in book if place not in kept]:
                del book[place]

    def _move_on(self, place: Place) -> None:
        waiting, done = self._open.get(place), self._done[place]
        while waiting and waiting[0] in done:
            self._reached[place] = waiting.popleft()
            done.discard(self._reached[place])
