"""Issue 11, 10: files of Rota's are 0600 and folders 0700, whatever the umask; what is open already is closed, and
said."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from rota import Rota
from rota.access.first_token import ensure_first_token
from rota.agents import ChannelSettings, install_agents
from rota.agents.faces.mcp.runs import RunSockets
from rota.agents.group_folders import prepare_folder, uid_of
from rota.agents.groups import Group
from rota.agents.isolation import AgentInput, RunEnvironment, RunRequest
from rota.agents.notices import Channels, Notice
from rota.agents.settings import AgentSettings
from rota.core.task import Activity
from rota.private_files import prepare_sqlite
from rota.runtime.spool_file import SpoolFile

SOMEBODY = 1_800_008_010
TOUCH = Activity(task_type="t", key="k", user_id="u", device_id=None, agent_id=None)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Generator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def place() -> Generator[Path]:
    """Where everybody may look, as in most people's working directories: the files themselves must hold."""
    with tempfile.TemporaryDirectory(prefix="rota-open-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in inside(folder)}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def inside(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def can_look(user: int, path: Path) -> bool:
    """Whether another user can read a file, or list a folder."""
    program = "ls" if path.is_dir() else "cat"
    done = subprocess.run([program, path], user=user, group=user, extra_groups=[], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.usefixtures("umask")
async def test_a_database_and_what_lies_beside_it(place: Path) -> None:
    async with Rota(f"sqlite:///{place / 'rota.db'}?synchronous=OFF") as app:
        await app.database()
        assert modes(place) == {"rota.db": 0o600, "rota.db-wal": 0o600, "rota.db-shm": 0o600}
    assert modes(place) == {"rota.db": 0o600}


@pytest.mark.usefixtures("umask")
def test_a_file_is_closed_before_sqlite_sees_it(place: Path) -> None:
    (place / "link.db").symlink_to(place / "linked.db")
    for name in ("rota.db", "link.db"):
        prepare_sqlite(place / name)
    assert modes(place) == {"rota.db": 0o600, "link.db": 0o600, "linked.db": 0o600}
    with sqlite3.connect(place / "rota.db") as disk:
        disk.execute("CREATE TABLE t (x)")
        assert modes(place)["rota.db"] == 0o600
        disk.execute("INSERT INTO t VALUES (1)")
        assert modes(place)["rota.db-journal"] == 0o600
    disk.close()


@pytest.mark.usefixtures("umask")
async def test_the_spool(place: Path) -> None:
    spool = SpoolFile(place / "spool.db", "memory://")
    await spool.put(TOUCH, 1)
    assert set(modes(place).values()) == {0o600}
    assert "spool.db-wal" in modes(place)
    await spool.close()


async def test_an_old_file_is_closed_at_the_start_and_that_is_said(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer of before is still at work, so its log lies there too."""
    database, spool = place / "rota.db", place / "spool.db"
    before = [sqlite3.connect(path, isolation_level=None) for path in (database, spool)]
    for one in before:
        one.execute("PRAGMA journal_mode = WAL").fetchall()
        one.execute("CREATE TABLE old (x)")
    for path in inside(place):
        path.chmod(0o644)
    assert len(modes(place)) == 6

    async with Rota(f"sqlite:///{database}?synchronous=OFF") as app:
        await app.database()
        file = SpoolFile(spool, "memory://")
        assert await file.is_empty()
        assert modes(place) == dict.fromkeys(modes(place), 0o600)
        for path in inside(place):
            assert f"file={path} " in caplog.text
        await file.close()
    for one in before:
        one.close()


async def test_a_file_that_is_not_ours_to_close_is_said_and_used(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (place / "rota.db").touch()
    (place / "rota.db").chmod(0o666)

    def refuse(*_given: object, **_named: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    async with Rota(f"sqlite:///{place / 'rota.db'}?synchronous=OFF") as app:
        await app.database()
    assert "Operation not permitted" in caplog.text
    assert f"chmod 600 {place / 'rota.db'}" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="Needs root, to be two users.")
async def test_root_in_somebodys_database_leaves_it_to_them_and_nobody_else_reads_it(place: Path) -> None:
    os.chown(place, SOMEBODY, SOMEBODY)
    prepare_sqlite(place / "rota.db")
    os.chown(place / "rota.db", SOMEBODY, SOMEBODY)
    async with Rota(f"sqlite:///{place / 'rota.db'}?synchronous=OFF") as app:
        await app.database()
        for path in inside(place):
            assert (path.stat().st_uid, mode_of(path)) == (SOMEBODY, 0o600), path
            assert can_look(SOMEBODY, path)
            assert not can_look(SOMEBODY + 1, path)


@pytest.mark.usefixtures("umask")
async def test_the_token_and_the_folder_that_was_made_for_it(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = place / "new" / "deep" / "rota.token"
    async with Rota(f"sqlite:///{place / 'rota.db'}?synchronous=OFF") as app:
        secret = await ensure_first_token(app, path)
        assert (modes(place)["new"], modes(path.parent.parent), modes(path.parent)) == (
            *(0o700, {"deep": 0o700}),
            {"rota.token": 0o600},
        )
        path.chmod(0o640)
        assert await ensure_first_token(app, path) == secret
        assert modes(path.parent) == {"rota.token": 0o600}
        assert f"file={path} " in caplog.text
    assert mode_of(place) == 0o755, "a folder that Rota did not make is not its own"


@pytest.mark.usefixtures("umask")
async def test_the_folders_of_groups_and_their_notices(place: Path) -> None:
    groups_dir = place / "state" / "groups"
    uid = uid_of(8_010)
    channels = Channels(groups_dir / ".notices", Rota("memory://").store)
    group = Group(number=1, folder="main", name="m", chat_jid="c", channels=(ChannelSettings(kind="file"),))
    await channels.tell(group, Notice(kind="result", group="main", schedule_id="s", text="hello", at=1))
    folder = prepare_folder(groups_dir, "main", uid)
    assert modes(groups_dir) == {".notices": 0o700, "main": 0o700}
    assert modes(groups_dir / ".notices") == {"main.jsonl": 0o600}
    # A group's own user gets through, and sees nothing on the way.
    assert modes(place / "state")["groups"] == (0o700 if uid is None else 0o711)
    if uid is not None:
        assert (can_look(uid, folder), can_look(uid, groups_dir)) == (True, False)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("uid", [None, SOMEBODY] if os.geteuid() == 0 else [None])
async def test_the_folder_of_a_run_is_open_to_its_own_user_alone(place: Path, uid: int | None) -> None:
    app = Rota("memory://")
    agents = install_agents(app, AgentSettings(groups_dir=place / "groups"))
    request = RunRequest(
        environment=RunEnvironment(folder=place, run_id="r-10", uid=uid),
        input=AgentInput(prompt="", group_folder="g", chat_jid="c"),
    )
    async with RunSockets(agents, app.database, below=place).opened(request):
        (run,) = (name for name in modes(place) if name.startswith("rota-run-"))
        found = {run: modes(place)[run], **modes(place / run)}
        assert all(mode & 0o007 == 0 for mode in found.values()), found
        if uid is None:
            assert found == {run: 0o700, "mcp.json": 0o600, "mcp.sock": 0o600}
            return
        assert can_look(uid, place / run / "mcp.json")
        assert not can_look(uid + 1, place / run)
