"""Who gets in, from where, and what happens at the door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.api.stage import Stage, a_client, session_of, staged

from rota import Rota
from rota.access import Role
from rota.api import Service, create_api
from rota.api.auth import SESSION_COOKIE, TRIES, Gate, make_session
from rota.api.guard import MAX_BODY, SECURITY_HEADERS
from rota.api.problems import Refused
from rota.errors import InvalidConfig, StoreUnavailable
from rota.testing.clock import FakeClock

SCHEDULE = {"task_type": "job", "delay": "5m"}


# --- tokens and sessions ---------------------------------------------------------------------------------------------


async def test_a_wrong_token_is_no_token(stage: Stage) -> None:
    answer = await stage.anonymous.get("/api/me", headers={"Authorization": "Bearer rota_nonsense"})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthenticated"


@pytest.mark.parametrize("header", ["Basic cm90YQ==", "Bearer", "Bearer  ", "rota_x", "bearer \u00e4"])
async def test_a_strange_header_is_no_token(stage: Stage, header: str) -> None:
    answer = await stage.anonymous.get("/api/me", headers={b"Authorization": header.encode()})
    assert answer.status_code == 401


async def test_a_revoked_token_ends_at_once(stage: Stage) -> None:
    (mine,) = [each for each in (await stage.admin.get("/api/tokens")).json()["items"] if each["name"] == "viewer"]
    assert (await stage.viewer.get("/api/me")).status_code == 200
    await stage.admin.delete(f"/api/tokens/{mine['id']}")
    assert (await stage.viewer.get("/api/me")).status_code == 401


async def test_a_session_is_as_good_as_its_token(stage: Stage) -> None:
    cookie = {"Cookie": f"{SESSION_COOKIE}={await session_of(stage)}"}
    me = (await stage.anonymous.get("/api/me", headers=cookie)).json()
    assert (me["role"], me["via"]) == ("operator", "dashboard")
    assert (await stage.anonymous.get("/api/tokens", headers=cookie)).status_code == 403


async def test_a_session_ends_with_its_token(stage: Stage) -> None:
    session = await session_of(stage)
    cookie = {"Cookie": f"{SESSION_COOKIE}={session}"}
    await stage.admin.delete(f"/api/tokens/{session.split('.')[0]}")
    assert (await stage.anonymous.get("/api/me", headers=cookie)).status_code == 401


async def test_a_session_cannot_be_made_up(stage: Stage) -> None:
    token_id, ends_at, signature = (await session_of(stage)).split(".")
    for forged in (
        f"{token_id}.{int(ends_at) + 1}.{signature}",
        f"{token_id}.{ends_at}.{'0' * 64}",
        f"{token_id}.{ends_at}.",
        f"{token_id}.-1.{signature}",
        f"{token_id}.1.{signature}",
        f"00000000.{ends_at}.{signature}",
        "nonsense",
        f"{token_id}.{'9' * 400}.{signature}",
    ):
        answer = await stage.anonymous.get("/api/me", headers={"Cookie": f"{SESSION_COOKIE}={forged}"})
        assert answer.status_code == 401, forged


async def test_a_session_cannot_be_made_from_the_database(stage: Stage) -> None:
    """Whoever reads a backup has ids and digests; neither is a way in, nor is a cookie a way to the secret."""
    token = await (await stage.service.tokens()).find(stage.secrets[Role.ADMIN])
    assert token is not None
    now = stage.service.clock.now()
    for guess in (token.digest, token.id, "", "rota_" + "x" * 43):
        cookie = {"Cookie": f"{SESSION_COOKIE}={make_session(token, guess, now)}"}
        assert (await stage.anonymous.get("/api/me", headers=cookie)).status_code == 401, guess
    session = make_session(token, stage.secrets[Role.ADMIN], now)
    assert stage.secrets[Role.ADMIN] not in session
    assert stage.secrets[Role.ADMIN].encode().hex() not in session


async def test_a_session_ends_by_itself(stage: Stage, clock: FakeClock) -> None:
    gate = Gate(Service(stage.app, clock=clock))
    token = await (await stage.service.tokens()).find(stage.secrets[Role.ADMIN])
    assert token is not None
    session = make_session(token, stage.secrets[Role.ADMIN], clock.now())
    assert await gate.by_session(session) is not None
    clock.advance("7d")
    assert await gate.by_session(session) is None


async def test_failed_sign_ins_are_bounded(stage: Stage, clock: FakeClock) -> None:
    gate = Gate(Service(stage.app, clock=clock))
    good = stage.secrets[Role.VIEWER]
    for _ in range(TRIES):
        assert await gate.sign_in("rota_wrong", "10.0.0.1") is None
    with pytest.raises(Refused) as refused:
        await gate.sign_in(good, "10.0.0.1")
    assert refused.value.problem.status == 429
    assert int(refused.value.problem.headers["Retry-After"]) > 0
    assert await gate.sign_in(good, "10.0.0.2") is not None, "others are not affected"
    clock.advance("5m")
    assert await gate.sign_in(good, "10.0.0.1") is not None


async def test_failed_sign_ins_at_once_are_bounded_too(stage: Stage) -> None:
    gate = Gate(stage.service)
    tries = (gate.sign_in("rota_wrong", "10.0.0.1") for _ in range(5 * TRIES))
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert results.count(None) == TRIES
    assert sum(isinstance(result, Refused) for result in results) == 4 * TRIES


async def test_a_sign_in_that_cannot_be_checked_is_no_failed_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: object) -> None:
        raise StoreUnavailable("away")

    gate = Gate(stage.service)
    with monkeypatch.context() as patch:
        patch.setattr(stage.app.host.own_database.opened, "read", away)
        for _ in range(2 * TRIES):
            with pytest.raises(StoreUnavailable):
                await gate.sign_in(stage.secrets[Role.VIEWER], "10.0.0.1")
    assert gate.watched == 0
    assert await gate.sign_in(stage.secrets[Role.VIEWER], "10.0.0.1") is not None


async def test_what_is_remembered_of_addresses_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.api.auth.REMEMBERED", 5)
    gate = Gate(stage.service)
    for number in range(20):
        await gate.sign_in("rota_wrong", f"10.0.0.{number}")
    assert gate.watched == 5


# --- other sites -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "http://localhost:8787.evil.example"},
        {"Origin": "garbage"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8787"},
    ],
)
async def test_another_site_cannot_act(stage: Stage, headers: dict[str, str]) -> None:
    cookie = {"Cookie": f"{SESSION_COOKIE}={await session_of(stage)}"}
    answer = await stage.anonymous.post("/api/tasks", json=SCHEDULE, headers={**headers, **cookie})
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    assert (await stage.viewer.get("/api/tasks?task_type=job")).json()["items"] == []


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://localhost:8787"}, {"Origin": "https://LOCALHOST:8787"}, {"Sec-Fetch-Site": "none"}],
)
async def test_our_own_pages_and_programs_can(stage: Stage, headers: dict[str, str]) -> None:
    cookie = {"Cookie": f"{SESSION_COOKIE}={await session_of(stage)}"}
    answer = await stage.anonymous.post("/api/tasks", json=SCHEDULE, headers={**headers, **cookie})
    assert answer.status_code == 201


# --- DNS rebinding ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "192.168.1.9", "", "a:b"]
)
async def test_a_foreign_name_is_refused(stage: Stage, host: str) -> None:
    for path in ("/api/me", "/healthz"):
        answer = await stage.admin.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8787", "[::1]", "[::1]:80"])
async def test_this_host_has_many_names(stage: Stage, host: str) -> None:
    assert (await stage.admin.get("/api/me", headers={"Host": host})).status_code == 200


async def test_a_public_service_is_reached_by_number_and_by_its_names(sqlite_url: str) -> None:
    async with staged(sqlite_url, is_public=True, allowed_hosts=["Rota.Example"]) as stage:
        for host, status in (("rota.example", 200), ("10.1.2.3:80", 200), ("[fd00::1]:80", 200), ("evil.example", 400)):
            assert (await stage.admin.get("/api/me", headers={"Host": host})).status_code == status, host


# --- headers and bodies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/api/me", "/api/absent", "/nothing", "/api/tasks/%00", "/metrics"])
async def test_every_answer_has_the_security_headers(stage: Stage, path: str) -> None:
    headers = (await stage.anonymous.get(path)).headers
    for name, value in SECURITY_HEADERS.items():
        assert headers[name] == value
    assert headers["Cache-Control"] == "no-store"
    assert "unsafe" not in headers["Content-Security-Policy"]


async def test_a_request_id_is_kept_or_made(stage: Stage) -> None:
    kept = await stage.anonymous.get("/healthz", headers={"X-Request-ID": "abc-1"})
    assert kept.headers["X-Request-ID"] == "abc-1"
    for given in ("", "a b", "x" * 65, "<script>"):
        made = await stage.anonymous.get("/healthz", headers={"X-Request-ID": given})
        assert len(made.headers["X-Request-ID"]) == 32


async def test_a_large_body_is_refused_by_its_length(stage: Stage) -> None:
    answer = await stage.operator.post("/api/tasks", json={"task_type": "job", "payload": "x" * MAX_BODY})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_large_body_is_refused_as_it_comes(stage: Stage) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield b"x" * 65_536
            await asyncio.sleep(0)

    headers = {"Content-Type": "application/json"}
    answer = await stage.operator.post("/api/tasks", content=endless(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert sent <= MAX_BODY + 2 * 65_536, "it is not read to its end"


async def test_a_large_body_is_refused_before_anybody_is_asked_for_a_token(stage: Stage) -> None:
    assert (await stage.anonymous.post("/api/tasks", content=b"x" * (MAX_BODY + 1))).status_code == 413


@pytest.mark.parametrize("length", ["\u00b2", "-1", "1e3", "9" * 5_000])
async def test_a_length_that_is_no_number_is_refused(stage: Stage, length: str) -> None:
    headers = {b"Content-Length": length.encode("latin-1"), b"Content-Type": b"application/json"}
    answer = await stage.operator.post("/api/tasks", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_payload_has_its_own_limit(stage: Stage) -> None:
    answer = await stage.operator.post("/api/tasks", json={"task_type": "job", "payload": "x" * 300_000})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit_exceeded")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_only_json_is_read(stage: Stage, media_type: str) -> None:
    content = b'{"task_type": "job"}'
    answer = await stage.operator.post("/api/tasks", content=content, headers={"Content-Type": media_type})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_nobody_learns_anything_from_the_parser(stage: Stage) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await stage.anonymous.post("/api/tasks", content=b"{", headers=headers)
    assert answer.status_code == 401


async def test_no_page_of_a_third_party_is_served(stage: Stage) -> None:
    for path in ("/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect"):
        assert (await stage.admin.get(path)).status_code == 404


# --- behind a proxy --------------------------------------------------------------------------------------------------


async def test_a_prefix_may_be_kept_or_stripped(sqlite_url: str) -> None:
    async with staged(sqlite_url, base_path="/rota/") as stage:
        for path in ("/rota/api/tasks/job/a%2Frota", "/api/tasks/job/a%2Frota"):
            await stage.app.schedule("job", key="a/rota", delay="1h")
            assert (await stage.admin.get(path)).json()["key"] == "a/rota"
        assert stage.service.path("/login") == "/rota/login"
        assert (await stage.admin.get("/rota/api/openapi.json")).json()["servers"] == [{"url": "/rota"}]
        answer = await stage.admin.post("/rota/api/tasks", content=b"x", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415


@pytest.mark.parametrize("path", ["rota", "//evil.example", "/a\nb", "/api"])
def test_a_prefix_that_cannot_be_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfig):
        Service(Rota("memory://"), base_path=path)


async def test_an_error_inside_shows_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise RuntimeError("the password is sesame")

    monkeypatch.setattr(stage.app, "types", broken)
    answer = await stage.viewer.get("/api/types")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "sesame" not in answer.text
    assert answer.headers["X-Request-ID"]


async def test_it_can_be_mounted_into_another_application(stage: Stage) -> None:
    from fastapi import FastAPI

    outer = FastAPI()
    outer.mount("/ops", create_api(stage.service, dashboard=False))
    async with a_client(outer, stage.secrets[Role.VIEWER]) as client:
        assert (await client.get("/ops/api/me")).status_code == 200
        await stage.app.schedule("job", key="x/y", delay="1h")
        assert (await client.get("/ops/api/tasks/job/x%2Fy")).json()["key"] == "x/y"
