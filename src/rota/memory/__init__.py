"""Memory upkeep: capture what users say and see, compress it, clean it up, refresh and count it.

`install_memory(app)` brings it into an app; `Memory` is everything that can be done with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import lazy

if TYPE_CHECKING:
    from rota.memory.context import Context, Kind, NewContext, Owner, Scope, State
    from rota.memory.contexts import Contexts
    from rota.memory.embedding import Embedder, HashingEmbedder
    from rota.memory.handlers import (
        create_cleanup_handler,
        create_compression_handler,
        periodic_memory_compression_for_user,
    )
    from rota.memory.memory import Memory, MemorySettings
    from rota.memory.merging import Merged, Merger, RuleMerger
    from rota.memory.part import MemoryPart, install_memory, memory_of
    from rota.memory.pushes import ChatMessagePush, ChatPush, DocumentPush, Message, ScreenshotPush
    from rota.memory.types import MEMORY_TYPES

__all__ = [
    "MEMORY_TYPES",
    "ChatMessagePush",
    "ChatPush",
    "Context",
    "Contexts",
    "DocumentPush",
    "Embedder",
    "HashingEmbedder",
    "Kind",
    "Memory",
    "MemoryPart",
    "MemorySettings",
    "Merged",
    "Merger",
    "Message",
    "NewContext",
    "Owner",
    "RuleMerger",
    "Scope",
    "ScreenshotPush",
    "State",
    "create_cleanup_handler",
    "create_compression_handler",
    "install_memory",
    "memory_of",
    "periodic_memory_compression_for_user",
]

_HOMES = {
    "rota.memory.context": (
        "Context",
        "Kind",
        "NewContext",
        "Owner",
        "Scope",
        "State",
    ),
    "rota.memory.contexts": ("Contexts",),
    "rota.memory.embedding": (
        "Embedder",
        "HashingEmbedder",
    ),
    "rota.memory.handlers": (
        "create_cleanup_handler",
        "create_compression_handler",
        "periodic_memory_compression_for_user",
    ),
    "rota.memory.memory": (
        "Memory",
        "MemorySettings",
    ),
    "rota.memory.merging": (
        "Merged",
        "Merger",
        "RuleMerger",
    ),
    "rota.memory.part": (
        "MemoryPart",
        "install_memory",
        "memory_of",
    ),
    "rota.memory.pushes": (
        "ChatMessagePush",
        "ChatPush",
        "DocumentPush",
        "Message",
        "ScreenshotPush",
    ),
    "rota.memory.types": ("MEMORY_TYPES",),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
