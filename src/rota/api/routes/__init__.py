"""The routes, one file per thing that they are about."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from rota.api.routes import (
    access,
    dead_letters,
    failures,
    health,
    live,
    monitoring,
    overview,
    runs,
    schedules,
    tasks,
    touch,
    types,
    users,
    waterfall,
)

__all__ = ["ROUTERS"]

ROUTERS: Final[tuple[APIRouter, ...]] = (
    health.open_router,
    health.router,
    live.router,
    types.router,
    types.acting,
    tasks.router,
    tasks.acting,
    waterfall.router,
    schedules.router,
    schedules.acting,
    runs.router,
    failures.router,
    failures.acting,
    dead_letters.router,
    dead_letters.acting,
    touch.router,
    overview.router,
    monitoring.router,
    users.router,
    access.tokens,
    access.audit,
)
