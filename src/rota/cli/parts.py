"""The parts whose commands and settings the command line knows: the built-in ones, and those of your own app.

    export ROTA_APP=myproject.tasks:app

Then `rota` has the commands of that app's parts too, knows their settings, and `rota up` and `rota worker` serve it.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rota.part import Part

__all__ = ["APP_VARIABLE", "data_parts", "known_parts", "own_parts"]

APP_VARIABLE: Final = "ROTA_APP"


@cache
def own_parts() -> tuple[Part, ...]:
    """What the app that `ROTA_APP` names brings beside the built-in parts."""
    named = os.environ.get(APP_VARIABLE)
    if not named:
        return ()
    from rota.app.parts import built_in_parts
    from rota.cli.loading import import_app

    built_in = {type(part) for part in built_in_parts()}
    return tuple(part for part in import_app(named, APP_VARIABLE).host.parts.values() if type(part) not in built_in)


def known_parts() -> list[Part]:
    """Every part, in the order in which the faces show them."""
    from rota.app.parts import built_in_parts

    return [*built_in_parts(), *own_parts()]


def data_parts() -> list[str]:
    """The names of the parts whose tasks are about something in the database."""
    return [part.name for part in known_parts() if part.keeps_data]
