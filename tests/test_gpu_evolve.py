"""KernelEvolve on a GPU: the script of candidates under the real clock, templates, a whole run with its report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import evolve
from benchmarks.search_script import SCRIPT
from benchmarks.search_templates import templates
from kernel_env.evolve import GPUEvaluator
from kernel_env.evolve.journal import read
from kernel_env.server.local import visible_gpus

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not visible_gpus(), reason="no CUDA device"),
]


def test_each_candidate_ends_where_its_kind_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What wins is verified, confirmed and many times faster: the reference multiplies two large matrices."""
    run = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["evolve", "script", "--evaluator", "gpu", "--run-dir", str(run)])
    with pytest.raises(SystemExit) as ended:
        evolve.main()
    assert ended.value.code == 0
    best = json.loads((run / "best.json").read_text())
    assert SCRIPT[best["node"]].name in ("good", "larger", "eight warps")
    assert best["speedup"] > 5.0
    digests = {
        metrics["details"]["seeds_digest"]
        for event in read(run / "run.jsonl")
        if event["event"] == "evaluation" and event["program"] == best["program"]
        for metrics in [event["metrics"]]
    }
    assert len(digests) >= 2


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
async def test_templates_are_right_and_timed(template: evolve.Template) -> None:
    async with GPUEvaluator(kind="gpu") as evaluator:
        metrics = await evaluator.evaluate(template.task, template.program(template.points()[-1]))
    assert metrics.correct, metrics.feedback
    assert metrics.timed
    assert metrics.device_seconds > 0.0
