"""The Modal app as far as it goes without Modal: what it declares, what its containers start, and its pool.

The pool calls the app's own `Evaluator` in this process, on the CPU. Not run: Modal's scheduling, the images'
builds, its proxy, its GPUs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from kernel_env.server.config import Settings
from kernel_env.server.conformance import CHECKS, Subject, undergo

from .processes import find
from .serving import Server

modal = pytest.importorskip("modal")

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LAYERS = ("apt_install", "run_commands", "add_local_file", "add_local_dir", "env")

Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("KERNEL")]:
            patch.delenv(name)
        yield patch


@pytest.fixture(scope="module")
def calls(patched: pytest.MonkeyPatch) -> Calls:
    """What the app asks of the real client, which checks it, and in which order."""
    made: Calls = []

    def record(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def recorded(*arguments: Any, **options: Any) -> Any:
            made.append((name, arguments, options))
            return original(*arguments, **options)

        patched.setattr(owner, name, recorded)

    for name in LAYERS:
        record(modal.Image, name)
    for name in ("cls", "function"):
        record(modal.App, name)
    for name in ("web_server", "concurrent"):
        record(modal, name)
    return made


@pytest.fixture(scope="module")
def app(calls: Calls, patched: pytest.MonkeyPatch) -> ModuleType:
    """Imported as `modal deploy` does, in a shell with a setting and a token."""
    patched.setenv("KERNEL_ENV_TRIALS", "2")
    patched.setenv("KERNEL_ENV_TOKEN", "a token")
    patched.setenv("KERNEL_ENV_EVALUATOR", "cpu")
    spec = importlib.util.spec_from_file_location("modal_app", ROOT / "modal_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(calls: Calls, name: str) -> list[dict[str, Any]]:
    return [given for called, _, given in calls if called == name]


def test_evaluators_have_one_gpu_and_nothing_worth_stealing(app: ModuleType, calls: Calls) -> None:
    (given,) = options(calls, "cls")
    assert given["gpu"] == "H100!"
    assert given["block_network"]
    assert given["restrict_modal_access"]
    assert not given.get("secrets")
    assert not given.get("volumes")
    assert given["env"] == {"KERNEL_ENV_TRIALS": "2", "KERNEL_ENV_EVALUATOR": "cpu"}
    assert given["retries"] == 0
    assert given["enable_memory_snapshot"]
    assert given["timeout"] > Settings().step_timeout_s
    assert options(calls, "concurrent")[0] == {"max_inputs": 2}


def test_sessions_are_behind_the_proxy_in_one_container_without_a_gpu(app: ModuleType, calls: Calls) -> None:
    given = options(calls, "function")[0]
    assert "gpu" not in given
    assert given["max_containers"] == 1
    assert len(given["secrets"]) == 1
    assert given["env"]["KERNEL_ENV_POOL"] == "modal"
    assert given["env"]["KERNEL_ENV_EVALUATOR"] == "gpu"
    (served,) = [(arguments, given) for name, arguments, given in calls if name == "web_server"]
    assert served[0] == (8000,)
    assert served[1]["requires_proxy_auth"]
    assert options(calls, "concurrent")[1]["max_inputs"] > Settings().max_sessions


def test_the_tests_run_on_the_same_gpu(app: ModuleType, calls: Calls) -> None:
    given = options(calls, "function")[1]
    assert given["gpu"] == options(calls, "cls")[0]["gpu"]
    assert given["image"] is app.test_image
    assert app.TESTS[1:] == ["-m", "pytest", "-m", "gpu", "tests"]


def test_the_image_is_the_dockerfiles(app: ModuleType, calls: Calls) -> None:
    made = [(name, arguments[1:], given) for name, arguments, given in calls if name in LAYERS]
    names = [name for name, _, _ in made]
    assert names[:4] == ["apt_install", "run_commands", "add_local_dir", "run_commands"]
    assert app.BASE in DOCKERFILE
    assert set(app.SYSTEM) <= set(DOCKERFILE.split())
    assert app.KERNELBENCH_COMMIT in DOCKERFILE
    assert re.fullmatch("[0-9a-f]{40}", app.KERNELBENCH_COMMIT)
    copied = {arguments[1] for name, arguments, _ in made if name.startswith("add_local")}
    assert copied == {
        f"/app/{name}"
        for name in ("requirements", "pyproject.toml", "README.md", "LICENSE", "kernel_env", "server", "tests")
    }
    sources = [Path(arguments[0]) for name, arguments, _ in made if name.startswith("add_local")]
    assert all(source.exists() for source in sources)
    installs = [arguments[0] for name, arguments, _ in made if name == "run_commands"][1:]
    pip = "pip install --constraint /app/requirements/lock.txt"
    assert installs == [
        f"{pip} --requirement /app/requirements/torch.txt",
        f"{pip} '/app[modal,metrics]'",
        f"{pip} '/app[dev]'",
    ]
    assert all(given == {} for name, _, given in made if name == "env")


def test_the_start_command_serves(app: ModuleType, tmp_path: Path) -> None:
    program, *arguments = app.START
    assert arguments == ["serve", "--host", "0.0.0.0", "--port", "8000"]
    script = Path(sys.executable).with_name(program)
    arguments = ["serve", "--host", "127.0.0.1", "--port", "0"]
    server = Server((str(script), *arguments), {"KERNEL_ENV_POOL": "modal"}, tmp_path)
    try:
        server.wait_until_up()
    finally:
        server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def subject(app: ModuleType) -> AsyncIterator[Subject]:
    from kernel_env.server.modal_pool import ModalPool

    evaluator = app.Evaluator()

    class Here:
        async def describe(self) -> dict[str, Any]:
            told: dict[str, Any] = await evaluator.describe.local()
            return told

        async def evaluate(self, request: dict[str, Any], waited_s: float, alone: bool) -> dict[str, Any]:
            evaluation: dict[str, Any] = await evaluator.evaluate.local(request, waited_s, alone)
            return evaluation

    pool = ModalPool(Settings(evaluator="cpu", pool="modal"), Here())
    await pool.start()
    device = await pool.ready(120.0)
    assert device is not None, pool.health()
    yield Subject(pool, device)
    await pool.close()
    await evaluator.host.close()
    assert not find("kernel_env.server")


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("check", CHECKS)
async def test_its_pool_conforms(subject: Subject, check: str) -> None:
    result = await undergo(subject, check)
    assert result.state == ("not run" if check in ("lost_once", "lost_always") else "held"), result
