"""Scheduled agents: a prompt, a trigger, a group, and a run in isolation.

agents = install_agents(app, AgentSettings(groups_dir=Path("groups")))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import lazy

if TYPE_CHECKING:
    from rota.agents.groups import EVERYBODY, ChannelSettings, Group, Groups, Switch
    from rota.agents.isolation import Limits
    from rota.agents.notices import NOTICE, Channels, Notice
    from rota.agents.part import AgentsPart, agents_of, install_agents
    from rota.agents.policy import Caller, Rules
    from rota.agents.schedules.agent_task import AGENT, AgentPayload
    from rota.agents.schedules.schedule import AgentSchedule
    from rota.agents.service import Agents
    from rota.agents.settings import AgentSettings

__all__ = [
    "AGENT",
    "EVERYBODY",
    "NOTICE",
    "AgentPayload",
    "AgentSchedule",
    "AgentSettings",
    "Agents",
    "AgentsPart",
    "Caller",
    "ChannelSettings",
    "Channels",
    "Group",
    "Groups",
    "Limits",
    "Notice",
    "Rules",
    "Switch",
    "agents_of",
    "install_agents",
]

_HOMES = {
    "rota.agents.groups": (
        "EVERYBODY",
        "ChannelSettings",
        "Group",
        "Groups",
        "Switch",
    ),
    "rota.agents.isolation": ("Limits",),
    "rota.agents.notices": (
        "NOTICE",
        "Channels",
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

__getattr__, __dir__ = lazy(__name__, _HOMES)
