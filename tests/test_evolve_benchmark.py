"""The benchmark of KernelEvolve without a device: the script runs, spaces are measured, strategies compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import evolve
from benchmarks.search_script import TASK
from benchmarks.search_templates import parameters_in, templates
from kernel_env.evolve.task import check_form


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["evolve", *arguments])
    with pytest.raises(SystemExit) as ended:
        evolve.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status = command(monkeypatch, "script", "--evaluator", "mock", "--run-dir", str(tmp_path / "run"))
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "same as 5" in shown
    # The static checks of the mock evaluator are real.
    assert all("format" in line for line in shown.splitlines() if "pytorch" in line or "cached" in line)
    assert "winner: " in shown
    assert (tmp_path / "run" / "report.html").is_file()


def test_templates_are_measured_and_strategies_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = str(tmp_path / "table.jsonl")
    own = ("--templates", "diagonal")
    assert command(monkeypatch, "compare", measured, *own) == 1
    assert "30 points are not measured yet" in capsys.readouterr().err
    assert command(monkeypatch, "measure", measured, *own, "--evaluator", "mock", "--seconds", "0") == 1
    assert command(monkeypatch, "measure", measured, *own, "--evaluator", "mock", "--times", "1") == 0
    assert len(evolve.load(Path(measured))) == 30
    out = tmp_path / "trials.json"
    options = ("--seeds", "2", "--evaluations", "6", "--json", str(out))
    assert command(monkeypatch, "compare", measured, *own, *options) == 0
    trials = json.loads(out.read_text())
    assert [trial["strategy"] for trial in trials[::2]] == list(evolve.STRATEGIES)
    assert all(0.0 < trial["reached"] <= 1.0 and trial["evaluations"] <= 6 for trial in trials)
    shown = capsys.readouterr().out
    assert all(strategy in shown for strategy in evolve.STRATEGIES)


def test_the_policy_moves_one_parameter_and_heeds_what_was_tried() -> None:
    template = templates()[0]
    policy = evolve.Policy(template, 1)
    point = template.points()[7]
    near = policy._neighbours(point)
    assert all(sum(point[name] != other[name] for name in point) == 1 for other in near)
    assert parameters_in(template.program(point)) == [point]


def test_every_point_is_a_program_that_the_checks_let_through() -> None:
    from kernel_env.server.checks import check

    for template in templates():
        check_form(template.task)
        assert check(template.program(template.points()[0]), "triton", 1 << 18) is None, template.name
    check_form(TASK.replace("{size}", "4096"))
