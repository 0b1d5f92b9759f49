"""`rota doctor`: is everything in place, and if not, what to do."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from rota.app.views import alive, is_alive
from rota.cli.exits import ExitCode
from rota.cli.invocation import Cli, sqlite_file
from rota.cli.output import Column, relative
from rota.cli.parts import data_parts, known_parts
from rota.clock import SECOND, Clock, Millis, SystemClock, format_duration
from rota.config import Config
from rota.config.urls import masked, scheme_of
from rota.errors import RotaError, SchemaMismatch
from rota.part import CheckResult
from rota.stores import open_store
from rota.stores.base import Store

__all__ = ["doctor"]

WAL_FIXED: Final = (3, 51, 3)
"""Older SQLite can lose a commit when two connections reset and extend the WAL at the same moment."""

SLOW_ROUND_TRIP: Final[Millis] = 100
CLOCK_TOLERANCE: Final[Millis] = 5 * SECOND

_SET_BY: Final = {"store": "--store URL or `store`", "database": "`database` (ROTA_DATABASE)"}
"""Where somebody says which store and which database to use."""

_COLUMNS: Final = (Column("CHECK", "check", is_id=True), Column("STATUS", "status"), Column("DETAIL", "detail"))


async def doctor(cli: Cli) -> None:
    """Check the configuration, the store, the clock and the instances. Exit code 1 if something is wrong."""
    findings = [_python()]
    try:
        config = cli.config
    except RotaError as error:
        findings.append(CheckResult("config", "error", str(error), "Correct the configuration."))
    else:
        findings += _config(cli, config)
        findings += [finding async for finding in _store(config.store_url, config.call_timeout_ms / SECOND)]
        if config.database_url != config.store_url:
            findings.append(await _database(config.database_url, config.call_timeout_ms / SECOND))
            if all(finding.status != "error" for finding in findings):
                findings += await _database_owner(config)
        for part in known_parts():
            findings += await part.diagnose(config)
    _report(cli, findings)


def _report(cli: Cli, findings: list[CheckResult]) -> None:
    healthy = all(finding.status != "error" for finding in findings)
    if cli.output.as_json:
        cli.output.one({"ok": healthy, "checks": [asdict(finding) for finding in findings]})
    else:
        # A table has room for one line of each; the rest of a long one stands below it.
        rows = [asdict(finding) | {"detail": finding.detail.partition("\n")[0]} for finding in findings]
        cli.output.page(rows, _COLUMNS, empty="")
        for finding in findings:
            if finding.advice:
                cli.output.say(f"{finding.status}: {finding.check}: {finding.advice}")
            _, more, rest = finding.detail.partition("\n")
            if more:
                cli.output.say(rest)
        cli.output.say(_verdict(findings))
    if not healthy:
        raise typer.Exit(ExitCode.FAILED)


def _verdict(findings: Sequence[CheckResult]) -> str:
    errors, warnings = (sum(finding.status == status for finding in findings) for status in ("error", "warning"))
    if errors:
        return "Something is wrong; see above."
    if warnings:
        return f"It works, with {warnings} warning{'' if warnings == 1 else 's'}; see above."
    return "All is well."


def _python() -> CheckResult:
    return CheckResult("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _config(cli: Cli, config: Config) -> Iterator[CheckResult]:
    named = cli.options.config or os.environ.get("ROTA_CONFIG")
    where = str(named) if named else "rota.yaml" if Path("rota.yaml").exists() else "no file: defaults and environment"
    yield CheckResult("config", "ok", f"{where}; {len(config.tasks)} task types")
    for warning in config.warnings:
        yield CheckResult("config", "warning", warning)


# --- the store ----------------------------------------------------------------------------------------------------


async def _store(url: str, call_timeout: float) -> AsyncIterator[CheckResult]:
    file = sqlite_file(url)
    if file is not None:
        yield _sqlite_version()
        if not file.exists():
            yield _absent(file, "store")
            return
    if scheme_of(url).startswith(("redis", "unix")):
        for finding in await _redis(url):
            yield finding
    clock = SystemClock()
    try:
        # The store's own clock, or there would be nothing to compare.
        store = open_store(url, call_timeout=call_timeout)
        await store.open()
    except RotaError as error:
        yield _unusable(error, "store")
        return
    try:
        yield CheckResult("store", "ok", masked(url))
        yield _schema(store, url)
        if file is not None:
            yield _journal(file, url)
        async for finding in _each(store, clock):
            yield finding
    finally:
        await store.close()


async def _redis(url: str) -> list[CheckResult]:
    from rota.cli.doctor_redis import examine

    return await asyncio.to_thread(examine, url)


async def _database(url: str, call_timeout: float) -> CheckResult:
    """Tokens, the audit log, alerts and memory lie there, also when the store is another."""
    file = sqlite_file(url)
    if file is not None and not file.exists():
        return _absent(file, "database")
    from rota.database import Database

    try:
        database = Database(url, call_timeout=call_timeout)
        await database.open()
    except RotaError as error:
        return _unusable(error, "database")
    await database.close()
    where = "" if database.schema is None else f", in the schema {database.schema}"
    return CheckResult("database", "ok", f"{masked(url)}{where}")


async def _database_owner(config: Config) -> list[CheckResult]:
    """Whether what the store's tasks are about lies in this database, or in one that others have."""
    from rota.runtime.database_owner import location_of, owner_of, refusal

    store = open_store(config.store_url, call_timeout=config.call_timeout_ms / SECOND)
    await store.open()
    try:
        owners = {part: owner for part in data_parts() if (owner := await owner_of(store, part)) is not None}
    finally:
        await store.close()
    here, identity = location_of(config.database_url), await _identity(config)
    findings: list[CheckResult] = []
    for part, owner in owners.items():
        if owner.identity == identity:
            findings.append(CheckResult(f"{part} data", "ok", "in this database"))
            continue
        # Where there is no database yet nobody serves anything, and this may be any folder.
        file = sqlite_file(config.database_url)
        status = "error" if file is None or file.exists() else "warning"
        advice = refusal(part, config.store_url, here, owner)
        findings.append(CheckResult(f"{part} data", status, f"in another database: {owner.location}", advice))
    return findings


async def _identity(config: Config) -> str | None:
    file = sqlite_file(config.database_url)
    if file is not None and not file.exists():
        return None
    from rota.database import Database

    database = Database(config.database_url, call_timeout=config.call_timeout_ms / SECOND)
    await database.open()
    try:
        return await database.identity()
    finally:
        await database.close()


def _schema(store: Store, url: str) -> CheckResult:
    """Whoever shares a database with an application wants to know where Rota's tables are."""
    if scheme_of(url) != "postgresql":
        return CheckResult("schema", "ok", "up to date")
    from rota.stores.sql import SqlStore

    assert isinstance(store, SqlStore)
    return CheckResult("schema", "ok", f"up to date, tables in the schema {store.database.schema}")


def _unusable(error: RotaError, what: str) -> CheckResult:
    if isinstance(error, SchemaMismatch):
        return CheckResult("schema", "error", str(error), f"Upgrade Rota, or use another {what}.")
    detail = " ".join(str(error).split())
    return CheckResult(what, "error", detail, f"Start the server, or correct the URL: {_SET_BY[what]}.")


def _absent(file: Path, what: str) -> CheckResult:
    """The file is made when something is first written; a doctor who leaves one behind would be no help."""
    folder = file.absolute().parent
    if not folder.is_dir():
        return CheckResult(what, "error", f"The folder {folder} does not exist.", f"Create it: mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        return CheckResult(what, "error", f"The folder {folder} is not writable.", f"Allow it, or use {_SET_BY[what]}.")
    return CheckResult(what, "ok", f"{file} does not exist yet; the first worker or command makes it")


def _sqlite_version() -> CheckResult:
    if sqlite3.sqlite_version_info >= WAL_FIXED:
        return CheckResult("sqlite", "ok", sqlite3.sqlite_version)
    return CheckResult(
        "sqlite",
        "warning",
        f"{sqlite3.sqlite_version} has the WAL-reset bug",
        "Two processes on one file may, very rarely, damage it. Use a Python with SQLite 3.51.3 or later.",
    )


def _journal(file: Path, url: str) -> CheckResult:
    try:
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=2)
        try:
            mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.Error as error:
        return CheckResult("journal", "error", str(error), f"See who may read and write {file}.")
    synchronous = _query_value(url, "synchronous") or "FULL"
    detail = f"journal_mode={mode}, synchronous={synchronous.upper()}"
    if mode != "wal":
        return CheckResult(
            "journal", "warning", detail, "Readers and writer wait for each other. Is it a network disk?"
        )
    if synchronous.upper() in ("NORMAL", "OFF"):
        return CheckResult("journal", "warning", detail, "A power cut may lose accepted work. Use synchronous=FULL.")
    return CheckResult("journal", "ok", detail)


def _query_value(url: str, name: str) -> str | None:
    from urllib.parse import parse_qs, urlsplit

    values = parse_qs(urlsplit(url).query).get(name)
    return values[0] if values else None


async def _each(store: Store, clock: Clock) -> AsyncIterator[CheckResult]:
    checks: tuple[tuple[str, Callable[[Store, Clock], Awaitable[CheckResult]]], ...] = (
        ("round trip", _round_trip),
        ("clock", _clock_offset),
        ("instances", _instances),
        ("work", _work),
    )
    for name, check in checks:
        try:
            yield await check(store, clock)
        except RotaError as error:
            yield CheckResult(name, "error", str(error), "Look at the store's own log.")


async def _round_trip(store: Store, clock: Clock) -> CheckResult:
    """One read and one write that changes nothing: an instance that never was says goodbye."""
    started = clock.monotonic()
    await store.now()
    read = clock.monotonic()
    await store.leave(f"doctor-{os.getpid()}")
    written = clock.monotonic()
    detail = f"read {(read - started) * 1_000:.1f} ms, write {(written - read) * 1_000:.1f} ms"
    if (written - started) * 1_000 > 2 * SLOW_ROUND_TRIP:
        return CheckResult("round trip", "warning", detail, "That is slow. Is the store near, and its disk idle?")
    return CheckResult("round trip", "ok", detail)


async def _clock_offset(store: Store, clock: Clock) -> CheckResult:
    before = clock.now()
    at = await store.now()
    offset = at - (before + clock.now()) // 2
    detail = f"this host is {format_duration(abs(offset))} {'behind' if offset > 0 else 'ahead of'} the store"
    if abs(offset) > CLOCK_TOLERANCE:
        return CheckResult(
            "clock", "warning", detail, "The store's clock rules, so nothing breaks; still, check NTP here."
        )
    return CheckResult("clock", "ok", detail)


async def _instances(store: Store, clock: Clock) -> CheckResult:
    found, now = await store.instances(), await store.now()
    silent = [each for each in found if not is_alive(each, now)]
    detail = f"{len(found) - len(silent)} alive"
    if not silent:
        return CheckResult("instances", "ok", detail)
    last = max(silent, key=lambda each: each.seen_at)
    return CheckResult(
        "instances",
        "warning",
        f"{detail}, {len(silent)} silent (the last since {relative(last.seen_at, now)})",
        "They ended without a goodbye. Nothing is lost: the others take their tasks over.",
    )


async def _work(store: Store, clock: Clock) -> CheckResult:
    counts = (await store.counts()).values()
    pending, running, failed = (
        sum(getattr(each, state) for each in counts) for state in ("pending", "running", "failed")
    )
    detail = f"{pending} pending, {running} running, {failed} dead letters"
    now = await store.now()
    if pending and not alive(await store.instances(), now):
        return CheckResult("work", "warning", detail, "Work waits, but no worker is running. `rota worker --app ...`.")
    if failed:
        return CheckResult("work", "warning", detail, "`rota dlq ls` shows why, `rota dlq redrive` tries again.")
    return CheckResult("work", "ok", detail)
