"""The page at `/web`: pick a task, submit kernels over `/ws` as any client, watch them judged.

Files of ours without anything from elsewhere, and four routes of JSON that only read. Nothing here takes a
submission, and what the page knows is what any client may know. Where openenv's own page is on, it keeps `/` and
`/web`, and ours is a tab of it. The page's policy lets it run its own files and speak to this server, no more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib import resources
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from kernel_env import __version__

from . import peaks
from .backend import Backend
from .languages import known, runnable
from .protocol import presentable

PATH = "/web/kernels/"
TAB = "Kernels"
EXAMPLE = "level2/e02_PolynomialActivation"
FILES = {
    "": ("index.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
    "episode.js": ("episode.js", "text/javascript"),
    "views.js": ("views.js", "text/javascript"),
    "figures.js": ("figures.js", "text/javascript"),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; frame-ancestors "
)
# Of openenv's page, which a Space shows inside one of the hub's.
_FRAMED = "'self' https://huggingface.co"


def routes(backend: Backend) -> APIRouter:
    """Everything below `PATH`; `/` and `/web` lead there unless they are openenv's."""
    router = APIRouter(include_in_schema=False)
    headers = _headers(framed=backend.settings.web)
    for name, (file, kind) in FILES.items():
        body = _read(file)
        router.add_route(PATH + name, _always(Response(body, 200, headers, kind)))
    if not backend.settings.web:
        # Relative to what was asked for, so that they hold behind a proxy with a path of its own.
        for path, target in (("/", "web/kernels/"), ("/web", "web/kernels/"), ("/web/", "kernels/")):
            router.add_route(path, _always(RedirectResponse(target)))

    @router.get(PATH + "about")
    async def about() -> dict[str, Any]:
        return await _about(backend)

    @router.get(PATH + "tasks")
    async def tasks() -> list[dict[str, Any]]:
        return _tasks(backend)

    @router.get(PATH + "recent")
    async def recent() -> list[dict[str, Any]]:
        return list(backend.log.recent)

    @router.get(PATH + "progress")
    async def progress(episode: str) -> JSONResponse:
        """What the evaluation of an episode is at; `stage` is empty where the pool can't tell."""
        evaluation = backend.running.get(episode)
        stage = await backend.pool.stage(evaluation) if evaluation else ""
        return JSONResponse({"running": evaluation is not None, "stage": stage})

    return router


def tab(*_: object) -> Any:
    """openenv's `gradio_builder`: our page in a frame, under the address of theirs."""
    import gradio

    with gradio.Blocks() as blocks:
        gradio.HTML(
            f'<iframe src="kernels/" title="{TAB}"'
            ' style="width: min(62rem, calc(100vw - 6rem)); height: calc(100vh - 8rem); border: 0"></iframe>'
        )
    return blocks


async def _about(backend: Backend) -> dict[str, Any]:
    settings = backend.settings
    device = await backend.pool.ready(0.0)
    names = {str(found["name"]) for found in backend.pool.health()["devices"] if found.get("name")}
    supplied = peaks.supply(settings.peaks)
    rates = {name: found for name in sorted(names) if (found := peaks.known(name, supplied))}
    return {
        "version": __version__,
        "languages": list(runnable(device) if device else known()),
        "peaks": {name: asdict(found) for name, found in rates.items()},
        "max_turns": settings.max_turns,
        "step_timeout_s": settings.step_timeout_s,
        "example": {"task": EXAMPLE, "code": _example()} if EXAMPLE in backend.tasks.ids() else None,
    }


def _tasks(backend: Backend) -> list[dict[str, Any]]:
    return [
        {
            "id": task.id,
            "level": task.level,
            "split": task.split,
            "unusable": presentable(task.fault or task.missing or ""),
        }
        for task in backend.tasks.all()
    ]


def _example() -> dict[str, str]:
    """Right submissions to `EXAMPLE`, by language."""
    demos = resources.files("kernel_env") / "demos"
    return {name: (demos / f"right_{name}.py").read_text(encoding="utf-8") for name in ("cpp", "triton")}


def _always(response: Response) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return response

    return answer


def _headers(framed: bool) -> dict[str, str]:
    return {
        "content-security-policy": _POLICY + (_FRAMED if framed else "'none'"),
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def _read(file: str) -> bytes:
    return (resources.files("kernel_env.server") / "page" / file).read_bytes()
