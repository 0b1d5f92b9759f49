"""Who may use whom. `tests/layers` holds it, and the map in `architecture.md` is drawn from it."""

from __future__ import annotations

from typing import Final

__all__ = ["FACES", "LAYERS", "PARTS", "layer_of"]

PARTS: Final = ("events", "alerts", "batches", "agents", "memory")
FACES: Final = ("api", "cli", "dashboard", "demo", "integrations", "telemetry")

# Each layer may use those above it in this list, and its own. What a part adds to the faces lies in its `faces`, which
# is built on them: they know the protocol of a part, and no part.
LAYERS: Final[tuple[frozenset[str], ...]] = (
    frozenset({"errors"}),
    frozenset(
        {
            "call_timeout",
            "clock",
            "codec",
            "forking",
            "group_commit",
            "keys",
            "lazy",
            "logs",
            "masking",
            "printable",
            "private_files",
        }
    ),
    frozenset({"triggers"}),
    frozenset({"core"}),
    frozenset({"config"}),
    frozenset({"database"}),
    frozenset({"stores"}),
    frozenset({"access", "llm", "webhooks"}),
    frozenset({"runtime"}),
    frozenset({"part"}),
    frozenset({"events"}),
    frozenset(PARTS[1:]),
    frozenset({"app"}),
    frozenset({"seeds", *FACES}),
    frozenset({f"{part}.faces" for part in PARTS}),
    frozenset({"extend"}),
    frozenset({"testing"}),
)


def layer_of(module: str) -> str:
    """What of the list a module belongs to: its package, or the faces of its part."""
    _, package, *below = module.split(".")
    return f"{package}.faces" if package in PARTS and below[:1] == ["faces"] else package
