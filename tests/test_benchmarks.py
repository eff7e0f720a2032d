"""The benchmarks run as documented and say what they promise; their figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SERVER_OVERHEAD = "-m", "benchmarks.server_overhead"


@pytest.mark.parametrize("server", ["mock", "unchecked", "stock"])
def test_server_overhead(server: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = "--servers", server, "--sessions", "1,3", "--seconds", "0.5", "--json", str(report)
    done = subprocess.run(
        [sys.executable, *SERVER_OVERHEAD, *options], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "server ms/step" in done.stdout
    (table,) = json.loads(report.read_text())["servers"]
    assert [(row["sessions"], row["loop"]) for row in table["rows"]] == [
        (1, "closed"),
        (3, "closed"),
        (3, "1 a s"),
    ]
    for row in table["rows"]:
        assert 0.0 < row["p50_ms"] <= row["p99_ms"]
        assert row["steps"] >= row["sessions"]
        assert row["reply_bytes"] > 1000
    assert table["rss_bytes"] > 0


def test_a_bad_option_is_explained() -> None:
    done = subprocess.run(
        [sys.executable, *SERVER_OVERHEAD, "--servers", "mine"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "use some of mock, unchecked, stock" in done.stderr
