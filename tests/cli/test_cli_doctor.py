"""`rota doctor`."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from command_line import CallRota, claim, dead_letter, with_store

from rota.agents.part import AgentsPart
from rota.cli import doctor
from rota.clock import HOUR, MINUTE
from rota.config import Config
from rota.part import CheckResult
from rota.stores.base import Beat, Store


async def nothing_to_say(part: AgentsPart, config: Config) -> list[CheckResult]:
    """Whether this machine has a sandbox for agents is not what is looked at."""
    return []


def checks(rota: CallRota, *arguments: str, code: int = 0) -> dict[str, Any]:
    said = rota("doctor", "--json", *arguments)
    assert said.code == code
    assert said.json["ok"] == (code == 0)
    return {check["check"]: check for check in said.json["checks"]}


def test_a_store_in_good_order(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    # How fast the disk is today is not what is looked at here.
    monkeypatch.setattr(doctor, "SLOW_ROUND_TRIP", MINUTE)
    rota("task", "ls")

    found = checks(rota)

    # Whether this machine has a sandbox for agents is not what is looked at here either.
    assert found.pop("agents")["status"] != "error"
    assert set(found) == {
        *("python", "config", "sqlite", "store", "schema", "journal", "round trip", "clock", "instances", "work", "bus")
    }
    # The tests' own store does without fsync, and is told so.
    assert {name for name, check in found.items() if check["status"] != "ok"} == {"journal"}
    assert "synchronous=OFF" in found["journal"]["detail"]


def test_a_slow_store_is_warned_of(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SLOW_ROUND_TRIP", -1)
    rota("task", "ls")

    found = checks(rota)["round trip"]

    assert found["status"] == "warning"
    assert "That is slow" in found["advice"]


def test_a_new_place_is_not_touched(rota: CallRota, tmp_path: Path) -> None:
    found = checks(rota)

    assert "does not exist yet" in found["store"]["detail"]
    assert not list(tmp_path.glob("*.db"))


def test_in_words(rota: CallRota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    monkeypatch.setattr(doctor, "SLOW_ROUND_TRIP", MINUTE)
    monkeypatch.setattr(AgentsPart, "diagnose", nothing_to_say)
    rota("--store", f"sqlite:///{tmp_path}/sound.db", "task", "ls")

    said = rota("--store", f"sqlite:///{tmp_path}/sound.db", "doctor")

    assert said.out.splitlines()[0].split() == ["CHECK", "STATUS", "DETAIL"]
    assert said.out.endswith("All is well.\n")


def test_who_is_warned_is_not_told_that_all_is_well(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    rota("task", "ls")

    said = rota("doctor")

    assert said.code == 0
    assert "All is well" not in said.out
    assert re.search(r"It works, with [2-9] warnings; see above\.\n$", said.out)


def test_an_old_sqlite_is_warned_of(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))

    found = checks(rota)["sqlite"]

    assert found["status"] == "warning"
    assert "WAL-reset bug" in found["detail"]
    assert "3.51.3" in found["advice"]


def test_a_missing_server_is_wrong(rota: CallRota) -> None:
    found = checks(rota, "--store", "postgresql://127.0.0.1:1/x", code=1)["store"]

    assert found["status"] == "error"
    assert found["advice"]
    assert rota("doctor", "--store", "postgresql://127.0.0.1:1/x").out.endswith("Something is wrong; see above.\n")


def test_where_the_tables_are_on_postgres(rota: CallRota, postgres_url: str) -> None:
    schema = postgres_url.rpartition("%3D")[2]

    found = checks(rota, "--store", postgres_url)

    assert found["schema"]["detail"] == f"up to date, tables in the schema {schema}"


def test_a_broken_configuration_is_wrong(rota: CallRota, tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("lease: forever")

    assert "forever" in checks(rota, code=1)["config"]["detail"]


def test_a_folder_that_is_not_there_is_wrong(rota: CallRota, tmp_path: Path) -> None:
    found = checks(rota, "--store", f"sqlite:///{tmp_path}/no/rota.db", code=1)["store"]

    assert "mkdir -p" in found["advice"]


def test_a_file_that_is_no_database_is_wrong(rota: CallRota, tmp_path: Path) -> None:
    (tmp_path / "rota.db").write_text("a letter to grandmother " * 100)

    assert checks(rota, code=1)["store"]["status"] == "error"


def test_a_newer_schema_is_wrong(rota: CallRota, tmp_path: Path) -> None:
    rota("task", "ls")
    with sqlite3.connect(tmp_path / "rota.db") as connection:
        connection.execute("UPDATE rota_alembic_version SET version_num = '9999'")
    connection.close()

    assert checks(rota, code=1)["schema"]["status"] == "error"


def test_work_that_nobody_does(rota: CallRota) -> None:
    with_store(claim("slow"))
    rota("schedule", "add", "slow", "x", "--every", "1h")

    found = checks(rota)["work"]

    assert (found["status"], found["detail"]) == ("warning", "1 pending, 1 running, 0 dead letters")


def test_dead_letters_and_silent_instances(rota: CallRota) -> None:
    dead_letter()

    async def beat(store: Store) -> None:
        # So long ago that the seconds until the doctor looks make no difference to the words.
        await store.tick(Beat(instance="gone", lease_ms=3_000), now=await store.now() - 2 * HOUR)

    with_store(beat)
    found = checks(rota)

    assert found["instances"]["detail"] == "0 alive, 1 silent (the last since 2h ago)"
    assert "1 dead letters" in found["work"]["detail"]


def test_a_clock_that_is_off(monkeypatch: pytest.MonkeyPatch, rota: CallRota) -> None:
    rota("task", "ls")

    class Slow(doctor.SystemClock):
        """A host that lives an hour and a half ago."""

        def now(self) -> int:
            return super().now() - 90 * MINUTE

    monkeypatch.setattr(doctor, "SystemClock", Slow)

    found = checks(rota)["clock"]

    assert found["status"] == "warning"
    assert "host is 1h" in found["detail"], "the rest depends on how long the store took to answer"
    assert "behind the store" in found["detail"]


# --- a database beside the store --------------------------------------------------------------------------------------


def test_a_database_of_its_own_is_looked_at_too(
    rota: CallRota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tokens and the audit log lie there: a service whose store is well may still be unable to start."""
    rota("task", "ls")
    assert "database" not in checks(rota)

    monkeypatch.setenv("ROTA_DATABASE", "postgresql://127.0.0.1:1/x")
    missing = checks(rota, code=1)["database"]
    monkeypatch.setenv("ROTA_DATABASE", f"sqlite:///{tmp_path}/other.db")
    new = checks(rota)["database"]

    assert (missing["status"], new["status"]) == ("error", "ok")
    assert "ROTA_DATABASE" in missing["advice"]
    assert not (tmp_path / "other.db").exists()


def test_what_is_wrong_with_the_configuration_is_one_line_each(rota: CallRota, tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("leese: 10s\nsweep: 1s\n")

    said = rota("doctor")

    assert said.code == 1
    assert "\\n" not in said.out
    assert any(line.startswith("- leese is '10s'") for line in said.out.splitlines())
    assert any(line.startswith("- sweep is '1s'") for line in said.out.splitlines())


def test_a_warning_is_said_once(rota: CallRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SPEED", "11")

    assert rota("doctor").out.count("ROTA_SPEED") == 1
