"""The end of a process of ours."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from kernel_env.server.child import Child
from kernel_env.server.frames import FrameError
from kernel_env.server.sandbox import trusted_environment

HANG = "import atexit, time; atexit.register(time.sleep, 60)"


async def test_a_judge_leaves_without_the_interpreters_teardown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANG)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))
    starts = [Child.start("judge", ["cpu"], trusted_environment({}), str(tmp_path), 60.0) for _ in range(2)]
    idle, failing = await asyncio.gather(*starts)
    started = time.monotonic()
    await idle.stop()
    assert idle._process.returncode == 0
    with pytest.raises(FrameError):
        await failing.ask({"no": "request"}, timeout_s=20.0)
    await failing.stop()
    assert failing._process.returncode == 1
    assert time.monotonic() - started < 20.0
    assert "Traceback" in capfd.readouterr().err
