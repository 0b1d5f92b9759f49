"""Capturing: a push becomes contexts, and the user's upkeep is asked for.

The answer stands for the contexts alone, which are in the database by then. That the scheduler hears of it is
`touches`' business, and nobody waits for it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Final, Literal

from rota.errors import InvalidInput
from rota.keys import UserKeyConfig
from rota.memory.compression import embedded
from rota.memory.context import NewContext, Owner
from rota.memory.contexts import Contexts
from rota.memory.embedding import Embedder
from rota.memory.pushes import (
    ChatMessagePush,
    ChatPush,
    DocumentPush,
    MessageAnswer,
    PushAnswer,
    PushData,
    ScreenshotPush,
)
from rota.memory.touches import Touches
from rota.memory.vectors import to_bytes

__all__ = ["ANONYMOUS", "Anonymous", "Capture"]

ANONYMOUS: Final = "default"
"""Whose a push without a user_id is."""
Anonymous = Literal["default", "reject"]
_RESERVED: Final = re.compile(r"__.*__", re.DOTALL)


class Capture:
    """Takes pushes for one database."""

    def __init__(
        self,
        contexts: Contexts,
        embedder: Embedder,
        touches: Touches,
        *,
        anonymous: Anonymous = "default",
        keys: UserKeyConfig | None = None,
    ) -> None:
        self._contexts = contexts
        self._embedder = embedder
        self._touches = touches
        self._anonymous: Anonymous = anonymous
        self._keys = keys or UserKeyConfig()

    async def push(self, push: ChatPush | ScreenshotPush | DocumentPush) -> PushAnswer:
        """Several messages, a screenshot or a document."""
        batch_id, ids = await self._take(self._owner_of(push), push.to_contexts())
        return PushAnswer(data=PushData(batch_id=batch_id, message_count=len(ids), context_ids=ids))

    async def push_message(self, push: ChatMessagePush) -> MessageAnswer:
        """One message, with the answer of /api/push/chat/message."""
        batch_id, ids = await self._take(self._owner_of(push), push.to_contexts())
        return MessageAnswer(batch_id=batch_id, context_id=ids[0])

    async def drain(self) -> None:
        """Wait until every touch is made."""
        await self._touches.drain()

    async def _take(self, owner: Owner, new: Sequence[NewContext]) -> tuple[str, list[int]]:
        batch_id = uuid.uuid4().hex
        # An embedder that takes its time must not take the sender's: compression embeds what is missing.
        is_instant = self._embedder.is_instant
        vectors = to_bytes(await embedded(self._embedder, [one.text for one in new])) if is_instant else []
        ids = await self._contexts.add(
            owner, new, batch_id=batch_id, embedder=self._embedder.name if vectors else None, embeddings=vectors
        )
        self._touches.note(owner)
        return batch_id, ids

    def _owner_of(self, push: ChatPush | ChatMessagePush | ScreenshotPush | DocumentPush) -> Owner:
        user_id = push.user_id
        if not user_id:
            if self._anonymous == "reject":
                raise InvalidInput(
                    "The push has no user_id, and memory.anonymous is 'reject'. Say whose memory this is."
                )
            user_id = ANONYMOUS
        # A missing id is what a task takes it for: else the upkeep would look for it elsewhere.
        device_id = push.device_id or self._keys.default_device_id
        owner = Owner(user_id, device_id, push.agent_id or self._keys.default_agent_id).check()
        for what, value in (("user_id", owner.user_id), ("device_id", owner.device_id), ("agent_id", owner.agent_id)):
            if _RESERVED.fullmatch(value):
                raise InvalidInput(f"The {what} {value!r} is reserved. Use one that is not between '__' and '__'.")
        return owner
