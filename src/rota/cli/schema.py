"""`rota openapi`: the schema of the HTTP API, without starting it."""

from __future__ import annotations

import sys

from rota.cli.invocation import Cli
from rota.cli.output import write_json

__all__ = ["openapi"]


def openapi(cli: Cli) -> None:
    """Print the OpenAPI schema of the HTTP API, as JSON."""
    from rota.api.application import create_api
    from rota.api.service import Service
    from rota.app.rota import Rota

    # Nothing is opened: the schema is the same over every store.
    service = Service(Rota("memory://"), base_path=cli.config.server.base_path)
    write_json(create_api(service).openapi(), sys.stdout)
