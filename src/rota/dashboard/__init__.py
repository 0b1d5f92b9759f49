"""The dashboard: server-rendered pages over the same service as the API, live where a script runs."""

from rota.dashboard.site import create_site

__all__ = ["create_site"]
