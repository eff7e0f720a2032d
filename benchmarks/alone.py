"""A case handed to a program of ours in a process of its own: `python -m benchmarks.NAME FOLDER ...`.

`FOLDER` holds `task.py` and `submission.py`. The program's last line of output is its result, in JSON. The process
is killed when it takes too long, and never left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from .cases import Case

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 300.0


async def alone(program: str, case: Case, *arguments: str, **environ: str) -> tuple[dict[str, Any] | None, str]:
    """What it printed, and why there is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        _lay(Path(folder), case)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"benchmarks.{program}", folder, *arguments),
            cwd=ROOT,
            env={**os.environ, **environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                output, errors = await process.communicate()
        except TimeoutError:
            return None, f"not done after {LIMIT_S:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        return None, errors.decode(errors="replace").strip()[-300:]
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found, ""


def _lay(folder: Path, case: Case) -> None:
    (folder / "task.py").write_text(case.task.source)
    (folder / "submission.py").write_text(case.code)
