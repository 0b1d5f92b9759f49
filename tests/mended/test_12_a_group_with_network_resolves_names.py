"""Issue 11, 12: whoever Rota is, in the sandbox `/etc` is passable, has what the network needs, and nothing secret."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.sandbox import require_bubblewrap

from rota.agents.isolation import BubblewrapIsolation, Limits, RunEnvironment

ASKED = """
import json, os, socket, ssl, subprocess
def readable(path):
    try:
        return len(open(path, "rb").read()) >= 0
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "read": {name: readable("/etc/" + name) for name in ("resolv.conf", "hosts", "nsswitch.conf")},
    "secret": {name: readable("/etc/" + name) for name in ("shadow", "gshadow", "ssl/private", "ssh", "sudoers")},
    "authorities": len(ssl.create_default_context().get_ca_certs()),
    "getent": subprocess.run(["getent", "hosts", "localhost"], stdout=subprocess.DEVNULL).returncode,
    "resolved": socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)[0][4][1],
}))
"""
PYTHON = "/usr/bin/python3"
OWN = 1_900_008_012
"""The user of a group's own, when Rota is root."""
ORDINARY = 1_800_008_012


@pytest.fixture
def bubblewrap() -> BubblewrapIsolation:
    chosen = require_bubblewrap()
    if not Path(PYTHON).exists():
        pytest.skip(f"Needs {PYTHON}, which everybody may run.")
    return chosen


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="rota-etc-") as made:
        Path(made).chmod(0o711)
        group = Path(made) / "g"
        group.mkdir(mode=0o700)
        yield group


def said_by(bubblewrap: BubblewrapIsolation, environment: RunEnvironment, user: int | None) -> dict[str, Any]:
    """What the program of `ASKED` finds; `user` is who Rota itself is, None: whoever runs the tests."""
    spec = bubblewrap.process_spec((PYTHON, "-c", ASKED), environment, Limits())
    who: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(
        spec.argv, env=dict(spec.env), cwd="/", umask=0o022, capture_output=True, text=True, timeout=60, **who
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("rota_is_root", [True, False])
def test_a_group_with_network_has_its_resolver_and_certificates(
    bubblewrap: BubblewrapIsolation, folder: Path, rota_is_root: bool
) -> None:
    if os.geteuid() != 0 and rota_is_root:
        pytest.skip("Needs root: only then has a group a user of its own.")
    uid, user = (OWN, None) if rota_is_root else (None, ORDINARY if os.geteuid() == 0 else None)
    owner = uid or user
    if owner is not None:
        os.chown(folder, owner, owner)
    found = said_by(bubblewrap, RunEnvironment(folder=folder, run_id="r-12", uid=uid, has_network=True), user)
    assert [name for name, was in found["read"].items() if was is not True and Path("/etc", name).exists()] == []
    assert (found["getent"], found["resolved"]) == (0, 80)
    assert set(found["secret"].values()) == {"FileNotFoundError"}
    if ssl.create_default_context().get_ca_certs():
        assert found["authorities"] > 0


def test_a_group_without_network_learns_nothing_of_it(bubblewrap: BubblewrapIsolation, folder: Path) -> None:
    uid = OWN if os.geteuid() == 0 else None
    if uid is not None:
        os.chown(folder, uid, uid)
    spec = bubblewrap.process_spec(
        (PYTHON, "-c", "import os; print(*os.listdir('/etc'))"),
        RunEnvironment(folder=folder, run_id="r-12", uid=uid),
        Limits(),
    )
    done = subprocess.run(spec.argv, env=dict(spec.env), cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "nsswitch.conf" in done.stdout.split()
    assert {"hosts", "resolv.conf"}.isdisjoint(done.stdout.split())
