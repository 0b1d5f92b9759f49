"""Scheduled agents: a prompt, a trigger, a group, and a run in isolation.

agents = install_agents(app, AgentSettings(groups_dir=Path("groups")))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import lazy

if TYPE_CHECKING:
    from rota.agents.channels import NOTICE, Channels, Notice
    from rota.agents.groups import EVERYBODY, ChannelSettings, Group, Groups, Switch
    from rota.agents.guard import Caller, Rules
    from rota.agents.install import agents_of, install_agents
    from rota.agents.record import AGENT, AgentPayload, AgentSchedule
    from rota.agents.runners import Limits
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
    "rota.agents.channels": (
        "Channels",
        "NOTICE",
        "Notice",
    ),
    "rota.agents.groups": (
        "ChannelSettings",
        "EVERYBODY",
        "Group",
        "Groups",
        "Switch",
    ),
    "rota.agents.guard": (
        "Caller",
        "Rules",
    ),
    "rota.agents.install": (
        "agents_of",
        "install_agents",
    ),
    "rota.agents.record": (
        "AGENT",
        "AgentPayload",
        "AgentSchedule",
    ),
    "rota.agents.runners": ("Limits",),
    "rota.agents.service": ("Agents",),
    "rota.agents.settings": ("AgentSettings",),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
