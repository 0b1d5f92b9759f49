"""Routes that are made when the first request comes that none before them answers.

With their models, and those of the parts, the routes of the API take a quarter of the time that a service needs to
start, and the first page needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from fastapi import APIRouter
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

__all__ = ["LateRoutes"]


class LateRoutes(BaseRoute):
    """Holds the place of some routers among the routes of an application. Whoever looks for a route comes by here, and
    finds theirs right behind."""

    def __init__(self, among: list[BaseRoute], make: Callable[[], Sequence[APIRouter]]) -> None:
        self._among = among
        self._make = make
        among.append(self)

    @cached_property
    def routers(self) -> Sequence[APIRouter]:
        """Asking for them makes them."""
        made = self._make()
        behind = self._among.index(self) + 1
        self._among[behind:behind] = [route for router in made for route in router.routes]
        return made

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        _ = self.routers
        return Match.NONE, {}
