"""`report.html`: a run as one file that needs nothing else, no network, no scripts. Made from the journal alone.

Everything in it that a model or an evaluator wrote is escaped, and the page's own policy forbids to load anything.
Its parts: the outcome, speedup over candidates, lineage, failures by stage, spending, every candidate with its
verdict, its difference to the parent, prompt and answer, and the task.
"""

from __future__ import annotations

import difflib
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from . import charts
from .accounts import elapsed_s, notes, usage
from .charts import Mark
from .config import EvolveConfig
from .journal import Event
from .memory import Memory
from .metrics import Metrics
from .program import read_answer

LEGEND = {
    "best": "was the best",
    "verified": "verified",
    "failed": "failed",
    "quarantined": "quarantined",
    "duplicate": "seen before",
    "none": "no verdict",
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(events: Sequence[Event]) -> str:
    """The page; also of a run that has just begun, or that never could."""
    memory = Memory(events)
    nodes = [memory.nodes[number] for number in sorted(memory.nodes)]
    programs = {number: _code(event) for number, event in memory.answers.items()}
    marks = _marks(nodes)
    body = [
        _head(events, memory, nodes),
        _section("Speedup over candidates", _chart(marks)),
        _section("Lineage", f'<div class="picture">{charts.lineage(marks)}</div>') if marks else "",
        _section("Where candidates ended", _stages(nodes)),
        _section("Spending", _spending(events, memory)),
        _section("Candidates", "".join(_candidate(node, memory, programs) for node in nodes)),
        _section("Task and settings", _task(memory)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>KernelEvolve: {escape(_title(memory))}</title><style>{_css()}</style></head><body>"
        f"{''.join(body)}</body></html>\n"
    )


def _css() -> str:
    return resources.files(__package__ or "").joinpath("report.css").read_text(encoding="utf-8")


def _code(event: Event) -> str | None:
    reply = event["reply"]
    return read_answer(reply["text"], reply["finish_reason"]).code


def _title(memory: Memory) -> str:
    return f"task {memory.head.get('task_hash', 'unknown')}"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _kind(node: Event) -> str:
    if node["quarantine"]:
        return "quarantined"
    if node["duplicate_of"] is not None:
        return "duplicate"
    if node["best"]:
        return "best"
    if node["score"] is not None:
        return "verified"
    return "none" if node["stage"] in ("endpoint", "infrastructure", "answer") else "failed"


def _marks(nodes: Sequence[Event]) -> list[Mark]:
    scores = {node["node"]: node["score"] for node in nodes}
    return [
        Mark(
            id=node["node"],
            parent=node["parent"],
            kind=_kind(node),
            score=None if node["quarantine"] else node["score"],
            best_so_far=scores.get(node["best_node"]),
            outcome=_outcome(node),
            idea=node["idea"],
        )
        for node in nodes
    ]


def _outcome(node: Event) -> str:
    if node["quarantine"]:
        return "quarantined"
    if node["duplicate_of"] is not None:
        return f"same as {node['duplicate_of']}"
    if node["score"] is None:
        return f"failed at {node['stage']}"
    return _times(node["score"]) if node["score"] else "correct, not timed"


def _times(value: float) -> str:
    return f"{value:.3g}x"


def _head(events: Sequence[Event], memory: Memory, nodes: Sequence[Event]) -> str:
    head = memory.head
    model = escape(str((head.get("llm") or {}).get("model_name") or "unknown"))
    search = (head.get("config") or {}).get("search", {})
    stop = next((event for event in reversed(events) if event["event"] == "stop"), None)
    ended = f"Ended: {escape(stop['reason'])}." if stop else "Still running, or ended without notice."
    total = usage(events, _price(memory))
    tiles = {
        "candidates": len(nodes),
        "verified": sum(node["score"] is not None and node["duplicate_of"] is None for node in nodes),
        "evaluations": total.evaluations,
        "tokens": f"{total.tokens:,}",
        "dollars": f"{total.usd:.2f}" if _price(memory) else "no price",
        "device s": f"{total.gpu_seconds:.0f}",
        "minutes": f"{elapsed_s(events) / 60:.1f}",
    }
    shown = "".join(f"<div><b>{escape(str(value))}</b><span>{name}</span></div>" for name, value in tiles.items())
    told = "".join(f'<p class="note">{escape(note)}</p>' for note in notes(events))
    return (
        f"<h1>KernelEvolve: {escape(_title(memory))}</h1>"
        f'<p class="soft">{escape(str(search.get("strategy", "unknown")))}, seed {search.get("seed", "-")}'
        f", model {model}, {escape(str((head.get('evaluator') or {}).get('language', '')))}. {ended}</p>"
        f"{_headline(memory, nodes)}{told}<div class='tiles'>{shown}</div>"
    )


def _headline(memory: Memory, nodes: Sequence[Event]) -> str:
    number = nodes[-1]["best_node"] if nodes else None
    if number is None:
        return '<p class="headline">No program was verified and confirmed.</p>'
    best = memory.nodes[number]
    link = f'<a href="#n{number}">candidate {number}</a>'
    found = [metrics for place, metrics in _evaluations(memory, best["program"]) if place]
    timed = [metrics.speedup for metrics in found if metrics.timed]
    if not timed:
        return f'<p class="headline">{link} is verified and confirmed; this device does not time it.</p>'
    confirmed = statistics.median(timed)
    first = memory.evaluation(best["program"], 0)
    times = f"{len(timed)} time{'s' if len(timed) > 1 else ''}"
    told = f", {_times(first.speedup)} when first measured" if first is not None else ""
    return f'<p class="headline"><b>{_times(confirmed)}</b> by {link}, confirmed {times}{told}</p>'


def _evaluations(memory: Memory, program: str) -> list[tuple[int, Metrics]]:
    keys = sorted(key for key in memory.evaluations if key[0] == program)
    return [(number, Metrics.from_dict(memory.evaluations[name, number]["metrics"])) for name, number in keys]


def _chart(marks: Sequence[Mark]) -> str:
    if not marks:
        return "<p class='soft'>No candidate was settled.</p>"
    legend = "".join(f'<span><i class="{kind}"></i>{text}</span>' for kind, text in LEGEND.items())
    return (
        f'<div class="picture chart">{charts.speedups(marks)}</div><div class="legend">{legend}'
        "<span>steps: the confirmed best</span></div>"
    )


def _stages(nodes: Sequence[Event]) -> str:
    counts = Counter("quarantined" if node["quarantine"] else node["stage"] for node in nodes)
    most = max(counts.values(), default=1)
    rows = "".join(
        f'<tr><th>{escape(stage)}</th><td class="number">{count}</td><td style="width:65%">'
        f'<span class="bar {escape(stage)}" style="width:{100 * count / most:.0f}%"></span></td></tr>'
        for stage, count in counts.most_common()
    )
    return f"<table>{rows}</table>"


def _spending(events: Sequence[Event], memory: Memory) -> str:
    spent = usage(events, _price(memory)).to_dict()
    limits = (memory.head.get("config") or {}).get("budget", {})
    limits = {**limits, "wall_seconds": limits.get("wall_seconds")}
    spent["wall_seconds"] = round(elapsed_s(events), 1)
    rows = "".join(
        f'<tr><th>{escape(unit)}</th><td class="number">{value:,}</td><td class="number">'
        f"{'no limit' if limits.get(unit) is None else f'of {limits[unit]:,}'}</td></tr>"
        for unit, value in spent.items()
    )
    return f"<table>{rows}</table>"


def _price(memory: Memory) -> Any:
    if not memory.head:
        return None
    name = (memory.head.get("llm") or {}).get("model_name", "")
    return EvolveConfig.parse(memory.head["config"]).prices.get(name)


def _candidate(node: Event, memory: Memory, programs: dict[int, str | None]) -> str:
    number, kind = node["node"], _kind(node)
    parent = f'of <a href="#n{node["parent"]}">{node["parent"]}</a>' if node["parent"] is not None else ""
    parts = [
        f'<h3><span>{number}</span><span class="tag {kind}">{escape(_outcome(node))}</span>'
        f'<span class="soft">{escape(node["role"])} {parent}</span></h3>'
    ]
    if node["idea"]:
        parts.append(f"<p>{escape(node['idea'])}</p>")
    if node["quarantine"]:
        parts.append(f'<p class="note">Quarantined, and nobody\'s parent: {escape(node["quarantine"])}</p>')
    parts.append(_measured(node, memory))
    if node["feedback"]:
        parts.append(_details("verdict", node["feedback"], "text"))
    code = programs.get(number)
    before = programs.get(node["parent"]) if node["parent"] is not None else None
    if code is not None and before is not None:
        shown = f"<pre>{_diff(before, code)}</pre>"
        parts.append(f"<details><summary>difference to {node['parent']}</summary>{shown}</details>")
    if code is not None:
        parts.append(_details("program", code))
    answer = memory.answers.get(number)
    if answer is not None:
        prompt = "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in answer["messages"])
        parts += [_details("prompt", prompt, "text"), _details("answer", answer["reply"]["text"], "text")]
    return f'<div class="candidate" id="n{number}">{"".join(parts)}</div>'


def _measured(node: Event, memory: Memory) -> str:
    if node["program"] is None or node["duplicate_of"] is not None:
        return ""
    rows = []
    for number, metrics in _evaluations(memory, node["program"]):
        if not math.isfinite(metrics.speedup) or metrics.error is not None:
            continue
        low, high = metrics.speedup_low, metrics.speedup_high
        interval = f"{low:.3g} to {high:.3g}" if low is not None and high is not None else "-"
        share = f"{metrics.roofline_frac:.0%}" if metrics.roofline_frac is not None else "-"
        name = f"confirmation {number}" if number else "first"
        rows.append(
            f'<tr><th>{name}</th><td class="number">{_times(metrics.speedup)}</td><td>{interval}</td>'
            f"<td>{metrics.optimized_time:.4g} against {metrics.original_time:.4g} {escape(metrics.unit)}</td>"
            f"<td>roofline {share}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _details(title: str, text: str, kind: str = "") -> str:
    return f'<details><summary>{title}</summary><pre class="{kind}">{escape(text)}</pre></details>'


def _diff(before: str, after: str) -> str:
    lines: Iterable[str] = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    marks = {"+": "ins", "-": "del"}
    shown = []
    for line in list(lines)[2:]:
        tag = marks.get(line[:1])
        shown.append(f"<{tag}>{escape(line)}</{tag}>" if tag else f"{escape(line)}\n")
    return "".join(shown) or "none"


def _task(memory: Memory) -> str:
    head = memory.head
    if not head:
        return "<p class='soft'>Nothing was saved.</p>"
    settings = json.dumps({"evaluator": head["evaluator"], **head["config"]}, indent=2)
    return _details("reference", head["initial_code"]) + _details("settings", settings)
