"""Every queue has its turn in every round, on the same servers, emptied before each turn.

What disturbs the machine for a while so disturbs all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from bench.environments import ROOT, EnvironmentAbsent, node_program, python_of
from bench.queues import Queue, Server
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.servers import PostgresServer, postgres_server

__all__ = ["Servers", "Turn", "run_program", "servers", "take_turns"]

TURN_SECONDS: Final = 120.0
"""A queue that has not finished its turn by then is given up on for this turn."""


@dataclass(frozen=True)
class Turn:
    """What one queue did in one case of one round: its figures, what it cannot do, or why it failed."""

    queue: str
    case: str
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    failed: str = ""
    version: str = ""
    settings: str = ""
    recovery: str = ""
    tasks: int = 0
    """How many no-ops the queue is given in `work`."""


class Servers:
    """Running servers, which hand out an empty place for every turn."""

    def __init__(self, folder: Path, redis: RedisServer, postgres: PostgresServer | None) -> None:
        self.folder = folder
        self.redis = redis
        self._postgres = postgres
        self._numbers = count(1)

    @contextmanager
    def place(self, server: Server) -> Generator[str]:
        """The URL of an empty place on a server."""
        match server:
            case Server.MEMORY:
                yield "memory://"
            case Server.SQLITE:
                yield f"sqlite:///{self.folder}/place{next(self._numbers)}.db"
            case Server.POSTGRESQL:
                assert self._postgres is not None, "PostgreSQL was not started"
                with self._postgres.schema() as url:
                    yield url
            case Server.REDIS:
                self.redis.ask("FLUSHALL")
                yield self.redis.url
                self.redis.ask("FLUSHALL")


@contextmanager
def servers(queues: Sequence[Queue]) -> Generator[Servers]:
    """The servers that these queues need; the system's Redis where there is one, for streaq needs Redis 7."""
    system = shutil.which("redis-server")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = redis_server(folder / "redis", executable=None if system is None else Path(system))
        postgres = None
        if any(queue.server is Server.POSTGRESQL for queue in queues):
            postgres = stack.enter_context(postgres_server(folder / "postgres", durable=True))
        yield Servers(folder, stack.enter_context(redis), postgres)


def take_turns(queues: Sequence[Queue], rounds: Mapping[str, int], places: Servers) -> list[Turn]:
    """Every case in as many rounds as it has; within a round one queue after the other."""
    turns: list[Turn] = []
    for number in range(max(rounds.values())):
        for case in (case for case, many in rounds.items() if number < many):
            for queue in queues:
                if case in queue.cases:
                    print(f"round {number + 1}, {case}: {queue.name}", file=sys.stderr, flush=True)
                    turns.append(_turn(queue, case, places))
                    if turns[-1].failed:
                        print(f"  failed: {turns[-1].failed}", file=sys.stderr, flush=True)
    return turns


def _turn(queue: Queue, case: str, places: Servers) -> Turn:
    try:
        program = _program(queue)
    except EnvironmentAbsent as absent:
        return Turn(queue.name, case, failed=str(absent))
    with places.place(queue.server) as url:
        return _told(queue, case, [*program, case, url, str(queue.count(case))], places.folder)


def _program(queue: Queue) -> list[str]:
    if queue.environment == "node":
        return ["node", str(node_program(queue.module))]
    return [str(python_of(queue.environment)), "-m", queue.module]


def _told(queue: Queue, case: str, command: Sequence[str], folder: Path) -> Turn:
    """What the program says of its turn. It works in a folder that is removed, for it may leave files."""
    try:
        said = json.loads(run_program(command, folder).splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Turn(queue.name, case, failed=f"not done within {TURN_SECONDS:g} s")
    except subprocess.CalledProcessError as error:
        return Turn(queue.name, case, failed=_last_line(error.stderr))
    except (json.JSONDecodeError, IndexError):
        return Turn(queue.name, case, failed="said nothing that is a line of JSON")
    return Turn(queue.name, case, **said, tasks=queue.tasks)


def run_program(command: Sequence[str], folder: Path) -> str:
    """What a program prints. Whatever it has started itself is ended with it, so that nothing runs into other turns."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled, and so is what lies here
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, complained = process.communicate(timeout=TURN_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, said, complained)
    return said


def _last_line(said: str) -> str:
    """The last one that says something: the frame around a group of exceptions does not."""
    lines = [line.strip(" |") for line in said.splitlines() if any(map(str.isalpha, line))]
    return (lines or ["no message"])[-1][:160]
