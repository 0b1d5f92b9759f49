"""`POST /api/push/...`: what a user said, saw or read is kept, and their upkeep is asked for.

The hot path of applications, like `POST /api/touch`: it leaves no entry in the audit log. The answer stands for what is
in the database by then. The scheduler hears of it in the background, through the spool while the store is away.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.routing import routes_for
from rota.memory import ChatMessagePush, ChatPush, DocumentPush, ScreenshotPush, memory_of
from rota.memory.pushes import MessageAnswer, PushAnswer

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.OPERATOR, tag="memory", prefix="/api/push")


@router.post("/chat", operation_id="push_chat", response_model=PushAnswer)
async def push_chat(service: Viewing, push: ChatPush) -> PushAnswer:
    """Messages of a conversation, 1 to 100."""
    return await memory_of(service.app).push(push)


@router.post("/chat/message", operation_id="push_chat_message", response_model=MessageAnswer)
async def push_chat_message(service: Viewing, push: ChatMessagePush) -> MessageAnswer:
    """One message of a conversation."""
    return await memory_of(service.app).push_message(push)


@router.post("/screenshot", operation_id="push_screenshot", response_model=PushAnswer)
async def push_screenshot(service: Viewing, push: ScreenshotPush) -> PushAnswer:
    """The text of a screenshot, and where it was taken."""
    return await memory_of(service.app).push(push)


@router.post("/document", operation_id="push_document", response_model=PushAnswer)
async def push_document(service: Viewing, push: DocumentPush) -> PushAnswer:
    """The text of a document."""
    return await memory_of(service.app).push(push)
