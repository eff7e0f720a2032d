"""Folders of servers that live are left alone, by whatever number they go; all others are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernel_env.server.folders import PREFIX, Claim, remove, sweep

HOLD = "from kernel_env.server.folders import Claim; print(Claim().path, flush=True); input()"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_swept_once_its_server_is_gone(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        made = server.stdout.readline().strip()
        # As seen from another PID namespace: the number says nothing here.
        folder = made.replace(f"-{server.pid}-", "-999999999-")
        os.rename(made, folder)
        sweep()
        assert os.path.isdir(folder)
        server.kill()
    sweep()
    assert not os.path.exists(folder)


def test_only_our_own_unclaimed_folders_are_swept(temporary: Path) -> None:
    names = ["kernel-env-results", f"{PREFIX}12-abc.tar", "kernel-env-1-x-y", "other-1-abc"]
    for name in names:
        (temporary / name).mkdir()
    target = temporary / "target"
    target.mkdir()
    (temporary / f"{PREFIX}1-link").symlink_to(target)
    (temporary / f"{PREFIX}1-file").write_text("")
    (temporary / f"{PREFIX}{os.getpid()}-left").mkdir()
    claim = Claim()
    sweep()
    left = {entry.name for entry in temporary.iterdir()}
    assert left == {*names, "target", f"{PREFIX}1-link", f"{PREFIX}1-file", Path(claim.path).name}
    claim.release()
    assert not os.path.exists(claim.path)


def test_sweeps_do_not_take_folders_that_are_being_claimed(temporary: Path) -> None:
    with ThreadPoolExecutor() as threads:
        sweeps = [threads.submit(sweep) for _ in range(20)]
        claims = list(threads.map(lambda _: Claim(), range(50)))
        for done in sweeps:
            done.result(20.0)
    assert all(os.path.isdir(claim.path) for claim in claims)
    for claim in claims:
        claim.release()
    assert not list(temporary.iterdir())


def test_a_closed_folder_is_removed(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.chmod(0)
    remove(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()
