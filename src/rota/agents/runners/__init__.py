"""Running an agent's program in isolation: process, bubblewrap, container."""

from rota.agents.runners.base import (
    AgentInput,
    Isolation,
    IsolationName,
    Limits,
    Order,
    Runner,
    RunnerResult,
    RunRequest,
    Seat,
)
from rota.agents.runners.bubblewrap import BubblewrapIsolation
from rota.agents.runners.choose import Chosen, Finding, choose_isolation
from rota.agents.runners.command import CommandRunner
from rota.agents.runners.container import ContainerIsolation
from rota.agents.runners.process import ProcessIsolation

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
    "Order",
    "ProcessIsolation",
    "RunRequest",
    "Runner",
    "RunnerResult",
    "Seat",
    "choose_isolation",
]
