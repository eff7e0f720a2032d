"""Our routes, in front of openenv's: WebSocket, health, readiness and the page; and refusals as HTTP replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response, WebSocket
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from kernel_env import __version__

from .backend import Backend
from .protocol import ECHO_CAP, Refusal, presentable
from .session import Sessions
from .web import routes
from .websocket import Connection

ERRORS_TOLD = 10

_STATUS = {
    "VALIDATION_ERROR": 422,
    "TOO_LARGE": 413,
    "NOT_RESET": 409,
    "EPISODE_DONE": 409,
    "CAPACITY_REACHED": 503,
    "SERVER_STARTING": 503,
    "TASK_UNAVAILABLE": 422,
}


def install(app: FastAPI, backend: Backend) -> None:
    """Put our routes first: the first match wins, so these replace openenv's of the same path."""
    sessions = Sessions(backend)
    router = APIRouter()

    @router.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        await Connection(socket, backend, sessions).serve()

    @router.get("/health", tags=["Health"], summary="Whether the server lives, and what it is doing")
    async def health() -> dict[str, Any]:
        return _health(backend, sessions)

    @router.get("/ready", tags=["Health"], summary="200 once a device can evaluate, else 503")
    async def ready() -> JSONResponse:
        state = _health(backend, sessions)
        return JSONResponse(state, status_code=200 if state["state"] == "ready" else 503)

    @router.get("/metrics", tags=["Health"], summary="Prometheus's metrics, where prometheus-client is installed")
    async def metrics() -> Response:
        return exposed()

    exposed = _metrics(backend, sessions)
    router.include_router(routes(backend))
    replaced = {getattr(route, "path", None) for route in router.routes}
    app.router.routes[:] = [
        *router.routes,
        *(route for route in app.router.routes if getattr(route, "path", None) not in replaced),
    ]
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _failed)
    app.title, app.description = "kernel_env", "An OpenEnv environment: GPU kernels for KernelBench tasks."
    app.contact, app.license_info = None, {"name": "MIT"}


def _metrics(backend: Backend, sessions: Sessions) -> Callable[[], Response]:
    if find_spec("prometheus_client") is None:
        told = "there are no metrics: pip install 'openenv-kernel_env[metrics]' on the server's machine"
        return lambda: JSONResponse({"detail": told}, status_code=501)
    from .metrics import CONTENT_TYPE, Standing, WatchedPool, exposition

    assert isinstance(backend.pool, WatchedPool)
    registry = backend.pool.registry
    registry.register(Standing(lambda: _health(backend, sessions)))
    return lambda: Response(exposition(registry), media_type=CONTENT_TYPE)


def _health(backend: Backend, sessions: Sessions) -> dict[str, Any]:
    pool = backend.pool.health()
    return {
        "status": "unhealthy" if pool.get("state") == "failed" else "healthy",
        "version": __version__,
        "state": "stopping" if backend.stopping else pool.get("state", "starting"),
        "message": presentable(str(pool.get("message", ""))),
        "active_sessions": sessions.active,
        "max_sessions": backend.settings.max_sessions,
        "parked_sessions": sessions.parked,
        "queued": pool.get("queued", 0),
        "running": pool.get("running", 0),
        "devices": pool.get("devices", []),
        "sandbox": {"mode": backend.settings.sandbox, "layers": pool.get("sandbox", {})},
        "tasks": len(backend.tasks.ids()),
    }


async def _refused(request: Request, refusal: Exception) -> JSONResponse:
    assert isinstance(refusal, Refusal)
    data = refusal.data()
    return JSONResponse({"detail": data["message"], **data}, status_code=_STATUS.get(refusal.code, 500))


async def _invalid(request: Request, error: Exception) -> Response:
    """openenv's request models: what is wrong, without the input that FastAPI would send back whole."""
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": _told(error.errors())}, status_code=422)


async def _failed(request: Request, error: Exception) -> Response:
    """The same for the action, whose errors openenv raises in this form."""
    assert isinstance(error, HTTPException)
    if not isinstance(error.detail, list):
        return await http_exception_handler(request, error)
    return JSONResponse({"detail": _told(error.detail)}, status_code=error.status_code)


def _told(errors: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "type": str(error.get("type")),
            "loc": [presentable(str(part))[:ECHO_CAP] for part in error.get("loc", ())],
            "msg": presentable(str(error.get("msg"))),
        }
        for error in errors[:ERRORS_TOLD]
    ]
