"""Several processes share one SQLite file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from sqlalchemy import Connection, text

from rota.database import Database
from rota.database.backends import turns

WRITERS, WRITES = 3, 300


def _prepare(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE turns (who TEXT PRIMARY KEY, taken INTEGER NOT NULL)"))
    for who in range(WRITERS):
        connection.execute(text("INSERT INTO turns VALUES (:who, 0)"), {"who": str(who)})


def _taken(connection: Connection) -> list[int]:
    return [row[0] for row in connection.execute(text("SELECT taken FROM turns ORDER BY who"))]


def _writer(url: str, who: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("turns_child.py")), url, who, str(WRITES)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _read(writer: subprocess.Popen[str]) -> str:
    assert writer.stdout is not None
    return writer.stdout.readline()


async def test_each_of_three_that_never_pause_has_a_fair_part(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    await database.open()
    await database.write(_prepare)
    writers = [_writer(sqlite_url, str(who)) for who in range(WRITERS)]
    assert [_read(writer) for writer in writers] == ["ready\n"] * WRITERS
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("begin\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    taken = await database.read(_taken)
    await database.close()
    # A third each would be 100.
    assert min(taken) >= WRITES // 6, taken


async def test_one_that_is_stuck_at_the_head_of_the_line_stops_nobody(sqlite_url: str, tmp_path: Path) -> None:
    database = Database(sqlite_url)
    await database.open()
    await database.write(_prepare)
    place = os.open(tmp_path / "rota.db-wal", os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX)
    assert await database.write(_taken) == [0, 0, 0]
    os.close(place)
    await database.close()


def test_a_log_that_was_made_anew_is_another_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    line = turns.Line(log)
    with line.at_its_head():
        assert not _is_free(log)
    log.unlink()
    log.touch()
    with line.at_its_head():
        assert not _is_free(log)
    assert _is_free(log)
    line.close()


def _is_free(log: Path) -> bool:
    other = os.open(log, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(other)
    return True
