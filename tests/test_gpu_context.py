"""Contexts are quick or slow, of which either can be had, and PyTorch takes the one that was drawn."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kernel_env.server.local import visible_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")]

DRAWN = """
import json, sys
import torch
from kernel_env.server import context
limit, drawn = context.limit(), context.Context()
kinds = []
for quick in (True, False, True) if limit else ():
    found = drawn.draw(limit, quick)
    kinds.append((found <= limit) == quick)
context_us = context.pace() if limit else 0.0
print(json.dumps([limit, kinds, context_us, torch.ones(3, device="cuda").sum().item()]))
"""


def test_a_context_of_either_kind_can_be_had() -> None:
    done = subprocess.run([sys.executable, "-c", DRAWN], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    limit, kinds, context_us, total = json.loads(done.stdout)
    assert total == 3.0
    assert limit == 0.0 or 0.5 < limit < 40.0
    assert all(kinds)
    assert limit == 0.0 or 0.5 < context_us < 40.0
