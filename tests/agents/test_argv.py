"""Exactly what is started: every argument of every isolation, and nothing that a prompt or a name could add."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agents.isolation import (
    AgentInput,
    BubblewrapIsolation,
    ContainerIsolation,
    Limits,
    ProcessIsolation,
    RunEnvironment,
    choose_isolation,
)
from rota.agents.isolation.command import filled
from rota.agents.isolation.container import container_name
from rota.agents.settings import AgentSettings
from rota.errors import InvalidConfig, RunnerUnavailable

LIMITS = Limits(memory_bytes=1_000_000, processes=9, file_bytes=2_000, temporary_bytes=3_000, open_files=64)
ENVIRONMENT = RunEnvironment(
    folder=Path("/groups/family"), run_id="task-1-7", uid=1_900_000_001, timezone="Europe/Berlin"
)


@pytest.fixture(autouse=True)
def _everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    def which(name: str, *_args: object, **_named: object) -> str:
        return name if os.sep in name else f"/usr/bin/{name}"

    monkeypatch.setattr(shutil, "which", which)
    monkeypatch.setattr(os, "environ", {"PATH": "/usr/bin", "LANG": "C", "AWS_SECRET": "hunter2"})


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_has_every_limit(engine: str) -> None:
    isolation = ContainerIsolation(engine=engine, image="my-agent:1")  # pyright: ignore[reportArgumentType]
    spec = isolation.process_spec(("agent", "-p"), ENVIRONMENT, LIMITS)
    assert list(spec.argv) == [
        f"/usr/bin/{engine}",
        "run",
        "--rm",
        "-i",
        "--name",
        "rota-task-1-7",
        *("--memory", "1000000", "--cpus", "2"),
        *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--pids-limit", "9", "--memory-swap", "1000000"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,size=3000"),
        *("--ulimit", "fsize=2000:2000", "--ulimit", "nofile=64:64", "--ulimit", "nproc=9:9"),
        *("--ulimit", "core=0:0", "--pull", "never", "--log-driver", "none"),
        *("--user", "1900000001:1900000001"),
        *("--env", "HOME=/workspace/group", "--env", "TMPDIR=/tmp"),
        *("--env", "TZ=Europe/Berlin", "--env", "ROTA_RUN=task-1-7"),
        *("--volume", "/groups/family:/workspace/group:rw", "--workdir", "/workspace/group"),
        *("my-agent:1", "agent", "-p"),
    ]
    assert spec.cleanup == ((f"/usr/bin/{engine}", "rm", "--force", "rota-task-1-7"),)
    assert "hunter2" not in str(spec)


def test_the_engines_client_has_its_own_home_and_no_value_is_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the group's folder the agent could leave settings for it, which name programs to start as Rota."""
    own = {"HOME": "/home/rota", "PATH": "/usr/bin", "DOCKER_HOST": "unix:///d", "AWS_SECRET": "hunter2"}
    monkeypatch.setattr(os, "environ", own)
    environment = replace(ENVIRONMENT, variables={"MY_KEY": "s3cret", "HOME": "/groups/family", "LD_PRELOAD": "x.so"})
    spec = ContainerIsolation(engine="docker", image="a").process_spec(("agent",), environment, LIMITS)
    assert dict(spec.env) == {
        "HOME": "/home/rota",
        "PATH": "/usr/bin",
        "DOCKER_HOST": "unix:///d",
        "MY_KEY": "s3cret",
    }
    given_on = [spec.argv[at + 1] for at, word in enumerate(spec.argv) if word == "--env"]
    assert "MY_KEY" in given_on
    assert "LD_PRELOAD=x.so" in given_on
    assert "HOME=/workspace/group" in given_on
    assert "s3cret" not in str(spec.argv)


def test_a_folder_that_a_container_cannot_be_shown_is_said() -> None:
    with pytest.raises(RunnerUnavailable, match="has a ':'"):
        ContainerIsolation(engine="docker", image="a").process_spec(
            ("x",), replace(ENVIRONMENT, folder=Path("/a:b")), LIMITS
        )


def test_apples_engine_gets_what_it_knows() -> None:
    spec = ContainerIsolation(engine="container", image="my-agent").process_spec(("agent",), ENVIRONMENT, LIMITS)
    assert list(spec.argv[:10]) == [
        *("/usr/bin/container", "run", "--rm", "-i", "--name", "rota-task-1-7"),
        *("--memory", "1000000", "--cpus", "2"),
    ]
    assert "--cap-drop" not in spec.argv


def test_the_network_is_there_only_when_asked_for() -> None:
    environment = RunEnvironment(folder=Path("/groups/family"), run_id="r", has_network=True)
    argv = ContainerIsolation(engine="docker", image="a").process_spec(("x",), environment, LIMITS).argv
    assert argv[argv.index("--network") + 1] == "bridge"
    assert "--unshare-net" in BubblewrapIsolation().process_spec(("x",), ENVIRONMENT, LIMITS).argv
    assert "--unshare-net" not in BubblewrapIsolation().process_spec(("x",), environment, LIMITS).argv


def test_bubblewrap_shows_a_read_only_system_and_one_folder() -> None:
    spec = BubblewrapIsolation().process_spec(("/usr/bin/agent", "-p"), ENVIRONMENT, LIMITS)
    argv = list(spec.argv)
    end = argv.index("--")
    assert argv[end + 1 :] == [
        *("/usr/bin/setpriv", "--reuid=1900000001", "--regid=1900000001", "--clear-groups", "--inh-caps=-all", "--"),
        *("/usr/bin/prlimit", "--nproc=9:9", "/usr/bin/agent", "-p"),
    ]
    writable = [argv[at + 1] for at, word in enumerate(argv) if word in ("--bind", "--dev-bind", "--bind-try")]
    assert writable == ["/groups/family"]
    for word in ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-net"):
        assert word in argv[:end]
    assert argv[argv.index("--tmpfs") - 4 : argv.index("--tmpfs")] == ["--size", "3000", "--perms", "1777"]
    assert [argv[at - 1] for at, word in enumerate(argv) if word == "/etc"] == ["--dir"], "made empty, not shown"
    assert "/root" not in argv
    assert [argv[at - 1] for at, word in enumerate(argv) if word == "/"] == ["--remount-ro"]
    assert argv[argv.index("/dev/shm") - 5 : argv.index("/dev/shm")] == [
        *("--size", "3000", "--perms", "1777", "--tmpfs")
    ]


def test_without_root_the_sandbox_is_a_user_namespace() -> None:
    argv = (
        BubblewrapIsolation()
        .process_spec(("/usr/bin/agent",), RunEnvironment(folder=Path("/g"), run_id="r"), LIMITS)
        .argv
    )
    assert "--unshare-user" in argv
    assert "--cap-add" not in argv
    assert not any("setpriv" in word for word in argv)


def test_a_process_gets_its_limits_before_it_is_loaded() -> None:
    spec = ProcessIsolation().process_spec(("/usr/bin/agent", "-p"), ENVIRONMENT, LIMITS)
    assert spec.argv == ("/usr/bin/agent", "-p")
    assert spec.uid == ENVIRONMENT.uid
    assert dict(spec.limits) == {
        "RLIMIT_CORE": 0,
        "RLIMIT_DATA": 1_000_000,
        "RLIMIT_FSIZE": 2_000,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_CPU": 3_601,
        "RLIMIT_NPROC": 9,
    }
    assert "AWS_SECRET" not in spec.env


def agent_input(prompt: str = "hi", session: str | None = None) -> AgentInput:
    return AgentInput(prompt=prompt, session_id=session, group_folder="family", chat_jid="x")


def test_an_optional_part_of_the_command_is_left_out_without_its_value() -> None:
    template = ("agent", "-p", ("--resume", "{sessionId}"), "--group={groupFolder}")
    assert filled(template, agent_input()) == ("agent", "-p", "--group=family")
    assert filled(template, agent_input(session="s-1")) == ("agent", "-p", "--resume", "s-1", "--group=family")


def test_a_placeholder_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="sessionID"):
        filled(("agent", "{sessionID}"), agent_input())
    with pytest.raises(InvalidConfig, match="sessionID"):
        AgentSettings(command=("agent", ("--resume", "{sessionID}")))


@given(prompt=st.text(), session=st.text())
def test_neither_a_prompt_nor_a_session_adds_an_argument(prompt: str, session: str) -> None:
    command = filled(("agent", ("--resume", "{sessionId}"), "-p"), agent_input(prompt, session))
    assert len(command) in (2, 4)
    if len(command) == 4:
        assert command[2] == session
        assert not session.startswith("-")
        assert " " not in session


@given(st.text())
def test_a_containers_name_is_a_name_and_nothing_else(run_id: str) -> None:
    name = container_name(run_id)
    assert name.startswith("rota-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


@pytest.mark.parametrize("image", ["", "-v", "a b", "a;touch x", "--privileged", "$(id)"])
def test_an_image_that_is_no_name_is_refused(image: str) -> None:
    with pytest.raises(InvalidConfig, match=r"agents\.image"):
        ContainerIsolation(engine="docker", image=image)


def test_what_is_missing_is_said_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_named: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(RunnerUnavailable) as refused:
        choose_isolation(image="my-agent")
    assert "podman is not installed" in str(refused.value)
    assert "bwrap" in str(refused.value)
    for name in ("container", "bubblewrap"):
        with pytest.raises(RunnerUnavailable, match="not installed"):
            choose_isolation(require=name, image="my-agent")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RunnerUnavailable, match=r"no agents\.image is set"):
        choose_isolation(require="container")
    with pytest.raises(RunnerUnavailable, match="was not found"):
        ProcessIsolation().process_spec(("nothing-like-this",), ENVIRONMENT, LIMITS)
