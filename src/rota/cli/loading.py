"""Finding the app that `--app` names: imported under the flags of the command line."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.cli.invocation import Options
from rota.cli.parts import APP_VARIABLE
from rota.config import Config
from rota.config.urls import masked
from rota.core.task_type import did_you_mean
from rota.errors import InvalidInput, RotaError

if TYPE_CHECKING:
    from rota.app.rota import Rota

__all__ = ["AppOption", "ConcurrencyOption", "import_app", "load_app"]

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:ATTRIBUTE",
        envvar=APP_VARIABLE,
        show_envvar=False,
        help="The Rota app with the handlers, e.g. myproject.tasks:app. Default: what ROTA_APP says.",
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option("--max-concurrent", "--concurrency", metavar="N", help="How many tasks run at once in this process."),
]

_CONCURRENCY: Final = "ROTA_SCHEDULER__EXECUTOR__MAX_CONCURRENT"


def load_app(options: Options, text: str, concurrency: int | None) -> Rota:
    """The app that `--app` names, made under the flags of this command line."""
    _flags_to_environment(options, concurrency)
    found = import_app(text, "--app")
    _check_flags(options, concurrency, found.config)
    return found


def import_app(text: str, by: str) -> Rota:
    """The app that a text names, MODULE:ATTRIBUTE; `by` is where the text was given."""
    from rota.app.rota import Rota

    name, _, attribute = text.partition(":")
    if not all(part.isidentifier() for part in name.split(".")) or not (attribute or "app").isidentifier():
        raise InvalidInput(f"{by} {text!r} names no app. Write MODULE:ATTRIBUTE, e.g. myproject.tasks:app.")
    _look_here_too()
    module = _import(name)
    found: object = getattr(module, attribute or "app", None)
    if not isinstance(found, Rota):
        raise InvalidInput(f"{by} {text!r}: {_no_app(module, attribute or 'app', found, Rota)}")
    return found


def _flags_to_environment(options: Options, concurrency: int | None) -> None:
    """The app is made by the import, so that is when the flags must be known."""
    flags = {"ROTA_STORE": options.store, "ROTA_CONFIG": options.config, _CONCURRENCY: concurrency}
    os.environ.update({name: str(value) for name, value in flags.items() if value is not None})


def _look_here_too() -> None:
    # As `python -m` does: a project that is not installed is found where it is worked on.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except RotaError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidInput(
                f"There is no module {error.name!r} here. Run rota in the folder of your project, install the project,"
                " or set PYTHONPATH."
            ) from None
        raise InvalidInput(f"The module {name!r} needs {error.name!r}, which is not installed. Install it.") from None
    except Exception as error:
        raise InvalidInput(
            f"The module {name!r} cannot be imported: {type(error).__name__}: {error}."
            f" `python -c 'import {name}'` shows where."
        ) from error


def _no_app(module: ModuleType, attribute: str, found: object, kind: type) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, kind)]
    hint = f"{did_you_mean(attribute, apps)}" if apps else "Make one there: app = Rota()."
    what = "is not there" if found is None else f"is a {type(found).__name__}, not a Rota"
    return f"{attribute!r} {what}. {hint}"


def _check_flags(options: Options, concurrency: int | None, config: Config) -> None:
    """What is written in the app's code wins over the environment; a flag without effect would be a trap."""
    if options.store is not None and config.store_url != options.store:
        raise InvalidInput(
            f"--store {masked(options.store)} has no effect: the app's code says {masked(config.store_url)}."
            " Leave the flag out, or make the app with Rota() so that it can be configured."
        )
    if concurrency is not None and config.max_concurrent != concurrency:
        raise InvalidInput(
            f"--max-concurrent {concurrency} has no effect: the app's code says max_concurrent={config.max_concurrent}."
            " Leave the flag out, or the setting in the code."
        )
