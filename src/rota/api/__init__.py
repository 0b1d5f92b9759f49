"""The HTTP face: a FastAPI application over one running service."""

from rota.api.application import create_api
from rota.api.service import Service

__all__ = ["Service", "create_api"]
