"""Memory upkeep: capture what users say and see, compress it, clean it up, refresh and count it.

`install_memory(app)` brings it into an app; `Memory` is everything that can be done with it.
"""

from __future__ import annotations

from rota.lazy import lazy

# Type checkers read the same names in `__init__.pyi`.
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

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
