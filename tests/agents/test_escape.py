"""Agents that misbehave, for real: they are contained, cleaned up, and nobody else is late for it.

Small limits keep the tests safe for the machine that they run on. The number of processes is bounded by RLIMIT_NPROC,
which does not bind root: when the tests run as root, the agents run as a user of their group's own.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.agents.group_folders import uid_of
from rota.agents.isolation import (
    AgentInput,
    CommandRunner,
    Isolation,
    Limits,
    RunEnvironment,
    RunnerResult,
    RunRequest,
)
from rota.agents.isolation.process import MARKER
from rota.testing.waiting import until

SMALL = Limits(
    wall_ms=60_000,  # nothing here needs as long, on however busy a machine
    grace_ms=300,
    linger_ms=60_000,
    output_bytes=200_000,
    memory_bytes=256 * 1_048_576,
    processes=40,
    file_bytes=1_048_576,
    disk_bytes=5 * 1_048_576,
    temporary_bytes=4 * 1_048_576,
)
ANSWER = "import json; print(json.dumps({'status': 'success', 'result': %s}), flush=True)"


class Cell:
    """One group's folder and the way to run a line of Python in it."""

    def __init__(self, isolation: Isolation, python: str, folder: Path, uid: int | None) -> None:
        self.isolation = isolation
        self.python = python
        self.folder = folder
        self.uid = uid
        self.run_id = f"escape-{os.getpid()}-{time.monotonic_ns()}"

    async def until(self, name: str) -> None:
        """Wait until the agent has made a file of this name."""
        await until((self.folder / name).exists)

    async def run(self, code: str, limits: Limits = SMALL, *, has_network: bool = False) -> RunnerResult:
        runner = CommandRunner(isolation=self.isolation, command=(self.python, "-c", code), disk_look_every=0.05)
        environment = RunEnvironment(folder=self.folder, run_id=self.run_id, uid=self.uid, has_network=has_network)
        given = AgentInput(prompt="misbehave", group_folder=self.folder.name, chat_jid="x")
        return await runner.run(RunRequest(environment=environment, input=given, limits=limits))

    def alive(self) -> list[str]:
        """The processes that still carry this run's name in their environment, or belong to its user."""
        found: list[str] = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                is_marked = f"{MARKER}={self.run_id}".encode() in (path / "environ").read_bytes().split(b"\0")
                is_users = self.uid is not None and path.stat().st_uid == self.uid
                # A first thread that has ended looks like a zombie while the others live on.
                state = (path / "stat").read_bytes().rpartition(b")")[2].split()[0]
                is_zombie = state == b"Z" and len(list((path / "task").iterdir())) == 1
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if (is_marked or is_users) and not is_zombie:
                found.append(command)
        return found


@pytest.fixture
def new_cell(isolation: Isolation, python: str, groups_dir: Path) -> Callable[[str], Cell]:
    numbers = iter(range(1, 100))

    def make(name: str) -> Cell:
        folder = groups_dir / name
        folder.mkdir(mode=0o700)
        # Of this process alone, and far from the few numbers that groups in other tests have: users are counted here.
        uid = uid_of(100_000 + os.getpid() % 50_000 * 10 + next(numbers))
        if uid is not None:
            os.chown(folder, uid, uid)
        return Cell(isolation, python, folder, uid)

    return make


@pytest.fixture
def cell(new_cell: Callable[[str], Cell]) -> Cell:
    return new_cell("hostile")


BOMB = (
    "import os, time\nwhile True:\n    try:\n        os.fork()\n"
    "    except OSError:\n        open('bang', 'a').close()\n        time.sleep(0.01)"
)


async def test_a_fork_bomb_ends(cell: Cell) -> None:
    bombed = await cell.run(BOMB, Limits(wall_ms=1_500, grace_ms=200, processes=40))
    assert (bombed.status, bombed.reason) == ("error", "timeout")
    assert cell.alive() == []


async def test_another_group_runs_while_a_fork_bomb_goes_off(new_cell: Callable[[str], Cell]) -> None:
    hostile, other = new_cell("hostile"), new_cell("other")
    if hostile.uid is None and hostile.isolation.name == "process":
        pytest.skip("Without root, a plain process shares its user's number of processes with everybody: bubblewrap.")
    bombing = asyncio.create_task(hostile.run(BOMB, Limits(wall_ms=600_000, grace_ms=200, processes=40)))
    await hostile.until("bang")
    result = await other.run("import os; os.waitpid(os.fork() or os._exit(0), 0)\n" + ANSWER % "'on time'")
    assert (result.status, result.result) == ("success", "on time")
    assert not bombing.done(), "it did not have to wait for its end"
    bombing.cancel()
    await asyncio.wait({bombing})
    assert hostile.alive() == []


@pytest.mark.parametrize("said", ["b'x' * 10_000 + b'\\n'", "b'x' * 10_000", "os.urandom(10_000)", "b'\\n' * 10_000"])
async def test_endless_output_is_cut_off(cell: Cell, said: str) -> None:
    result = await cell.run(f"import os\nwhile True: os.write(1, {said})")
    assert (result.status, result.reason) == ("error", "output"), "and not only when its time was up"
    assert cell.alive() == []


async def test_endless_errors_are_cut_off_too(cell: Cell) -> None:
    result = await cell.run("import sys\nwhile True: sys.stderr.write('x' * 10_000)")
    assert (result.status, result.reason) == ("error", "output")


async def test_a_file_of_ten_gigabytes_stops_at_the_limit(cell: Cell) -> None:
    result = await cell.run(
        "with open('big', 'wb') as file:\n    for _ in range(10_240): file.write(b'x' * 1_048_576)\n" + ANSWER % "1"
    )
    assert (result.status, result.reason) == ("error", "crashed")
    assert (cell.folder / "big").stat().st_size <= SMALL.file_bytes


async def test_a_file_that_only_claims_ten_gigabytes_is_refused(cell: Cell) -> None:
    result = await cell.run("open('sparse', 'wb').truncate(10 * 2**30)\n" + ANSWER % "1")
    assert (result.status, result.reason) == ("error", "crashed")
    assert (cell.folder / "sparse").stat().st_size == 0


async def test_folders_too_deep_to_be_looked_into_end_the_run(cell: Cell) -> None:
    code = "import os, time\nfor _ in range(60):\n    os.mkdir('d' * 100)\n    os.chdir('d' * 100)\ntime.sleep(300)"
    result = await cell.run(code)
    assert (result.status, result.reason) == ("error", "disk")


async def test_ten_gigabytes_in_many_files_stop_at_the_limit_of_the_folder(cell: Cell) -> None:
    code = (
        "import time\nfor n in range(10_240):\n"
        "    open('part%d' % n, 'wb').write(b'x' * 1_000_000)\n    time.sleep(0.05)\n" + ANSWER % "1"
    )
    result = await cell.run(code)
    assert (result.status, result.reason) == ("error", "disk")
    used = sum(path.stat().st_size for path in cell.folder.iterdir())
    assert used < 1_000_000_000, "it was ended long before, on however busy a machine"
    assert cell.alive() == []


async def test_memory_ends_at_the_limit(cell: Cell) -> None:
    result = await cell.run("x = bytearray(1_000 * 1_048_576)\n" + ANSWER % "len(x)")
    assert (result.status, "MemoryError" in (result.error or "")) == ("error", True)


async def test_what_lies_outside_the_folder_cannot_be_read(cell: Cell, tmp_path: Path) -> None:
    if cell.uid is None and cell.isolation.name == "process":
        pytest.skip("Without root, a plain process reads what its user may read: the docs say so. Use bubblewrap.")
    secret = tmp_path / "id_ed25519"
    secret.write_text("the key")
    secret.chmod(0o600)
    other = cell.folder.parent / "neighbour"
    other.mkdir(mode=0o700)
    (other / "note").write_text("private")
    for path in (secret, other / "note", Path("/etc/shadow")):
        result = await cell.run(f"open({str(path)!r}).read()\n" + ANSWER % "'read'")
        assert result.status == "error"
        assert "PermissionError" in (result.error or "") or "FileNotFoundError" in (result.error or "")
    for path in (tmp_path / "planted", Path("/usr/planted"), Path("/etc/planted")):
        result = await cell.run(f"open({str(path)!r}, 'w').write('x')\n" + ANSWER % "'written'")
        assert result.status == "error"
        assert not path.exists()


async def test_a_sandbox_shows_neither_the_home_nor_other_processes(cell: Cell) -> None:
    if cell.isolation.name == "process":
        pytest.skip("A plain process hides nothing: that is what a sandbox is for.")
    seen = "[sorted(os.listdir('/')), [p for p in os.listdir('/proc') if p.isdigit()], os.listdir('/dev')]"
    result = await cell.run("import os\n" + ANSWER % seen)
    assert result.result is not None
    root, processes, devices = json.loads(result.result)
    assert "root" not in root
    assert "home" not in root
    assert len(processes) <= 4
    assert "sda" not in devices
    assert "vda" not in devices


DAEMONS = {
    "leaves its session": "os.environ.clear()\n        os.execv('/bin/sleep', ['sleep', '300'])",
    "has a name that is no text": "ctypes.CDLL(None).prctl(15, b'\\xff\\xfe')\n        time.sleep(300)",
    "looks like a zombie": (
        "threading.Thread(target=time.sleep, args=(300,)).start()\n        ctypes.CDLL(None).pthread_exit(None)"
    ),
    "closes everything": "os.closerange(0, 100)\n        time.sleep(300)",
    "adopts its own": (
        "ctypes.CDLL(None).prctl(36, 1)\n        os.fork() or os.fork() or os.setsid()\n        time.sleep(300)"
    ),
}


@pytest.mark.parametrize("daemon", DAEMONS.values(), ids=DAEMONS.keys())
async def test_a_daemon_is_ended_whatever_it_does(cell: Cell, daemon: str) -> None:
    code = (
        "import ctypes, os, threading, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        open('born', 'w').close()\n        {daemon}\n    os._exit(0)\n"
        "os.wait()\nwhile not os.path.exists('born'): time.sleep(0.01)\n" + ANSWER % "'gone'"
    )
    result = await cell.run(code)
    assert (result.status, result.result) == ("success", "gone"), "nobody waits for one that holds the output open"
    # A sandbox has process ids of its own: the kernel may have ended everything in it before anybody counts.
    assert result.left_behind >= (1 if cell.isolation.name == "process" else 0)
    assert cell.alive() == []


async def test_an_agent_whose_first_thread_has_ended_is_ended_when_its_time_is_up(cell: Cell) -> None:
    code = (
        "import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(300,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    result = await cell.run(code, Limits(wall_ms=1_000, grace_ms=200))
    assert (result.status, result.reason) == ("error", "timeout")
    assert cell.alive() == []


async def test_an_agent_that_stays_after_its_answer_holds_nobody_up(cell: Cell) -> None:
    code = ANSWER % "'done'" + "\nimport time; time.sleep(300)"
    result = await cell.run(code, Limits(wall_ms=600_000, grace_ms=200, linger_ms=100))
    assert (result.status, result.result) == ("success", "done"), "its answer counts"
    assert cell.alive() == []


async def test_an_agent_whose_time_is_up_is_ended(cell: Cell) -> None:
    result = await cell.run("import time; time.sleep(300)", Limits(wall_ms=500, grace_ms=200))
    assert (result.status, result.reason) == ("error", "timeout")
    assert cell.alive() == []


async def cancelled(cell: Cell, code: str, limits: Limits = SMALL) -> None:
    """Run until the agent says that it is ready, then cancel the run."""
    running = asyncio.create_task(cell.run(code + "\nopen('ready', 'w').close()\ntime.sleep(300)", limits))
    await cell.until("ready")
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()


async def test_ignoring_the_request_to_end_does_not_help(cell: Cell) -> None:
    code = "import signal, time\nfor n in (1, 2, 3, 15, 18): signal.signal(n, signal.SIG_IGN)"
    await cancelled(cell, code)
    assert cell.alive() == []


async def test_a_request_to_end_is_heard_first(cell: Cell) -> None:
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n    open('ended', 'w').write('politely')\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)"
    )
    await cancelled(cell, code, Limits(wall_ms=600_000, grace_ms=60_000))
    assert (cell.folder / "ended").read_text() == "politely"


async def test_nobody_is_ended_before_the_time_that_it_has_to_end_in(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.agents.isolation.supervised_process.PATIENCE", 0.1)
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n    time.sleep(3)\n    open('ended', 'w').close()\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)"
    )
    await cancelled(cell, code, Limits(wall_ms=600_000, grace_ms=60_000))
    assert (cell.folder / "ended").exists()


async def test_cancelling_the_run_ends_the_agent(cell: Cell) -> None:
    await cancelled(cell, "import time")
    assert cell.alive() == []


async def test_it_inherits_nothing_but_its_three_pipes(cell: Cell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        os.set_inheritable(server.fileno(), True)
        # The fourth is the folder that is being listed.
        result = await cell.run("import os\n" + ANSWER % "sorted(os.listdir('/proc/self/fd'))")
    assert result.result == '["0","1","2","3"]'


async def test_there_is_no_network_unless_asked_for(cell: Cell) -> None:
    if cell.isolation.name == "process":
        pytest.skip("A plain process has the machine's network: that is what a sandbox is for.")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 30)\n" + ANSWER % "'connected'"
        assert (await cell.run(code)).status == "error"
        assert (await cell.run(code, has_network=True)).result == "connected"


async def test_the_environment_holds_nothing_of_rotas_own(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    result = await cell.run("import os\n" + ANSWER % "dict(os.environ)")
    assert result.result is not None
    seen = json.loads(result.result)
    assert "hunter2" not in str(seen)
    assert set(seen) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "TMPDIR", "TZ", MARKER, "PWD"}
    assert (seen["HOME"], seen["TZ"]) == (str(cell.folder), "UTC")


async def test_it_gains_no_privileges_and_leads_its_own_session(cell: Cell) -> None:
    code = (
        "import os\nstatus = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines())\n"
        + ANSWER % "[status['NoNewPrivs'], status['CapEff'], os.getuid(), os.getcwd(), os.getsid(0) != 0]"
    )
    result = await cell.run(code)
    assert result.result is not None
    no_new, capabilities, uid, cwd, _ = json.loads(result.result)
    assert (no_new, int(capabilities, 16), cwd) == ("1", 0, str(cell.folder))
    assert uid != 0
