"""openenv's own validation passes: static, against a running server, and the runtime graders.

The runtime graders run through a small provider of ours: the stock one needs Docker. It starts the package as
a plain process on the mock evaluator, so it builds nothing, confines nothing, and leaves the network alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from openenv.auto import AutoAction, AutoEnv
from openenv.cli._cli_utils import validate_env_structure
from openenv.cli._validation import validate_running_environment
from openenv.validation import (
    CheckStatus,
    ExecResult,
    Level,
    ProviderCapability,
    ValidationReport,
    Verdict,
    run_validation,
)
from openenv.validation.manifest import ExecutionDeclaration
from openenv.validation.runtime.contracts import LaunchSpec

import kernel_env.client

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "outputs")


class ProcessSubject:
    """The running server; the launcher that started it also ends it."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def inspect(self) -> dict[str, str]:
        return {"base_url": self.base_url}

    def logs(self, max_bytes: int = 65536) -> str:
        return ""

    def exec(self, argv: list[str], timeout_s: float) -> ExecResult:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s)
        return ExecResult(done.returncode, done.stdout, done.stderr, 0.0)

    def stop(self) -> None:
        return None


class ProcessProvider:
    """`serve` starts the package's server and returns its URL."""

    name = "process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def __init__(self, serve: Callable[[], str]) -> None:
        self._serve = serve

    def build(self, root: Path, execution: ExecutionDeclaration) -> str:
        assert (root / execution.dockerfile).is_file()
        return "sha256:" + "0" * 64

    def start(self, spec: LaunchSpec) -> ProcessSubject:
        return ProcessSubject(self._serve())


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout that nothing changes while it is validated."""
    copy = tmp_path_factory.mktemp("package") / "kernel_env"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    return copy


def statuses(report: ValidationReport) -> dict[str, CheckStatus]:
    return {result.check_id: result.status for result in report.results}


def test_static(package: Path) -> None:
    report = run_validation(package, max_level=Level.STATIC)
    assert report.verdict is Verdict.PASS, report.results


def test_static_by_command(package: Path) -> None:
    command = [str(Path(sys.executable).with_name("openenv")), "validate", str(package), "--level", "static"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_running_server(server: str) -> None:
    report = validate_running_environment(server, timeout_s=20.0)
    assert report["passed"], report


@pytest.mark.filterwarnings("ignore:connect.* must be used as a context manager:DeprecationWarning")
def test_runtime_graders(package: Path, server: str) -> None:
    report = run_validation(package, max_level=Level.RUNTIME, provider=ProcessProvider(lambda: server))
    found = statuses(report)
    passed = {name for name, status in found.items() if status is CheckStatus.PASS}
    assert passed >= {
        "static.manifest",
        "runtime.startup",
        "runtime.reward_well_formed",
        "runtime.observation_schema",
        "runtime.state_contract",
    }, [(r.check_id, r.status, r.evidence) for r in report.results]
    assert not {CheckStatus.FAIL, CheckStatus.ERROR} & set(found.values()), report.results


def test_structure_that_push_asks_for(package: Path) -> None:
    (package / "outputs").mkdir(exist_ok=True)
    assert validate_env_structure(package) == []


def test_auto_env_finds_the_package() -> None:
    assert AutoEnv.get_env_class("kernel") is kernel_env.client.KernelEnv
    assert AutoAction.from_env("kernel") is kernel_env.client.KernelAction


def test_the_repository_holds_no_links() -> None:
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if not name.startswith(".") or name == ".ci"]
        for name in (*names, *files):
            path = Path(folder, name)
            assert not path.is_symlink(), f"{path} is a symbolic link; openenv refuses to validate those"
