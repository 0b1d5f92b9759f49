"""What agents are called elsewhere: the part, and the task types that it brings."""

from __future__ import annotations

from typing import Final

__all__ = ["AGENT", "AGENTS", "NOTICE"]

AGENTS: Final = "agents"
AGENT: Final = "agent"
"""The task type of every scheduled agent."""
NOTICE: Final = "agent_notice"
"""The task type of notices that are on their way to a webhook."""
