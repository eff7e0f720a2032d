"""The server: our `/ws`, `/health` and `/ready` in front of openenv's routes, in one process.

`create_app` builds the application, `serve` runs it. Imports here name `kernel_env.server` in full, so that
`server.app:app` from a checkout and `kernel_env.server.app:app` are one set of modules. The process never
imports torch, and gradio only where the web page is on.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kernel_env.server import languages
from kernel_env.server.config import Settings, SettingsError, unknown
from kernel_env.server.logs import to_stderr
from kernel_env.server.pools import pool_for
from kernel_env.server.task_sources import TaskError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from kernel_env.server.backend import Backend
    from kernel_env.server.pool import Pool

GRACE_S = 10
START_FAILED = 3

_logger = logging.getLogger("kernel_env.server")


def create_app(settings: Settings | None = None, *, pool: Pool | None = None) -> FastAPI:
    """The application; settings from the environment and a pool to match them unless given.

    Raises `SettingsError`, `TaskError` and `LanguageError`. The pool starts with the application and is closed
    with it.
    """
    settings = settings or Settings.from_env()
    languages.registry()
    build = _builder(settings.web)
    from openenv.core.env_server.types import ConcurrencyConfig

    from kernel_env.models import KernelAction, KernelObservation, KernelState
    from kernel_env.server.access import Access
    from kernel_env.server.backend import Backend
    from kernel_env.server.environment import KernelEnvironment
    from kernel_env.server.eventlog import EventLog
    from kernel_env.server.routes import install
    from kernel_env.server.tasks import TaskSet

    tasks = TaskSet.load(settings)
    backend = Backend(settings, tasks, _watched(pool or pool_for(settings)), EventLog.open(settings))
    app = build(
        partial(KernelEnvironment, backend),
        KernelAction,
        KernelObservation,
        env_name="kernel_env",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=settings.max_sessions),
        state_cls=KernelState,
    )
    install(app, backend)
    app.state.backend = backend
    _attach_lifetime(app, backend)
    app.add_middleware(Access, token=settings.token)
    return app


def serve(settings: Settings, *, pool: Pool | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Ends the process with one line on stderr where it cannot start."""
    import uvicorn

    to_stderr(settings.log)
    # Its lines at INFO hold whole URLs, and so the tokens of resumed sessions.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # It says so of every handshake that `Access` refused, and logged.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "without completing handshake" not in record.msg)
    for name, nearest in unknown(os.environ).items():
        _logger.warning("%s is no setting%s", name, f"; did you mean {nearest}?" if nearest else "")
    try:
        app = create_app(settings, pool=pool)
        listener = _listen(settings)
    except (SettingsError, TaskError, languages.LanguageError) as error:
        sys.exit(f"kernel_env: {error}")
    # Not before `create_app`: it imports openenv.
    from kernel_env.server.stopping import Server
    from kernel_env.server.websocket import MAX_FRAME_BYTES

    config = uvicorn.Config(
        app,
        ws_max_size=MAX_FRAME_BYTES,
        # Frames are a few kilobytes: compressing them costs more than sending them.
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_interval_s or None,
        ws_ping_timeout=settings.ping_timeout_s,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
        log_config=None,
        access_log=False,
        workers=1,
    )
    host, port = listener.getsockname()[:2]
    _logger.info("serving on http://%s:%d", f"[{host}]" if ":" in host else host, port)
    # What is loaded by now stays for good: no later collection need walk it.
    gc.collect()
    gc.freeze()
    server = Server(config, app.state.backend)
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(START_FAILED)


def main() -> None:
    """The console script `server`: serve with settings from the environment."""
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        sys.exit(f"kernel_env: {error}")
    serve(settings)


def __getattr__(name: str) -> Any:
    """`app`, made when first asked for: `uvicorn server.app:app`."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        app = create_app()
    except (SettingsError, TaskError, languages.LanguageError) as error:
        sys.exit(f"kernel_env: {error}")
    _leave_stdout_to_events()
    return globals().setdefault("app", app)


def _builder(web: bool) -> Callable[..., FastAPI]:
    """openenv's function that makes an application, without or with its web page."""
    with _gradio(wanted=web):
        from openenv.core.env_server.http_server import create_fastapi_app
    if not web:
        return create_fastapi_app
    from openenv.core.env_server.web_interface import create_web_interface_app

    from kernel_env.server.web import TAB, tab

    return partial(create_web_interface_app, gradio_builder=tab, custom_tab_name=TAB, custom_tab_primary=True)


@contextmanager
def _gradio(wanted: bool) -> Iterator[None]:
    """Where not wanted, keep openenv from importing gradio in the block, which is most of its start time.

    openenv supports the absence of gradio; a None in `sys.modules` makes an installed one look absent.
    """
    hidden = not wanted and "gradio" not in sys.modules
    if hidden:
        sys.modules["gradio"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["gradio"]


def _watched(pool: Pool) -> Pool:
    """With metrics, where the package for them is there."""
    if find_spec("prometheus_client") is None:
        return pool
    from kernel_env.server.metrics import WatchedPool

    return WatchedPool(pool)


def _attach_lifetime(app: FastAPI, backend: Backend) -> None:
    """The pool runs while the application does, around whatever else is attached to its lifetime."""
    from kernel_env.server.backend import SandboxError

    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifetime(application: FastAPI) -> AsyncIterator[Any]:
        try:
            try:
                await backend.start()
            except SandboxError as error:
                _logger.critical("%s", error)
                logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # its trace says nothing more
                raise
            async with inner(application) as state:
                yield state
        finally:
            await backend.close()

    app.router.lifespan_context = lifetime


def _listen(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on KERNEL_ENV_HOST={settings.host!r}, KERNEL_ENV_PORT={settings.port}:"
            f" {error.strerror or error}"
        ) from error
    if not settings.token and settings.host not in ("127.0.0.1", "::1", "localhost"):
        _logger.warning("anyone who reaches %s may run code here: set KERNEL_ENV_TOKEN", settings.host)
    return listener


def _leave_stdout_to_events() -> None:
    """Another program's uvicorn logs requests to stdout, where only event lines belong."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
                handler.setStream(sys.stderr)


if __name__ == "__main__":
    main()
