"""The runtime: what claims, runs and settles tasks. One duty per file; `worker.py` puts them together."""

from rota.runtime.declare import declare
from rota.runtime.handler import Handler, HandlerFunction, make_handler
from rota.runtime.health import Health
from rota.runtime.run import Run
from rota.runtime.signals import Discard, Fail, Retry, Signal, Snooze
from rota.runtime.worker import Worker, WorkerSettings

__all__ = [
    "Discard",
    "Fail",
    "Handler",
    "HandlerFunction",
    "Health",
    "Retry",
    "Run",
    "Signal",
    "Snooze",
    "Worker",
    "WorkerSettings",
    "declare",
    "make_handler",
]
