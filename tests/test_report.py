"""`kernel-env report` and `export`: pages and training data from logs and run directories."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kernel_env.server.peaks import Peak
from kernel_env.toolkit import baselines, logs, sources
from kernel_env.toolkit.comparison import compare
from kernel_env.toolkit.export import Choice, export
from kernel_env.toolkit.logs import LogError
from kernel_env.toolkit.report import flagged, render
from kernel_env.toolkit.sources import Run

from .commands import invoke
from .conftest import Launch
from .serving import scripted
from .test_score import EAGER, GOLDEN, attempt

EVIL = '</pre></svg><script>alert("$x$")</script><img src=x onerror=alert(1)>'


class Page(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def event(number: int, **fields: Any) -> dict[str, Any]:
    device = {"kind": "cuda", "name": "NVIDIA H200", "index": "0"}
    common = {
        "event": "step",
        "task_id": f"level1/{number % 7 + 1}_T",
        "episode_id": f"e{number}",
        "device": device,
    }
    found = {
        "stage": "passed",
        "outcome": {"kind": "passed"},
        "reward": 1.0,
        "code": "x = 1",
        "language": "triton",
    }
    times = {"speedup": 1.5, "speedup_low": 1.4, "speedup_high": 1.6, "runtime_ms": 1.0, "ref_runtime_ms": 1.5}
    roof = {
        "bound": "memory",
        "arithmetic_intensity": 0.0,
        "t_min_ms": 0.5,
        "time": f"2026-01-01T00:00:{number:02}Z",
    }
    return {**common, **found, **times, **roof, "code_hash": str(number), **fields}


def write(file: Path, *events: dict[str, Any]) -> Path:
    resets = [
        {"event": "reset", "episode_id": e["episode_id"], "problem": f"Solve {e['task_id']}"} for e in events
    ]
    file.write_text("".join(json.dumps(one) + "\n" for one in (*resets, *events)))
    return file


def cheat(number: int) -> dict[str, Any]:
    outcome = {"kind": "rejected", "message": EVIL}
    return event(
        number, stage="format", outcome=outcome, rule="torch-compute", code=EVIL, reward=0.0, speedup=None
    )


def test_a_page_shows_what_models_wrote_as_text_alone(tmp_path: Path) -> None:
    events = [cheat(1), event(2, task_id=f"level1/8_{EVIL}"), *(event(number) for number in range(3, 30))]
    first = write(tmp_path / "first.jsonl", *events)
    second = write(
        tmp_path / f"{re.sub('/', '', EVIL)}.jsonl", event(0, speedup=3.0, speedup_low=2.9, speedup_high=3.1)
    )
    page_file = tmp_path / "report.html"
    done = invoke("report", str(first), str(second), "-o", str(page_file))
    assert done.returncode == 0, done.stderr
    text = page_file.read_text()
    page = Page(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert not [value for name, value in page.attributes if name in ("href", "src") and not value.startswith("#")]
    assert page.tags.count("svg") == 6
    assert EVIL in page.text
    assert "torch-compute: 1" in page.text
    assert "Over 1 tasks that both solve" in page.text
    for figure in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(re.sub(r"&(?!amp|lt|gt|quot|apos|#)", "&amp;", figure))


def test_a_page_of_kernelbench_s_files(tmp_path: Path) -> None:
    page_file = tmp_path / "report.html"
    common = ("report", str(GOLDEN / "run" / "eval_results.json"), "-o", str(page_file), "--samples", "first")
    done = invoke(*common, "--level", "1", "--baseline", str(EAGER))
    assert done.returncode == 0, done.stderr
    text = Page(page_file.read_text()).text
    assert "4 of 5" in text
    assert "0.4000.118 to 0.769" in text
    assert "NVIDIA H100 80GB HBM3" in text
    assert "Speedup by task" in text
    nothing = invoke(*common)
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)


def test_figures_need_what_they_show() -> None:
    empty = render([Run("empty", [])], [], "best")
    assert "<svg" not in empty
    assert "No kernel has a time." in empty
    lone = attempt(
        1, 2.0, hardware="Toaster", stage="passed", t_min_ms=0.1, arithmetic_intensity=150.0, bound="compute"
    )
    assert "its peak rates are not known" in render([Run("lone", [lone])], [], "best")
    placed = render([Run("lone", [lone])], baselines.read(EAGER), "best", Peak(100.0, 200.0, 1000.0))
    assert "roof, TF32" in placed
    narrow = replace(lone, precision="bf16")
    higher = render([Run("lone", [narrow])], baselines.read(EAGER), "best", Peak(100.0, 200.0, 1000.0))
    assert "<td>bf16</td>" in higher
    assert higher.replace("bf16", "fp32") != placed, "under the roof of 16 bits"
    assert placed == render([Run("lone", [lone])], baselines.read(EAGER), "best", Peak(100.0, 200.0, 1000.0))


def test_ways_round_the_task_are_told_from_bad_form() -> None:
    bad = attempt(1, None, stage="format", outcome="rejected", rule="model-missing")
    guard = replace(bad, rule="guard")
    late = replace(bad, stage="timing", outcome="wrong_output", rule="")
    fast = replace(late, outcome="impossible_timing")
    wrong = replace(late, stage="correctness")
    found = flagged([bad, guard, guard, late, fast, wrong])
    assert [(flag.name, flag.count) for flag in found] == [
        ("guard", 2),
        ("impossible time", 1),
        ("wrong when timed", 1),
    ]


def test_two_runs_are_compared_where_both_are_right() -> None:
    first = [attempt(1, 1.0, speedup_low=0.9, speedup_high=1.1), attempt(2, 2.0), attempt(3, 2.0)]
    second = [attempt(1, 2.0, speedup_low=1.9, speedup_high=2.1), attempt(2, 1.0), attempt(4, 2.0)]
    found = compare(first, second)
    assert [(pair.task, pair.ratio, pair.apart) for pair in found.pairs] == [
        ("level1/1", 2.0, True),
        ("level1/2", 0.5, False),
    ]
    assert (found.only_first, found.only_second) == (["level1/3"], ["level1/4"])
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.0)


def test_a_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = write(tmp_path / "log.jsonl", event(0), event(7, stage="infrastructure"), event(14))
    with file.open("a") as log:
        log.write('{"event": "st')
    found = logs.read(file)
    assert [a.number for a in found.attempts] == [0, 1]
    assert (len(found.faults), found.unreadable) == (1, 1)
    assert found.attempts[0].problem_text == "Solve level1/1_T"
    (tmp_path / "text.txt").write_text("no log\n")
    with pytest.raises(LogError, match="no event log"):
        sources.read(tmp_path / "text.txt")


def test_training_data_are_right_whole_and_single() -> None:
    whole = attempt(1, 2.0, task_id="level1/1_T", code="```x```", problem_text="Solve it.")
    others = [
        replace(whole, speedup=4.0, code="y"),
        replace(whole, code=" ```x``` "),
        replace(whole, correct=False, code="w"),
        replace(whole, code=""),
        replace(whole, device="mock", code="m"),
        replace(whole, task_id="level1/2_T", speedup=1.0),
    ]
    found = export([whole, *others], Choice())
    assert [(line["task_id"], line["speedup"]) for line in found.lines] == [
        ("level1/1_T", 4.0),
        ("level1/1_T", 2.0),
        ("level1/2_T", 1.0),
    ]
    assert (found.no_text, found.repeated, found.slow) == (1, 1, 0)
    assert found.lines[1]["messages"] == [
        {"role": "user", "content": "Solve it."},
        {"role": "assistant", "content": "````python\n```x```\n````"},
    ]
    assert [line["speedup"] for line in export([whole, *others], Choice(speedup=1.5, best=1)).lines] == [4.0]


def test_a_server_s_log_becomes_training_data(launch: Launch, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    server = launch(scripted=True, KERNEL_ENV_EVAL_LOG=str(file), KERNEL_ENV_EVAL_LOG_CODE="true")
    with server.connect() as wire:
        problem = wire.reset(task_id="level1/e02_SiLU")["observation"]["problem"]
        wire.step(scripted(speedup=2.0))
        wire.step("x = 1")
    server.stop()
    fake = invoke("export", str(file), "-o", str(tmp_path / "sft.jsonl"))
    assert fake.returncode == 1
    file.write_text(file.read_text().replace('"kind":"mock"', '"kind":"cuda"'))
    done = invoke("export", str(file), "-o", str(tmp_path / "sft.jsonl"))
    assert done.returncode == 0, done.stderr
    (line,) = map(json.loads, (tmp_path / "sft.jsonl").read_text().splitlines())
    assert line["messages"][0]["content"] == problem
    assert "ModelNew" in line["messages"][1]["content"]
    assert (line["speedup"], line["task_id"]) == (2.0, "level1/e02_SiLU")
