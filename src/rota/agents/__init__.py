"""Scheduled agents: a prompt, a trigger, a group, and a run in isolation.

agents = install_agents(app, AgentSettings(groups_dir=Path("groups")))
"""

from __future__ import annotations

from rota.lazy import lazy

# Type checkers read the same names in `__init__.pyi`.
_HOMES = {
    "rota.agents.groups": (
        "ChannelSettings",
        "EVERYBODY",
        "Group",
        "Groups",
        "Switch",
    ),
    "rota.agents.isolation": ("Limits",),
    "rota.agents.notices": (
        "Channels",
        "NOTICE",
        "Notice",
    ),
    "rota.agents.part": (
        "AgentsPart",
        "agents_of",
        "install_agents",
    ),
    "rota.agents.policy": (
        "Caller",
        "Rules",
    ),
    "rota.agents.schedules.agent_task": (
        "AGENT",
        "AgentPayload",
    ),
    "rota.agents.schedules.schedule": ("AgentSchedule",),
    "rota.agents.service": ("Agents",),
    "rota.agents.settings": ("AgentSettings",),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
