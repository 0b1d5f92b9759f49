"""What people do to a memory, with their name on it."""

from __future__ import annotations

from rota.access import Principal, Role
from rota.access.acting import Actor
from rota.memory.compression import Compressed
from rota.memory.context import Scope
from rota.memory.part import memory_of
from rota.part import HasHost

__all__ = ["MemoryOperator"]


class MemoryOperator(Actor):
    """Acts on the memory of a connected app in somebody's name."""

    def __init__(self, app: HasHost, principal: Principal) -> None:
        super().__init__(principal, app.host.database)
        self._app = app

    async def compress(self, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> Compressed:
        """Compress what has settled of a user's memory, here and now; of all their devices and agents, or of one."""
        self.need(Role.OPERATOR, "compress a memory")
        async with self.recording("memory.compress", user_id) as note:
            done = await memory_of(self._app).compress(Scope(user_id, device_id, agent_id))
            note.after = done.to_dict()
        return done
