"""The environment on Modal.

    modal deploy modal_app.py                 serve it behind Modal's proxy auth
    modal run modal_app.py::gpu_tests         run the tests that need a GPU

`web` is one container without a GPU that holds the sessions; each `Evaluator` container has one GPU and evaluates
for it. They come and go with the load, and one whose device is sick takes no more work and ends. Submissions run
in them alone: they have no network, no secrets and no access to Modal. Variables named `KERNEL_ENV_*` of the shell
that deploys become the deployment's settings; `KERNEL_ENV_MODAL_GPU` chooses the GPU ("!": no other).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import modal

if TYPE_CHECKING:
    from kernel_env.server.modal_host import ModalHost

NAME = "kernel-env"
BASE = "nvidia/cuda:13.0.1-devel-ubuntu24.04"
SYSTEM = ("g++", "git", "ninja-build")
PYTHON = "3.12"
KERNELBENCH = "https://github.com/ScalingIntelligence/KernelBench.git"
KERNELBENCH_COMMIT = "423217d9fda91e0c2d67e4a43bf62f96f6d104f1"
GPU = os.environ.get("KERNEL_ENV_MODAL_GPU", "H100!")
HERE = Path(__file__).parent
APP = "/app"
PORT = 8000
INSTALL = f"pip install --constraint {APP}/requirements/lock.txt"
START = ["kernel-env", "serve", "--host", "0.0.0.0", "--port", str(PORT)]
TESTS = [sys.executable, "-m", "pytest", "-m", "gpu", "tests"]

CPUS = 8.0
MEMORY_MB = 64 * 1024
BESIDE = 2
"""Evaluations that one container takes: one builds while the other one has the device."""
UP_S = 240.0
EVALUATION_S = 1800
IDLE_S = 300
DAY_S = 24 * 3600

SETTINGS: dict[str, str | None] = {
    name: value
    for name, value in os.environ.items()
    if name.startswith("KERNEL_ENV_") and name not in ("KERNEL_ENV_TOKEN", "KERNEL_ENV_MODAL_GPU")
}
TOKEN = [modal.Secret.from_local_environ(["KERNEL_ENV_TOKEN"])] if os.environ.get("KERNEL_ENV_TOKEN") else []

tools = (
    modal.Image.from_registry(BASE, add_python=PYTHON)
    .apt_install(*SYSTEM)
    .run_commands(
        "git init --quiet /opt/source"
        f" && git -C /opt/source fetch --quiet --depth 1 {KERNELBENCH} {KERNELBENCH_COMMIT}"
        " && git -C /opt/source checkout --quiet FETCH_HEAD && mv /opt/source/KernelBench /opt/KernelBench"
        " && rm -rf /opt/source"
    )
    .add_local_dir(str(HERE / "requirements"), f"{APP}/requirements", copy=True)
    .run_commands(f"{INSTALL} --requirement {APP}/requirements/torch.txt")
)


def _installed(image: modal.Image, extras: str) -> modal.Image:
    """`image` with this checkout's packages."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        image = image.add_local_file(str(HERE / name), f"{APP}/{name}", copy=True)
    for name in ("kernel_env", "server"):
        image = image.add_local_dir(str(HERE / name), f"{APP}/{name}", copy=True, ignore=["**/__pycache__"])
    return image.run_commands(f"{INSTALL} '{APP}[{extras}]'").env(
        {"KERNELBENCH_DIR": "/opt/KernelBench", "PYTHONUNBUFFERED": "1"}
    )


image = _installed(tools, "modal,metrics")
test_image = _installed(tools, "dev").add_local_dir(str(HERE / "tests"), f"{APP}/tests", ignore=["**/__pycache__"])

app = modal.App(NAME)


@app.cls(
    image=image,
    gpu=GPU,
    cpu=CPUS,
    memory=MEMORY_MB,
    env=SETTINGS,
    timeout=EVALUATION_S,
    startup_timeout=int(UP_S) + 60,
    scaledown_window=IDLE_S,
    retries=0,
    block_network=True,
    restrict_modal_access=True,
    enable_memory_snapshot=True,
)
@modal.concurrent(max_inputs=BESIDE)
class Evaluator:
    """One device. Its worker evaluates; this class passes on."""

    @modal.enter(snap=True)
    def load(self) -> None:
        """What a snapshot may hold: our modules. Judge and zygote start after it: no two may be copies of one."""
        import kernel_env.server.modal_host  # noqa: F401

    @modal.enter()
    async def begin(self) -> None:
        await self.up()

    @modal.method()
    async def describe(self) -> dict[str, Any]:
        return (await self.up()).told()

    @modal.method()
    async def evaluate(self, request: dict[str, Any], waited_s: float, alone: bool) -> dict[str, Any]:
        return await (await self.up()).evaluate(request, waited_s, alone)

    @modal.exit()
    async def end(self) -> None:
        await self.host.close()

    async def up(self) -> ModalHost:
        """The host, once its device can evaluate; raises `RuntimeError`, which ends the container."""
        from kernel_env.server.modal_host import make

        if not hasattr(self, "host"):
            self.host = make()
        if not await self.host.up(UP_S):
            raise RuntimeError(f"no device to evaluate on: {self.host.told()['message']}")
        return self.host


@app.function(
    image=image,
    cpu=2.0,
    memory=4096,
    env=SETTINGS | {"KERNEL_ENV_POOL": "modal", "KERNEL_ENV_EVALUATOR": "gpu"},
    secrets=TOKEN,
    timeout=DAY_S,
    scaledown_window=IDLE_S,
    # A session lives in this one container: a second one would not know it.
    max_containers=1,
)
@modal.concurrent(max_inputs=1000)
@modal.web_server(PORT, startup_timeout=60.0, requires_proxy_auth=True)
def web() -> None:
    subprocess.Popen(START)


@app.function(image=test_image, gpu=GPU, cpu=CPUS, memory=MEMORY_MB, timeout=2 * 3600, retries=0)
def gpu_tests() -> None:
    """Fails where a test does."""
    subprocess.run(TESTS, cwd=APP, check=True)
