"""The programs of examples/, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "examples"
RUN_S = 200.0

# As conftest has it: openenv does without gradio, whose import takes seconds.
LAUNCHER = """
import runpy, sys
sys.modules['gradio'] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


def run_example(name: str, *arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Without the settings of whoever runs the tests, and without a network that answers."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("KERNEL", "OPENAI"))}
    given = {"PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(cwd / "hf")}
    return subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(FOLDER / name), *arguments],
        env={**clean, **given, **environ},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
