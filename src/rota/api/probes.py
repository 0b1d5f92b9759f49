"""What a worker shows over HTTP: whether it lives, whether it works, what it measures. Nothing else, and nothing that
changes anything.

On loopback its metrics are for whoever is on this host. On any other address they need a token with the role viewer, as
they do on the service, since they name types.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rota.access import Role
from rota.api.auth import Gate, Need
from rota.api.guard import Guard, shown_path
from rota.api.problems import Problem, Refused, problem_of, problem_of_status, respond
from rota.api.service import Service
from rota.app.readiness import readiness
from rota.errors import RotaError

__all__ = ["create_probes"]

_VIEWER = Need(Role.VIEWER)


def create_probes(service: Service) -> Starlette:
    """The application of a process that works and serves nothing else. `service` need not be entered; its app is."""
    probes = Starlette(
        routes=[
            Route("/healthz", _check_alive, methods=["GET"]),
            Route("/readyz", _check_ready, methods=["GET"]),
            Route("/metrics", _read_metrics, methods=["GET"]),
        ],
        exception_handlers={RotaError: _answer, Refused: _answer, HTTPException: _answer},
    )
    probes.state.service = service
    probes.state.gate = Gate(service)
    probes.add_middleware(Guard, service=service)
    return probes


async def _check_alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _check_ready(request: Request) -> Response:
    found = await readiness(_service(request).app, is_worker=True)
    return JSONResponse(found.to_dict(), 200 if found.ok else 503)


async def _read_metrics(request: Request) -> Response:
    service = _service(request)
    assert service.metrics is not None
    if service.is_public:
        await _VIEWER.check(request)
    content_type, text = await service.metrics.render()
    return Response(text, headers={"Content-Type": content_type})


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _answer(request: Request, error: Exception) -> Response:
    return respond(_problem_of(error), shown_path(request.scope))


def _problem_of(error: Exception) -> Problem:
    if isinstance(error, RotaError):
        return problem_of(error)
    if isinstance(error, Refused):
        return error.problem
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(404, "not_found", "A worker shows /metrics, /healthz and /readyz, and nothing else.")
    return problem_of_status(error.status_code, error.detail, error.headers)
