"""The runner's protocol: what is heard, what is answered, progress on the way, and the default agent in a sandbox."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota import Rota
from rota.agents import AgentSettings, Caller, Limits, install_agents
from rota.agents.group_folders import uid_of
from rota.agents.isolation import (
    AgentInput,
    BubblewrapIsolation,
    CommandRunner,
    Isolation,
    ProcessIsolation,
    RunEnvironment,
    RunRequest,
)
from rota.agents.isolation.choose import Chosen
from rota.agents.isolation.command import AnswerReader, is_session_id
from rota.testing import FakeClock, until

# Nothing here needs as long, on however busy a machine.
LIMITS = Limits(wall_ms=120_000, grace_ms=300, linger_ms=120_000)
PROMPT = AgentInput(prompt="Tell me; $(touch x) `touch x` \"quoted\" 'so'\n€", group_folder="g", chat_jid="c")


def request_in(folder: Path, given_input: AgentInput = PROMPT) -> RunRequest:
    settings = AgentSettings()
    uid = uid_of(8_001, settings.uid_base)
    folder.mkdir(mode=0o700, exist_ok=True)
    if uid is not None:
        os.chown(folder, uid, uid)
    environment = RunEnvironment(
        folder=folder, run_id="r-1", uid=uid, timezone="Asia/Tokyo", read_only=settings.visible()
    )
    return RunRequest(environment=environment, input=given_input, limits=LIMITS)


async def test_the_default_agent_answers_in_the_sandbox_wherever_python_lies(
    bubblewrap: BubblewrapIsolation, groups_dir: Path
) -> None:
    runner = AgentSettings().runner(Chosen(bubblewrap, ()))
    heard: list[object] = []
    result = await runner.run(request_in(groups_dir / "g"), heard.append)
    assert (result.status, result.result) == ("success", PROMPT.prompt), result.error
    assert heard == ["Reading the prompt."]
    assert result.new_session_id is not None
    assert list((groups_dir / "g").iterdir()) == [], "no part of a prompt was run"


async def test_a_command_line_agent_hears_the_prompt_and_is_answered_in_text(
    isolation: Isolation, groups_dir: Path, python: str
) -> None:
    code = "import sys, time; print(time.tzname[0]); print(sys.stdin.read()[::-1])"
    runner = CommandRunner(isolation=isolation, command=(python, "-c", code), output_format="text", input_format="text")
    heard: list[object] = []
    result = await runner.run(request_in(groups_dir / "g"), heard.append)
    assert result.result == f"JST\n{PROMPT.prompt[::-1]}"
    assert heard[0] == "JST"
    with_data = msg(data={"new": 1})
    result = await runner.run(request_in(groups_dir / "g", with_data))
    assert '}1:"wen"{' in (result.result or "")


def msg(data: object) -> AgentInput:
    return AgentInput(prompt="p", group_folder="g", chat_jid="c", data=data)


@pytest.mark.parametrize(
    ("code", "status", "reason", "words"),
    [
        ('print(\'{"status": "error", "error": "no key"}\'); raise SystemExit(1)', "error", "error", "no key"),
        ('print(\'{"status": "error"}\')', "error", "error", "Unknown error"),
        ("print('nothing of use')", "error", "crashed", "without an answer"),
        ("raise SystemExit(3)", "error", "crashed", "exit code 3"),
        ('print(\'{"status": "success"}\'); raise SystemExit(3)', "error", "crashed", "answered, but ended"),
        ("import os; os.kill(os.getpid(), 9)", "error", "crashed", "ended"),
        ("import sys; sys.exit('HTTP 429: slow down')", "error", "rate_limited", "429"),
        ("import json; print(json.dumps({'status': 'success', 'result': {'a': 1}}, indent=2))", "success", None, None),
    ],
)
async def test_every_ending_is_an_answer(
    isolation: Isolation, groups_dir: Path, python: str, code: str, status: str, reason: str | None, words: str | None
) -> None:
    result = await CommandRunner(isolation=isolation, command=(python, "-c", code)).run(request_in(groups_dir / "g"))
    assert (result.status, result.reason) == (status, reason)
    assert words is None or words in (result.error or "")
    assert status == "error" or result.result == '{"a":1}'


async def test_an_agent_does_not_outlive_the_process_that_watches_over_it(groups_dir: Path, python: str) -> None:
    """Of the same user, as a plain process without root is: it can end its supervisor, and ends with it."""
    code = (
        "import os, signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "open('pid', 'w').write(str(os.getpid()))\nos.kill(os.getppid(), 9)\ntime.sleep(300)"
    )
    request = request_in(groups_dir / "g")
    alone = replace(request, environment=replace(request.environment, uid=None))
    result = await CommandRunner(isolation=ProcessIsolation(), command=(python, "-c", code)).run(alone)
    assert (result.status, result.reason) == ("error", "crashed")
    assert "watches over the agent was killed" in (result.error or "")
    pid = (groups_dir / "g" / "pid").read_text()
    await until(lambda: not _is_alive(pid), "the agent has ended with its supervisor")


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_program_that_cannot_be_started_says_so(groups_dir: Path, isolation: Isolation) -> None:
    program = groups_dir / "broken"
    program.write_bytes(b"\x7fELF but not really")
    program.chmod(0o755)
    request = request_in(groups_dir / "g")
    environment = replace(request.environment, read_only=(program,))
    result = await CommandRunner(isolation=isolation, command=(str(program),)).run(
        replace(request, environment=environment)
    )
    assert (result.status, result.reason) == ("error", "crashed")
    assert "broken" in (result.error or "") or "xec" in (result.error or "")


async def test_a_scheduled_agent_with_a_gate_in_the_sandbox(
    bubblewrap: BubblewrapIsolation, app: Rota, clock: FakeClock, groups_dir: Path
) -> None:
    agents = install_agents(app, AgentSettings(groups_dir=groups_dir, isolation=bubblewrap.name, limits=LIMITS))
    ann = Caller.person("ann")
    async with app:
        await (await agents.groups()).add("family")
        made = await agents.schedule_task(
            ann,
            group="family",
            prompt="look",
            schedule_type="interval",
            schedule_value="1h",
            script='ls /home /root 2>/dev/null; echo \'{"wakeAgent": true, "data": "\'$PWD\'"}\'',
        )
        clock.advance("1h")
        await app.run_until_idle()
        (row,) = (await agents.task_history(ann, made.id)).items
        assert (row["status"], row["result"]) == ("success", f'look\n"{groups_dir / "family"}"'), row["error"]


@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"{}", b'{"status":1}', b'{"progress":1}']))))
def test_no_output_breaks_the_reader_and_only_an_answer_is_one(lines: list[bytes]) -> None:
    heard: list[object] = []
    reader = AnswerReader("json", heard.append)
    for line in lines:
        reader.read(line)
    assert reader.answer() is None
    assert len(heard) == lines.count(b'{"progress":1}')
    reader.read(b' {"status":"success","result":"x","newSessionId":"s"} ')
    answer = reader.answer()
    assert answer is not None
    assert (answer.result, answer.new_session_id) == ("x", "s")


def test_many_empty_lines_take_no_more_room_than_their_bytes() -> None:
    reader = AnswerReader("json")
    tracemalloc.start()
    try:
        for _ in range(200_000):
            reader.read(b"")
        assert reader.answer() is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


async def test_a_program_goes_by_the_name_that_it_was_called_by(
    isolation: Isolation, groups_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python of a virtual environment is a link, and so are programs of many names."""
    shell = shutil.which("sh") or "/bin/sh"
    (groups_dir / "my-agent").symlink_to(shell)
    monkeypatch.setenv("PATH", f"{groups_dir}:/usr/bin:/bin")
    command = ("my-agent", "-c", 'echo "{\\"status\\": \\"success\\", \\"result\\": \\"$0\\"}"')
    result = await CommandRunner(isolation=isolation, command=command).run(request_in(groups_dir / "g"))
    assert result.result == str(groups_dir / "my-agent"), result.error


async def test_an_agent_that_does_not_listen_is_no_trouble(isolation: Isolation, groups_dir: Path, python: str) -> None:
    """It closes its input, or never reads it, although there is more than a pipe holds."""
    long = msg(data=["x" * 1_000] * 1_000)
    for code in ("import os; os.close(0)", "pass"):
        command = (python, "-c", code + '\nimport time; time.sleep(0.1)\nprint(\'{"status": "success"}\')')
        result = await CommandRunner(isolation=isolation, command=command).run(request_in(groups_dir / "g", long))
        assert result.status == "success", result.error


@pytest.mark.parametrize("depth", [900, 2_000, 200_000])
async def test_an_answer_that_is_nested_without_end_is_an_answer_or_none(
    isolation: Isolation, groups_dir: Path, python: str, depth: int
) -> None:
    code = f"print('{{\"status\": \"success\", \"result\": ' + '[' * {depth} + ']' * {depth} + '}}')"
    result = await CommandRunner(isolation=isolation, command=(python, "-c", code)).run(request_in(groups_dir / "g"))
    assert result.status in ("success", "error")


def test_the_last_answer_counts() -> None:
    reader = AnswerReader("json")
    for line in (b"hello", b'{"status":"error","error":"a"}', b'{"status":"success","result":"b"}', b"bye"):
        reader.read(line)
    answer = reader.answer()
    assert answer is not None
    assert answer.result == "b"


@pytest.mark.parametrize("text", ["", "-x", "--resume", "a b", "a\nb", "x" * 201, "$(id)", "../x"])
def test_a_session_that_could_be_an_option_is_none(text: str) -> None:
    assert not is_session_id(text)


UNPRIVILEGED = """
import asyncio, json, sys
from pathlib import Path
from rota.agents.isolation import *
folder, program, code = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
async def main():
    found = {}
    for isolation in (ProcessIsolation(), choose_isolation(require="bubblewrap").isolation):
        runner = CommandRunner(isolation=isolation, command=(program, "-c", code))
        result = await runner.run(RunRequest(
            environment=RunEnvironment(folder=folder, run_id="r"),
            input=AgentInput(prompt="p", group_folder="g", chat_jid="c"),
            limits=Limits(wall_ms=60_000, processes=25)))
        found[isolation.name] = [result.result, result.error]
    runner = CommandRunner(isolation=isolation, command=(program, "-c", sys.argv[4]), disk_look_every=0.05)
    result = await runner.run(RunRequest(
        environment=RunEnvironment(folder=folder, run_id="r"),
            input=AgentInput(prompt="p", group_folder="g", chat_jid="c")))
    found["writable"] = result.result
    result = await CommandRunner(isolation=isolation, command=(program, "-c", sys.argv[5]), disk_look_every=0.05).run(
        RunRequest(environment=RunEnvironment(folder=folder, run_id="r"),
                   input=AgentInput(prompt="p", group_folder="g", chat_jid="c")))
    found["hidden"] = result.reason
    print(json.dumps(found))
asyncio.run(main())
"""
WRITING = """
import json, os
found = []
for place in ("/", "/etc", "/dev", "/proc", "/usr", "/srv", "/tmp", "/dev/shm", os.getcwd()):
    try:
        open(place + "/planted", "w").close()
        found.append(place)
    except OSError:
        pass
print(json.dumps({"status": "success", "result": found}))
"""
HIDING = "import os, time; os.mkdir('closed', 0); time.sleep(300)"
COUNTING = """
import json, os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except OSError:
    pass
print(json.dumps({"status": "success", "result": count}), flush=True)
"""


def test_an_ordinary_user_has_the_same_limits(bubblewrap: BubblewrapIsolation, groups_dir: Path) -> None:
    """For root the rest of this folder is tested with users of the groups' own; here Rota itself is somebody else."""
    assert bubblewrap.name == "bubblewrap"
    program = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    about = subprocess.run([program, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    if os.geteuid() != 0 or about.stdout.strip() != str(sys.version_info[:2]):
        pytest.skip("Needs root, to become somebody else, and a python3 of this version that they may run.")
    packages = [str(Path(rota.__file__).parent.parent), *(path for path in sys.path if "site-packages" in path)]
    folder = groups_dir / "g"
    folder.mkdir(mode=0o700)
    # Of this test alone: the kernel counts a user's processes, whoever has started them.
    user = 1_800_000_000 + os.getpid()
    os.chown(folder, user, user)
    done = subprocess.run(
        [program, "-B", "-c", UNPRIVILEGED, str(folder), program, COUNTING, WRITING, HIDING],
        env={"PYTHONPATH": ":".join(packages), "PATH": "/usr/bin:/bin"},
        user=user,
        group=user,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 10 <= int(found["process"][0]) <= 25
    assert 10 <= int(found["bubblewrap"][0]) <= 25
    assert json.loads(found["writable"]) == ["/tmp", "/dev/shm", str(folder)], "the two in the middle have a limit"
    assert found["hidden"] == "disk", "what is closed to Rota may hide anything"
