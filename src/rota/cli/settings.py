"""`rota config`: what is set, and by whom."""

from __future__ import annotations

from typing import Final

from rota.cli.invocation import Cli
from rota.cli.output import Column

__all__ = ["show"]

_COLUMNS: Final = (Column("SETTING", "path", is_id=True), Column("VALUE", "value"), Column("SOURCE", "source"))


def show(cli: Cli) -> None:
    """Show every setting with its value and its source; secrets are masked."""
    config = cli.config
    rows = [row._asdict() for row in config.rows()]
    cli.output.page(rows, _COLUMNS, empty="", warnings=list(config.warnings))
    cli.warn(config)
