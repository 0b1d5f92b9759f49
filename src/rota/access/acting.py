"""Acting in somebody's name: a role is checked, the action is done, an entry goes to the audit log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from rota.access.audit import AuditLog, Note
from rota.access.principal import Principal, Role
from rota.database import Database
from rota.errors import NotAllowed

__all__ = ["Actor"]


class Actor:
    """Who acts, and the database that has the audit log. What can be done is a method of whoever inherits this."""

    def __init__(self, principal: Principal, database: Callable[[], Awaitable[Database]]) -> None:
        self.principal = principal
        self.database = database

    def need(self, role: Role, what: str) -> None:
        """Refuse `what` to whoever has a lesser role."""
        if not self.principal.role.allows(role):
            raise NotAllowed(f"A {self.principal.role} may not {what}; this needs the role {role}.")

    @asynccontextmanager
    async def recording(self, action: str, target: str) -> AsyncGenerator[Note]:
        """Put what the block does into the audit log, however it ends."""
        async with AuditLog(await self.database()).recording(self.principal, action, target) as note:
            yield note
