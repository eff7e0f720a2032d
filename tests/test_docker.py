"""The Dockerfile without Docker: what it copies is there and allowed; who runs what; one port; pinned versions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LOCK = (ROOT / "requirements" / "lock.txt").read_text().split()
HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))


def instructions() -> list[tuple[str, str]]:
    """Keyword and the rest, continued lines joined, comments left out."""
    lines = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def given(keyword: str) -> list[str]:
    return [rest for word, rest in instructions() if word == keyword]


def in_context(name: str) -> bool:
    """Whether .dockerignore lets a file into the build; the last pattern that fits decides."""
    allowed = True
    for pattern in (ROOT / ".dockerignore").read_text().split():
        plain = pattern.removeprefix("!").removeprefix("**/")
        if any(fnmatch(part, plain) for part in (name, *Path(name).parts)):
            allowed = pattern.startswith("!")
    return allowed


def test_what_is_copied_is_there_and_in_the_context() -> None:
    copied = [source for rest in given("COPY") if "--from" not in rest for source in rest.split()[:-1]]
    assert {"kernel_env", "server", "requirements", "pyproject.toml"} <= set(copied)
    for source in copied:
        assert (ROOT / source).exists(), source
        assert in_context(source), source
    for name in (".git", ".venv", "tests", "benchmarks", "server/__pycache__", "kernel_env/x.pyc"):
        assert not in_context(name), name


def test_what_the_packages_need_is_copied() -> None:
    """A wheel is built from the copied files alone; the licence and the readme are part of its metadata."""
    project = (ROOT / "pyproject.toml").read_text()
    for name in re.findall(r'(?:readme|license-files) = \[?"([^"]+)"', project):
        assert name in " ".join(given("COPY")).split()


def test_the_server_is_no_root_and_listens_on_the_declared_port() -> None:
    assert given("USER")[-1] != "0"
    assert given("USER")[-1] != "root"
    words = [word for word, _ in instructions()]
    assert words.index("USER") > max(index for index, word in enumerate(words) if word in ("RUN", "COPY"))
    command = json.loads(given("CMD")[0])
    assert command[:2] == ["kernel-env", "serve"]
    port = command[command.index("--port") + 1]
    assert given("EXPOSE") == [port]
    assert f"127.0.0.1:{port}/health" in given("HEALTHCHECK")[0]
    readme = yaml.safe_load((ROOT / "README.md").read_text().split("---")[1])
    manifest = yaml.safe_load((ROOT / "openenv.yaml").read_text())
    assert readme["app_port"] == manifest["port"] == int(port)
    assert manifest["validation"]["execution"]["dockerfile"] == "Dockerfile"


def test_versions_are_pinned() -> None:
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.+!]+", line) for line in LOCK)
    torch = (ROOT / "requirements" / "torch.txt").read_text().strip()
    assert torch in LOCK
    installs = [rest for rest in given("RUN") if "pip install" in rest]
    assert all("--constraint requirements/lock.txt" in rest for rest in installs)
    declared = re.findall(r'^  ?"([a-zA-Z0-9_-]+)[><=]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    locked = {line.partition("==")[0] for line in LOCK}
    assert {name.lower().replace("_", "-") for name in declared} <= locked
    assert re.search(r"FROM \S+:\d+\.\d+\.\d+-devel-ubuntu24.04", DOCKERFILE)


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
def test_hadolint_has_nothing_to_say() -> None:
    assert HADOLINT is not None
    told = subprocess.run(
        [HADOLINT, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.returncode, told.stdout) == (0, "")
