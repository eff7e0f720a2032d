"""openenv's own generic clients, the installed release and 0.3, play an episode on our server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLD = ROOT / ".venv-compat" / "openenv-0.3"


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    plan = json.loads((ROOT / "validation" / "runtime.json").read_text())
    file = tmp_path / "submission.py"
    file.write_text(plan["actions"][-1]["code"])
    return file


def play(url: str, submission: Path, path: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(HERE / "generic_episode.py"), url, str(submission)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return seen


def check(seen: dict[str, object]) -> None:
    assert seen["task_id"] == "level1/e01_RowSoftmax"
    assert isinstance(seen["problem"], int)
    assert seen["problem"] > 1000
    assert (seen["stage"], seen["mock"], seen["done"]) == ("passed", True, False)
    assert isinstance(seen["reward"], float)
    assert 0.0 < seen["reward"] <= 3.3
    assert seen["step_count"] == 1


def test_the_installed_release(server: str, submission: Path) -> None:
    check(play(server, submission, ""))


@pytest.mark.skipif(not OLD.is_dir(), reason="no openenv 0.3 here; `make test` installs it")
def test_release_0_3(server: str, submission: Path) -> None:
    seen = play(server, submission, str(OLD))
    assert str(seen["openenv"]).startswith(str(OLD))
    check(seen)
