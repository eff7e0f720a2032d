"""Settings: what is read, and that a bad value stops the start with its name, its value and what is allowed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from kernel_env.server import pools
from kernel_env.server.config import Settings, SettingsError, unknown

from .conftest import Launch

MAIN = "from kernel_env.server.app import main; main()"
UVICORN = "import uvicorn; uvicorn.run('kernel_env.server.app:app', port=0)"


def start(program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**clean, "KERNEL_ENV_EVALUATOR": "mock", "KERNEL_ENV_PORT": "0", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


BAD = {
    "KERNEL_ENV_EVALUATOR": ("tpu", "auto, gpu, cpu, mock"),
    "KERNEL_ENV_REWARD": ("fast", "speedup, roofline"),
    "KERNEL_ENV_POOL": ("slurm", "local, ray, modal"),
    "KERNEL_ENV_RAY_CPUS": ("-1", "from 0 to 1024"),
    "KERNEL_ENV_LOG": ("xml", "text, json"),
    "KERNEL_ENV_MAX_TURNS": ("0", "from 1 to 1000"),
    "KERNEL_ENV_MAX_SESSIONS": ("many", "whole number"),
    "KERNEL_ENV_ROOFLINE_REJECT": ("nan", "from 0 to 1"),
    "KERNEL_ENV_BASELINE": ("inductor", "eager, compile"),
    "KERNEL_ENV_CHECKS": ("lax", "standard, strict"),
    "KERNEL_ENV_PEAKS": ("tf32=500", "bandwidth=..., each once"),
    "KERNEL_ENV_GPUS": ("0,a", "comma list"),
    "KERNELBENCH_DIR": ("/nowhere/KernelBench", "not a folder"),
    "ENABLE_WEB_INTERFACE": ("maybe", "true or false"),
    "KERNEL_ENV_TASKS": ("/nowhere/task.py", "/nowhere/task.py"),
    "KERNEL_ENV_EVAL_LOG": ("/dev/null/x.jsonl", "name a file in a folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_stops_the_start(name: str) -> None:
    value, allowed = BAD[name]
    ended = start(MAIN, **{name: value})
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    for part in (name, value, allowed):
        assert part in ended.stderr
    assert ended.stdout == ""


def test_a_bad_value_stops_another_programs_uvicorn_too() -> None:
    ended = start(UVICORN, KERNEL_ENV_MAX_TURNS="0")
    assert ended.returncode != 0
    assert "KERNEL_ENV_MAX_TURNS='0' is not allowed" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_stops_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = start(MAIN, KERNEL_ENV_PORT=str(taken.getsockname()[1]))
    assert ended.returncode != 0
    assert "KERNEL_ENV_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_settings_reach_the_server(launch: Launch, tmp_path: Path) -> None:
    task = tmp_path / "level1" / "1_Mine.py"
    task.parent.mkdir()
    task.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        "        return x + 1\n\n\ndef get_inputs():\n    return [torch.rand(4)]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    server = launch(
        KERNEL_ENV_TASKS=str(tmp_path),
        KERNEL_ENV_MAX_TURNS="2",
        KERNEL_ENV_MAX_SESSIONS="7",
        KERNEL_ENV_RESUME_S="9",
    )
    health = server.health()
    assert (health["max_sessions"], health["tasks"]) == (7, 1)
    with server.connect() as wire:
        observation = wire.reset(task_id="level1/1_Mine")
        assert observation["observation"]["max_turns"] == 2
        assert observation["metadata"]["resume_s"] == 9.0
    server.stop()


def test_the_defaults_are_documented_ones() -> None:
    settings = Settings.from_env({})
    assert (settings.host, settings.port, settings.max_sessions, settings.max_turns) == ("127.0.0.1", 8000, 64, 4)
    assert (settings.evaluator, settings.reward, settings.web, settings.token) == ("auto", "speedup", False, "")
    assert "secret" not in repr(Settings.from_env({"KERNEL_ENV_TOKEN": "secret"}))


def test_a_device_named_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="names a device twice"):
        Settings.from_env({"KERNEL_ENV_GPUS": "0,0"})


@pytest.mark.parametrize("module", ["server.app", "kernel_env.server.app"])
def test_the_application_is_found_by_its_name(module: str) -> None:
    """As `openenv.yaml` and plain uvicorn name it, from a checkout; one set of modules either way."""
    program = (
        f"import sys, importlib; sys.path.insert(0, '.'); app = importlib.import_module('{module}').app\n"
        "assert any(getattr(route, 'path', '') == '/ws' for route in app.routes)\n"
        "assert not [name for name in sys.modules if name.startswith('server.') and name != 'server.app']\n"
        "assert 'torch' not in sys.modules and 'gradio' not in sys.modules\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "KERNEL_ENV_EVALUATOR": "mock"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("pool", ["ray", "modal"])
def test_a_pool_whose_package_is_missing_is_refused(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=rf"pip install 'openenv-kernel_env\[{pool}\]'"):
        pools.pool_for(Settings.from_env({"KERNEL_ENV_POOL": pool}))


@pytest.mark.parametrize(
    ("asked", "instead"),
    [({"KERNEL_ENV_EVALUATOR": "gpu"}, "use auto or cpu"), ({"KERNEL_ENV_GPUS": "0"}, "leave it unset")],
)
def test_a_gpu_that_is_asked_for_must_be_there(asked: dict[str, str], instead: str) -> None:
    ended = start(MAIN, **{"KERNEL_ENV_EVALUATOR": "auto", "CUDA_VISIBLE_DEVICES": "", **asked})
    assert ended.returncode != 0
    (line,) = ended.stderr.splitlines()
    ((name, value),) = asked.items()
    for part in (f"{name}={value} needs a GPU", "CUDA_VISIBLE_DEVICES=''", instead):
        assert part in line


def test_what_kubernetes_sets_for_a_service_of_this_name_is_recognised() -> None:
    with pytest.raises(SettingsError, match="enableServiceLinks: false"):
        Settings.from_env({"KERNEL_ENV_PORT": "tcp://10.0.0.7:8000"})


def test_names_that_are_no_settings_are_told() -> None:
    given = {"KERNEL_ENV_MAX_TURN": "9", "KERNEL_ENV_TOKEN": "t", "KERNEL_ENV_MODAL_GPU": "H100", "HOME": "/"}
    assert unknown(given) == {"KERNEL_ENV_MAX_TURN": "KERNEL_ENV_MAX_TURNS"}


def test_the_log_tells_what_an_operator_asks(launch: Launch) -> None:
    server = launch(KERNEL_ENV_TOKEN="sesame", KERNEL_ENV_MAX_TURN="9")
    assert server.get("/metrics").status_code == 401
    with pytest.raises(InvalidStatus):
        server.connect()
    server.stop()
    log = server.stderr.read_text()
    assert "KERNEL_ENV_MAX_TURN is no setting; did you mean KERNEL_ENV_MAX_TURNS?" in log
    assert "ready to evaluate on mock" in log
    for path in ("/metrics", "/ws"):
        assert f"'{path}' refused from 127.0.0.1: send the server's token" in log
    assert log.rstrip().endswith("stopping")
    assert "ERROR" not in log
