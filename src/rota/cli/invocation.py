"""One call of `rota`: its global options, its configuration, its store.

A command is a function whose first parameter is a `Cli`; the rest is Typer's. `command` adds `--json`, `--store` and
`--config` to each, so that they are accepted before and after the name of the command alike. To a list it adds `--wide`
and `--columns`.
"""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import unquote

import typer

from rota.cli.later import MARKUP
from rota.cli.output import Output, View
from rota.cli.parts import own_parts
from rota.clock import SECOND

if TYPE_CHECKING:
    from rota.app.operator import Operator
    from rota.app.rota import Rota
    from rota.config import Config
    from rota.stores.base import Store

__all__ = ["Cli", "Options", "Session", "command", "group", "new_group", "program_name", "sqlite_file"]

_P = ParamSpec("_P")
_Outcome = TypeVar("_Outcome", bound="Coroutine[object, object, None] | None")

_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel="Global")]
_STORE = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="The store, e.g. sqlite:///rota.db.", rich_help_panel="Global"),
]
_CONFIG = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The configuration (YAML).", rich_help_panel="Global"),
]
_WIDE = Annotated[bool, typer.Option("--wide", help="Show every column, and cut nothing.", rich_help_panel="Table")]
_COLUMNS = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B,C", help="Show these columns, by their headings.", rich_help_panel="Table"),
]


@dataclass(frozen=True)
class Options:
    """The global options; what stands further right on the command line wins."""

    as_json: bool = False
    store: str | None = None
    config: Path | None = None

    def over(self, outer: Options | None) -> Options:
        """These options where they are given, else the outer ones."""
        if outer is None:
            return self
        return Options(self.as_json or outer.as_json, self.store or outer.store, self.config or outer.config)


class Session(NamedTuple):
    """What a command acts with: the connected app, its store, and an operator in the name of whoever typed it."""

    app: Rota
    store: Store
    operator: Operator


class Cli:
    """What a command works with."""

    def __init__(self, options: Options, view: View | None = None) -> None:
        self.options = options
        self.output = Output(as_json=options.as_json, view=view)

    @cached_property
    def config(self) -> Config:
        """The configuration, with `--store` on top."""
        return self.load_config()

    def load_config(self, **flags: object) -> Config:
        """The configuration with more flags on top."""
        from rota.app.settings import load_config

        # ROTA_DEBUG is for `main`, not a setting that somebody misspelt.
        environ = {name: value for name, value in os.environ.items() if name != "ROTA_DEBUG"}
        sections = [part.section for part in own_parts() if part.section is not None]
        kinds = [kind for part in own_parts() for kind in part.alert_kinds()]
        flags = {"store": self.options.store, **flags}
        return load_config(self.options.config, environ=environ, flags=flags, sections=sections, alert_kinds=kinds)

    def warn(self, config: Config) -> None:
        """Show what the configuration warns of."""
        for warning in config.warnings:
            self.output.note(f"warning: {warning}")

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[Store]:
        """The store of the configuration, open for the length of the block: for commands that only look."""
        from rota.stores import open_store

        self._tell_of_a_new_file()
        store = open_store(self.config.store_url, call_timeout=self.config.call_timeout_ms / SECOND)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session]:
        """The same for commands that act: whatever they do through the operator is in the audit log."""
        from rota.access import Principal
        from rota.app.operator import Operator
        from rota.app.rota import Rota

        self._tell_of_a_new_file()
        app = Rota(_bare(self.config))
        for part in own_parts():
            app.host.attach(part)  # its types are told to the store by those who serve them
        async with app:
            yield Session(app, await app.store(), Operator(app, Principal.at_the_command_line()))

    def _tell_of_a_new_file(self) -> None:
        from rota.config.urls import masked

        url = self.config.store_url
        file = sqlite_file(url)
        if file is not None and not file.exists():
            self.output.note(f"note: {masked(url)} did not exist; an empty store is made. Another one? Use --store.")


def _bare(config: Config) -> Config:
    """The configuration without its types, without a spool and without its warnings.

    A worker knows its types better: they have settings in its code. Whoever waits for an answer here wants to know that
    the store is away. And what the configuration warns of, `rota config show` and the workers say.
    """
    sources = MappingProxyType({**config.sources, "spool": "the command line"})
    return replace(config, tasks=MappingProxyType({}), spool_path=None, warnings=(), sources=sources)


def program_name() -> str:
    """How this program is called from where it was called: for commands that are shown to be tried."""
    name = Path(sys.argv[0])
    if name.name == "__main__.py":
        return "python -m rota.cli"
    found = shutil.which("rota")
    if found is not None and Path(found).resolve() == name.resolve():
        return "rota"
    near = os.path.relpath(name)
    return shlex.quote(str(name) if near.startswith(os.pardir) else near)


def sqlite_file(url: str) -> Path | None:
    """The file that an SQLite URL names; None for every other store."""
    from rota.config.urls import scheme_of

    if scheme_of(url) != "sqlite":
        return None
    name = unquote(url.partition("://")[2].partition("?")[0].removeprefix("/"))
    return None if name in ("", ":memory:") else Path(name)


def command(
    where: typer.Typer, name: str, *, works_long: bool = False, lists: bool = False
) -> Callable[[Callable[Concatenate[Cli, _P], _Outcome]], Callable[Concatenate[Cli, _P], _Outcome]]:
    """Register a function as a command of a group; the function itself stays as it is. One that works for long runs on
    a faster event loop, if there is one. One that `lists` shows a table and has its options; `ls` always does."""

    def register(function: Callable[Concatenate[Cli, _P], _Outcome]) -> Callable[Concatenate[Cli, _P], _Outcome]:
        where.command(name)(_runner(function, works_long=works_long, lists=lists or name == "ls"))
        return function

    return register


def group(name: str, help_text: str, parent: typer.Typer) -> typer.Typer:
    """A group of commands, itself taking the global options."""
    made = new_group(name, help_text)
    parent.add_typer(made, name=name)
    return made


def new_group(name: str, help_text: str) -> typer.Typer:
    """A group that is part of no tree yet."""
    made = typer.Typer(
        name=name,
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=MARKUP,
    )

    def remember(ctx: typer.Context, as_json: _JSON = False, store: _STORE = None, config: _CONFIG = None) -> None:
        ctx.obj = Options(as_json, store, config).over(_outer(ctx))

    made.callback()(remember)
    return made


def _outer(ctx: typer.Context) -> Options | None:
    found: object = ctx.obj
    return found if isinstance(found, Options) else None


def _runner(
    function: Callable[Concatenate[Cli, _P], _Outcome], *, works_long: bool, lists: bool
) -> Callable[..., None]:
    """The function as Typer wants it: the global options among its parameters, and not a coroutine."""

    def run(ctx: typer.Context, as_json: bool, store: str | None, config: Path | None, **given: object) -> None:
        view = _view(given.pop("wide"), given.pop("columns")) if lists else None
        cli = Cli(Options(as_json, store, config).over(_outer(ctx)), view)
        outcome = function(cli, **given)  # pyright: ignore[reportCallIssue] - Typer has made `given` from the signature
        if outcome is not None:
            from rota.cli.event_loop import run_on_loop

            run_on_loop(outcome, fast=works_long)

    signature = _signature(function, lists=lists)
    run.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess] - the documented way to state one
    run.__annotations__ = {name: item.annotation for name, item in signature.parameters.items()}
    run.__doc__ = function.__doc__
    return run


def _view(wide: object, columns: object) -> View:
    names = columns.lower().split(",") if isinstance(columns, str) else []
    return View(bool(wide), tuple(name.strip().replace(" ", "_") for name in names))


def _signature(function: Callable[..., object], *, lists: bool) -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    of_lists = [
        inspect.Parameter("wide", keyword, annotation=_WIDE, default=False),
        inspect.Parameter("columns", keyword, annotation=_COLUMNS, default=None),
    ]
    return inspect.Signature(
        [
            inspect.Parameter("ctx", keyword, annotation=typer.Context),
            *(parameter.replace(kind=keyword) for parameter in own),
            *(of_lists if lists else []),
            inspect.Parameter("as_json", keyword, annotation=_JSON, default=False),
            inspect.Parameter("store", keyword, annotation=_STORE, default=None),
            inspect.Parameter("config", keyword, annotation=_CONFIG, default=None),
        ]
    )
