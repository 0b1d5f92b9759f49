"""A real container, where an engine can run one: an image of one static program, made here and removed again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from rota.agents.group_folders import uid_of
from rota.agents.isolation import (
    AgentInput,
    CommandRunner,
    ContainerIsolation,
    Limits,
    RunEnvironment,
    RunRequest,
    choose_isolation,
)
from rota.agents.isolation.container import container_name
from rota.errors import RunnerUnavailable

ANSWER = """'{"status": "success", "result": "done"}'"""
SMALL = Limits(
    wall_ms=120_000,  # nothing here needs as long, on however busy a machine
    grace_ms=500,
    output_bytes=200_000,
    memory_bytes=64 * 1_048_576,
    processes=20,
    file_bytes=1_048_576,
)


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Generator[ContainerIsolation]:
    busybox = shutil.which("busybox")
    if shutil.which("podman") is None or busybox is None:
        pytest.skip("No podman or no static busybox here: the exact argv is checked in test_argv.py instead.")
    tar = tmp_path_factory.mktemp("image") / "root.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(busybox, "bin/busybox")
        for folder in ("tmp", "proc", "sys", "dev", "etc", "workspace/group"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
    image = f"rota-test-{os.getpid()}"
    made = run("podman", "import", str(tar), image)
    if made.returncode != 0:
        pytest.skip(f"podman cannot make an image here: {made.stderr.strip()[-200:]}")
    try:
        yield _working(image)
    finally:
        run("podman", "rmi", "--force", image)


def _working(image: str) -> ContainerIsolation:
    reason = ""
    for options in ((), ("--runtime", "/usr/sbin/runc")):
        limits = ("--ulimit", "nofile=64:64", "--ulimit", "nproc=64:64", "--network", "none")
        tried = run("podman", *options, "run", "--rm", *limits, image, "/bin/busybox", "true")
        if tried.returncode == 0:
            return ContainerIsolation(engine="podman", image=image, options=options)
        reason = tried.stderr.strip()[-200:]
    pytest.skip(f"podman cannot run a container here: {reason}")


def request_for(folder: Path, limits: Limits = SMALL) -> RunRequest:
    folder.mkdir(mode=0o700, exist_ok=True)
    # Of this process alone: what is left of a run is found by its user.
    uid = uid_of(1_000_000 + os.getpid() % 500_000)
    if uid is not None:
        os.chown(folder, uid, uid)
    environment = RunEnvironment(folder=folder, run_id=f"container-{os.getpid()}-{time.monotonic_ns()}", uid=uid)
    return RunRequest(
        environment=environment, input=AgentInput(prompt="x", group_folder="g", chat_jid="x"), limits=limits
    )


def shell(container: ContainerIsolation, script: str) -> CommandRunner:
    return CommandRunner(isolation=container, command=("/bin/busybox", "sh", "-c", script))


async def test_an_agent_answers_from_a_container(container: ContainerIsolation, groups_dir: Path) -> None:
    script = f"""/bin/busybox cat > seen; /bin/busybox echo {ANSWER}"""
    result = await shell(container, script).run(request_for(groups_dir / "g"))
    assert (result.status, result.result) == ("success", "done"), result.error
    assert '"prompt":"x"' in (groups_dir / "g" / "seen").read_text()


async def test_a_container_writes_only_to_its_folder_and_to_nobody(
    container: ContainerIsolation, groups_dir: Path
) -> None:
    script = (
        "/bin/busybox touch /planted || touch_failed=1; "
        "/bin/busybox ls /sys/class/net > net; "
        f'[ "$touch_failed" = 1 ] && /bin/busybox echo {ANSWER}'
    )
    result = await shell(container, script).run(request_for(groups_dir / "g"))
    assert result.status == "success", result.error
    assert (groups_dir / "g" / "net").read_text().split() == ["lo"]


async def test_what_is_configured_reaches_the_agent_and_nothing_else_does(
    container: ContainerIsolation, groups_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET", "hunter2")
    request = request_for(groups_dir / "g")
    environment = replace(request.environment, variables={"MY_KEY": "s3cret"})
    result = await shell(container, f"/bin/busybox env > env; /bin/busybox echo {ANSWER}").run(
        replace(request, environment=environment)
    )
    assert result.status == "success", result.error
    seen = (groups_dir / "g" / "env").read_text()
    assert "MY_KEY=s3cret" in seen
    assert "HOME=/workspace/group" in seen
    assert "hunter2" not in seen


ESCAPES = {
    "fork bomb": ("b() { b | b & b; }; b", None),
    "endless output": ("/bin/busybox yes", "output"),
    "endless line": ("/bin/busybox cat /dev/zero", "output"),
    "ten gigabytes": ("/bin/busybox dd if=/dev/zero of=big bs=1024k count=10240 || exit 3", "crashed"),
    "ignores everything": ("trap '' TERM INT HUP; while true; do /bin/busybox sleep 1; done", "timeout"),
    "daemon": (f"/bin/busybox setsid /bin/busybox sleep 300 & /bin/busybox echo {ANSWER}", "success"),
}


@pytest.mark.parametrize(("script", "reason"), ESCAPES.values(), ids=ESCAPES.keys())
async def test_an_agent_that_misbehaves_is_contained_and_cleaned_up(
    container: ContainerIsolation, groups_dir: Path, script: str, reason: str | None
) -> None:
    # A bomb may end by its wall clock, or by itself, when nothing can be forked any more.
    wall_ms = 3_000 if reason in (None, "timeout") else SMALL.wall_ms
    request = request_for(groups_dir / "g", replace(SMALL, wall_ms=wall_ms))
    result = await shell(container, script).run(request)
    assert reason is None or (result.reason or result.status) == reason, result.error
    big = groups_dir / "g" / "big"
    assert not big.exists() or big.stat().st_size <= SMALL.file_bytes
    left = run("podman", *container.options, "ps", "--all", "--format", "{{.Names}}")
    assert request.environment.run_id not in left.stdout
    assert processes_of(request.environment) == []


def processes_of(environment: RunEnvironment) -> list[Path]:
    """What still runs as the agent's user, or names its container. A zombie does not run any more."""
    name = container_name(environment.run_id).encode()
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_its = path.stat().st_uid == environment.uid or name in (path / "cmdline").read_bytes()
            if is_its and (path / "stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z":
                found.append(path)
    return found


async def test_the_strongest_isolation_is_one_that_really_runs(container: ContainerIsolation) -> None:
    chosen = choose_isolation(require="container", engine="podman", image=container.image, options=container.options)
    assert chosen.isolation == container
    broken = ("--runtime", "/bin/false")
    with pytest.raises(RunnerUnavailable, match="podman"):
        choose_isolation(require="container", engine="podman", image=container.image, options=broken)
    try:
        chosen = choose_isolation(engine="podman", image=container.image, options=broken)
    except RunnerUnavailable:
        return  # there is no other wall here, and a plain process is none
    assert chosen.isolation.name == "bubblewrap"


async def test_a_container_that_goes_on_for_ever_is_removed(container: ContainerIsolation, groups_dir: Path) -> None:
    limits = Limits(wall_ms=2_000, grace_ms=300, memory_bytes=64 * 1_048_576, processes=20)
    request = request_for(groups_dir / "g", limits)
    result = await shell(container, "while true; do /bin/busybox sleep 1; done").run(request)
    assert (result.status, result.reason) == ("error", "timeout")
    left = run("podman", *container.options, "ps", "--all", "--format", "{{.Names}}")
    assert request.environment.run_id not in left.stdout
