"""What the README shows works as it stands there."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rota.testing import until_blocking

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def run(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def programs() -> dict[str, str]:
    """The programs, by the file that their first line names."""
    return {block.partition("\n")[0].removeprefix("# "): block for block in blocks("python")}


def test_every_program_is_run_here() -> None:
    assert set(programs()) == {"assistant.py", "chat.py", "orders.py", "slogans.py"}


def test_the_application_answers(tmp_path: Path) -> None:
    client = (
        "from starlette.testclient import TestClient\n"
        "from chat import api\n"
        "with TestClient(api, base_url='http://localhost') as client:\n"
        "    print(client.post('/messages?user=ada').json(), client.get('/rota/healthz').status_code)\n"
    )
    (tmp_path / "chat.py").write_text(programs()["chat.py"])
    said = run([sys.executable, "-c", client], tmp_path)
    assert said.splitlines()[-1] == "{'upkeep': 'created'} 200"
    assert (tmp_path / "chat.token").stat().st_mode & 0o777 == 0o600


# --- all of it, in order -------------------------------------------------------------------------------------------


NOT_RUN_HERE = {
    "make demo": "tests/cli/test_cli_demo.py runs it: it takes 20 seconds",
    "make test": "this is a part of it",
    "pip install .": "the tests run on what is installed already, and no registry is asked by a test",
}
INSTEAD = {"make run": "rota up"}
"""`make` sets .venv up, which the tests have, and then starts just this."""
SAYS = {
    # Whoever runs it at nine in Shanghai hears "good morning" too, and counts that run.
    "python assistant.py": r"coalesced 9\n(.*\n)?compressing the memory of u1 on phone\n(.*\n)?[12] run\n",
    "python orders.py": r"(^|\n)billing 12\n",
}
"""What the programs promise in their comments."""
READY = {"rota up": "Rota is up: ", "rota worker": "worker started", "uvicorn": "Uvicorn running on"}
"""What goes on until it is stopped, and what it has said when others can begin."""
PATIENCE = 120.0


@dataclass
class Server:
    line: str
    process: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> None:
        """By Ctrl-C, as the page says."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=PATIENCE)
        # Uvicorn hands the signal on once it is done; whoever started it sees that it was interrupted.
        assert code in (0, 130, -signal.SIGINT), f"$ {self.line}\nexit code {code}\n{self.log.read_text()}"


class Reader:
    """Somebody who does what the page says, from its first line to its last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[Server] = []
        self._batch: str | None = None
        self.ran: list[str] = []
        # Whoever reads has one terminal of 80 columns, .venv at hand, and the usual ports free.
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ROTA_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "80",
            "ROTA_CALL_TIMEOUT": f"{PATIENCE:g}s",
            "ROTA_SERVER__PORT": str(free_port()),
            "UVICORN_PORT": str(free_port()),
        }

    def does(self, line: str) -> None:
        command = line.partition("  #")[0].rstrip()
        if any(command.startswith(one) for one in NOT_RUN_HERE):
            return
        command = INSTEAD.get(command, command).replace("show ID", f"show {self._batch}")
        self.ran.append(command)
        ready = next((said for name, said in READY.items() if command.startswith(name)), None)
        if ready is not None:
            self._starts(command, ready)
        else:
            self._runs(command)

    def _starts(self, command: str, ready: str) -> None:
        log = self._folder / f"{len(self.ran)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._servers.append(Server(command, process, log))

        def is_ready() -> bool:
            assert process.poll() is None, f"$ {command}\nexit code {process.poll()}\n{log.read_text()}"
            return ready in log.read_text()

        until_blocking(is_ready, f"it is there: {command}", seconds=PATIENCE)

    def _runs(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, f"$ {command}\n{done.stderr}"
        assert re.search(SAYS.get(command, ""), done.stdout), f"$ {command}\n{done.stdout}"
        if command.startswith("rota batch run"):
            self._batch = self._answer("rota batch ls --json")["items"][0]["id"]

    def _answer(self, command: str) -> Any:
        said = run(["/bin/sh", "-c", command], self._folder, self._environment)
        return json.loads(said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                for server in self._servers:
                    server.stop()
        finally:
            for server in self._servers:
                if server.process.poll() is None:
                    server.process.kill()
                    server.process.wait()


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def everything(text: str) -> Iterator[tuple[str, str]]:
    """The blocks of a part of the page, in order: a program, or the lines that are typed."""
    for language, block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            yield "program", block
        elif language == "sh":
            yield from (("line", line) for line in block.splitlines())
        elif not language:
            yield from (("line", line.strip()) for line in block.splitlines() if line.startswith("  .venv/bin/rota "))


def test_all_of_it_works_as_printed_in_order(tmp_path: Path) -> None:
    """Two folders, as the page has them: the one that was fetched, and one of one's own."""
    trying, using = README.read_text().split("\n## Use it\n")
    fetched, own = tmp_path / "rota", tmp_path / "own"
    for folder in (fetched, own):
        folder.mkdir()
    (fetched / ".venv").symlink_to(Path(sys.executable).parents[1])
    ran = [*_read(trying, fetched), *_read(using, own)]
    assert len(ran) >= 30
    assert len([line for line in ran if line.startswith(tuple(READY))]) == 5


def _read(text: str, folder: Path) -> list[str]:
    with Reader(folder) as reader:
        for kind, content in everything(text):
            if kind == "program":
                (folder / content.partition("\n")[0].removeprefix("# ")).write_text(content)
            else:
                reader.does(content)
        return reader.ran


def test_what_is_not_run_is_on_the_page() -> None:
    """An exemption that nobody needs any more would hide what comes after it."""
    printed = [line for kind, line in everything(README.read_text()) if kind == "line"]
    assert [one for one in (*NOT_RUN_HERE, *INSTEAD, *SAYS) if not any(line.startswith(one) for line in printed)] == []
