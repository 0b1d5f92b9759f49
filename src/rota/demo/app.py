"""The application of `rota demo`: four types of work, as somebody would write them for a chat product."""

from __future__ import annotations

import asyncio
from typing import Final

from rota.app.rota import Rota
from rota.clock import MINUTE, SECOND, Millis
from rota.config import Config

__all__ = ["EMBEDDING_SECONDS", "LEASE_MS", "SWEEP_MS", "Demo", "build"]

LEASE_MS: Final[Millis] = 3 * SECOND
"""The shortest lease there is: a newcomer should not have to wait ten seconds for a dead worker's task."""
SWEEP_MS: Final[Millis] = SECOND // 2
EMBEDDING_SECONDS: Final = 4.0


class Demo:
    """The names of the types, for whoever looks at their tasks."""

    MEMORY: Final = "memory_compression"
    EMBEDDINGS: Final = "embedding_refresh"
    EXPORT: Final = "invoice_export"
    REPORT: Final = "usage_report"


def build(url: str) -> Rota:
    """The application on a store. Its settings are its own: no file and no variable of the host changes the story."""
    app = Rota(
        Config(
            store_url=url,
            database_url=url,
            lease_ms=LEASE_MS,
            sweep_ms=SWEEP_MS,
            call_timeout_ms=MINUTE,  # a slow machine is no part of the story
            max_concurrent=8,
        ),
    )

    @app.on_activity(name=Demo.MEMORY, after="4s", timeout="30s", description="compress what a user has said")
    async def memory_compression(user_id: str) -> str:
        await asyncio.sleep(0.2)
        return f"compressed the memory of {user_id}"

    @app.on_activity(name=Demo.EMBEDDINGS, after="0s", timeout="30s", description="slow work, for the worker that dies")
    async def embedding_refresh(user_id: str) -> str:
        await asyncio.sleep(EMBEDDING_SECONDS)
        return f"refreshed the embeddings of {user_id}"

    @app.on_activity(
        name=Demo.EXPORT,
        after="0s",
        max_retries=2,
        retry={"base": "300ms", "factor": 1, "max": "300ms"},
        description="always fails",
    )
    async def invoice_export(user_id: str) -> None:
        await asyncio.sleep(0.1)
        raise ConnectionError(f"the invoice service of {user_id} answers 500")

    @app.cron("*/4 * * * * *", name=Demo.REPORT, timezone="UTC", description="every four seconds")
    async def usage_report() -> str:
        return "reported"

    assert all((memory_compression, embedding_refresh, invoice_export, usage_report))
    return app
