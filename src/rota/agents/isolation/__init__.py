"""Running an agent's program in isolation: process, bubblewrap, container."""

from rota.agents.isolation.base import (
    AgentInput,
    Isolation,
    IsolationName,
    Limits,
    ProcessSpec,
    RunEnvironment,
    Runner,
    RunnerResult,
    RunRequest,
)
from rota.agents.isolation.bubblewrap import BubblewrapIsolation
from rota.agents.isolation.choose import Chosen, Finding, choose_isolation
from rota.agents.isolation.command import CommandRunner
from rota.agents.isolation.container import ContainerIsolation
from rota.agents.isolation.process import ProcessIsolation

__all__ = [
    "AgentInput",
    "BubblewrapIsolation",
    "Chosen",
    "CommandRunner",
    "ContainerIsolation",
    "Finding",
    "Isolation",
    "IsolationName",
    "Limits",
    "ProcessIsolation",
    "ProcessSpec",
    "RunEnvironment",
    "RunRequest",
    "Runner",
    "RunnerResult",
    "choose_isolation",
]
