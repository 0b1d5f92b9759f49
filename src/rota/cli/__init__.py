"""The command line, `rota`: every command of it speaks to people, and to programs with `--json`."""

from rota.cli.entry import main

__all__ = ["main"]
