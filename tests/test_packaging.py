"""What is installed, declared and documented agrees with what is in the tree."""

from __future__ import annotations

import os
import re
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import yaml

import kernel_env
from kernel_env.server import config

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
FOLDERS = {"kernel_env": ROOT / "kernel_env", "kernel_env.server": ROOT / "server"}


def files_of(package: str) -> list[Path]:
    folder = FOLDERS[package]
    return [f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts]


def test_every_package_is_installed() -> None:
    found = set()
    for package, folder in FOLDERS.items():
        for init in folder.rglob("__init__.py"):
            found.add(".".join([package, *init.parent.relative_to(folder).parts]))
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_data_file_is_installed() -> None:
    declared = PROJECT["tool"]["setuptools"]["package-data"]
    for package, folder in FOLDERS.items():
        for file in files_of(package):
            is_module = file.suffix == ".py" and (file.parent / "__init__.py").exists()
            name = file.relative_to(folder).as_posix()
            assert is_module or any(fnmatch(name, pattern) for pattern in declared[package]), name


def test_one_version() -> None:
    version = PROJECT["project"]["version"]
    assert kernel_env.__version__ == version
    assert yaml.safe_load((ROOT / "openenv.yaml").read_text())["version"] == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_installed_metadata() -> None:
    installed = metadata.metadata("openenv-kernel_env")
    assert installed["License-Expression"] == "MIT"
    scripts = {e.name: e.value for e in metadata.distribution("openenv-kernel_env").entry_points}
    assert scripts["kernel-env"] == "kernel_env.cli:main"
    assert scripts["server"] == "kernel_env.server.app:main"
    assert (ROOT / "kernel_env" / "py.typed").is_file()


def test_continuous_integration_runs_the_documented_command() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith(("#", "set "))]
    assert commands[-1] == "exec make test"
    assert "make test" in README
    assert "make demo" in README


def test_the_readme_is_a_space() -> None:
    front = yaml.safe_load(README.split("---")[1])
    assert (front["sdk"], front["app_port"]) == ("docker", 8000)
    assert "openenv" in front["tags"]


def test_every_setting_is_documented() -> None:
    read = config.names()
    assert len(read) > 15
    documented = set(re.findall(r"`((?:KERNEL|ENABLE)[A-Z_]+)`", README))
    assert read <= documented, f"not in the README's table: {sorted(read - documented)}"
