"""KernelEvolve without a model: a script of candidates, and strategies compared on spaces that are known whole.

`script` evolves `diag(A) @ B + D` from candidates of every kind, with the real evaluator. `measure` evaluates each
point of four kernel templates a few times, in any number of sittings. `compare` then lets a policy that draws and
mutates parameters play the model for each strategy, at equal budget, on those measurements: no device is needed,
and any number of seeds is cheap. What a language model would do is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_env.evolve import BaseEvaluator, EvolveConfig, EvolveResult, GPUEvaluator, KernelEvolve, Metrics, Reply
from kernel_env.evolve.chat import Message
from kernel_env.evolve.run import Run

from .evaluations import natural, progress
from .machine import machine, show
from .search_script import SCRIPT, TASK, VERIFIED
from .search_templates import Point, Template, parameters_in, templates
from .tables import digits, percent, table

STRATEGIES = ("best_of_n", "refine", "beam", "islands")
NEAR = 0.95
PACKAGES = ("openenv", "openai", "torch", "triton")


def main() -> None:
    given = _options()
    sys.exit(given.act(given))


# The script.


class Script:
    """Plays the model: candidate k gets answer k."""

    async def complete(self, node: int, messages: list[Message], may_retry: Callable[[], bool]) -> Reply:
        return Reply(SCRIPT[node].answer, "script", "stop", 0, 0)


def script(given: argparse.Namespace) -> int:
    """0 if each candidate ended where its kind must, and a verified one won."""
    show(machine(PACKAGES))
    result = KernelEvolve(
        TASK.replace("{size}", str(given.size)),
        None,
        GPUEvaluator(kind=given.evaluator),
        config=EvolveConfig.parse({"budget": {"calls": len(SCRIPT), "evaluations": None}}),
        run_dir=given.run_dir,
        chat=Script(),
        watch=_settled(),
    ).evolve()
    print(table(["candidate", "kind", "stage", "first x", "confirmed x"], _scripted(result)))
    if result.best is not None:
        best = result.best
        confirmed = "not timed here" if best.speedup is None else f"{digits(best.speedup)}x confirmed"
        print(f"\nwinner: {SCRIPT[best.node].name}, {confirmed}; {result.run_dir}/report.html")
    faults = _unexpected(result, given.evaluator == "mock")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _settled() -> Callable[[Run], None]:
    seen: set[int] = set()

    def watch(run: Run) -> None:
        for node in run.tree.nodes:
            if node.id not in seen:
                seen.add(node.id)
                progress(f"{SCRIPT[node.id].name}: {node.stage}")

    return watch


def _scripted(result: EvolveResult) -> list[list[str]]:
    rows = []
    for node in result.history:
        first = node.metrics.speedup if node.metrics is not None and node.metrics.timed else None
        score = node.score if node.confirmations and node.score else None
        stage = node.stage if node.duplicate_of is None else f"same as {node.duplicate_of}"
        rows.append([str(node.id), SCRIPT[node.id].name, stage, digits(first), digits(score)])
    return rows


def _unexpected(result: EvolveResult, mock: bool) -> list[str]:
    """What ended otherwise than its kind must. The mock evaluator runs nothing, and so knows only texts."""
    faults = [] if result.success else [f"nothing won: {result.result}"]
    if len(result.history) != len(SCRIPT):
        faults.append(f"{len(result.history)} of {len(SCRIPT)} candidates: {result.stop_reason}")
    for node in result.history if not mock else ():
        if node.stage not in SCRIPT[node.id].stages:
            faults.append(f"{SCRIPT[node.id].name} ended at {node.stage}: {node.feedback}")
    if result.best is not None and not mock and SCRIPT[result.best.node].name not in VERIFIED:
        faults.append(f"{SCRIPT[result.best.node].name} won")
    return faults


# Measuring templates whole.


@dataclass(frozen=True)
class Sample:
    """One evaluation of one point."""

    template: str
    point: Point
    metrics: dict[str, Any]


def measure(given: argparse.Namespace) -> int:
    """0 when every point has its evaluations."""
    show(machine(PACKAGES))
    return asyncio.run(_measure(given))


async def _measure(given: argparse.Namespace) -> int:
    end = time.monotonic() + given.seconds
    done = Counter((s.template, json.dumps(s.point)) for s in load(given.table))
    todo = [
        (template, point)
        for count in range(given.times)
        for template in chosen(given)
        for point in template.points()
        if done[template.name, json.dumps(point)] <= count
    ]
    slots = asyncio.Semaphore(given.at_once)
    left = len(todo)
    async with GPUEvaluator(kind=given.evaluator) as evaluator:

        async def one(template: Template, point: Point) -> None:
            nonlocal left
            async with slots:
                if time.monotonic() > end:
                    return
                metrics = await evaluator.evaluate(template.task, template.program(point))
                if metrics.infrastructure:
                    progress(f"{template.name} {point}: {metrics.error}")
                    return
                with given.table.open("a") as file:
                    file.write(json.dumps(asdict(Sample(template.name, point, metrics.to_dict()))) + "\n")
                left -= 1

        await asyncio.gather(*(one(template, point) for template, point in todo))
    progress(f"{left} of {len(todo)} evaluations are left: run it again" if left else "all points are measured")
    return 1 if left else 0


def load(path: Path) -> list[Sample]:
    return [Sample(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def chosen(given: argparse.Namespace) -> list[Template]:
    return [one for one in templates(given.small) if not given.templates or one.name in given.templates]


# Comparing strategies.


class Policy:
    """Plays the model: a draft draws a point, another version moves one parameter of the program that it is shown.

    It heeds what the prompt says was tried already, as a model would.
    """

    def __init__(self, template: Template, seed: int) -> None:
        self._template = template
        self._seed = seed

    async def complete(self, node: int, messages: list[Message], may_retry: Callable[[], bool]) -> Reply:
        rng = random.Random(f"{self._seed} {node}")
        shown = parameters_in(messages[-1]["content"])
        point = self._moved(shown[0], messages[-1]["content"], rng) if shown else self._drawn(rng)
        code = self._template.program(point)
        return Reply(f"Idea: {json.dumps(point)}\n```python\n{code}```\n", "policy", "stop", 0, 0)

    def _drawn(self, rng: random.Random) -> Point:
        return rng.choice(self._template.points())

    def _moved(self, point: Point, prompt: str, rng: random.Random) -> Point:
        near = [other for other in self._neighbours(point) if f"- {json.dumps(other)}:" not in prompt]
        return rng.choice(near) if near else self._drawn(rng)

    def _neighbours(self, point: Point) -> list[Point]:
        found = []
        for name, values in self._template.space.items():
            place = list(values).index(point[name])
            found += [{**point, name: values[near]} for near in (place - 1, place + 1) if 0 <= near < len(values)]
        return found


class Table(BaseEvaluator):
    """Answers from the measurements of a template: the k-th evaluation of a program is its k-th sample."""

    def __init__(self, samples: list[Sample]) -> None:
        self._samples: dict[str, list[Metrics]] = {}
        for sample in samples:
            self._samples.setdefault(json.dumps(sample.point), []).append(Metrics.from_dict(sample.metrics))
        self._seen: Counter[str] = Counter()

    async def evaluate(self, initial_code: str, evolve_code: str) -> Metrics:
        name = json.dumps(parameters_in(evolve_code)[0])
        found = self._samples[name]
        metrics = found[self._seen[name] % len(found)]
        self._seen[name] += 1
        return metrics

    def truth(self, point: Point) -> float:
        """The median speedup of all samples; 0 of a point that fails."""
        times = [metrics.speedup for metrics in self._samples[json.dumps(point)] if metrics.timed]
        return statistics.median(times) if times else 0.0

    @property
    def optimum(self) -> float:
        return max(self.truth(json.loads(name)) for name in self._samples)


@dataclass(frozen=True)
class Trial:
    """One run. `reached` is the share of the optimum that its best has, `near_after` the evaluations until it was
    `NEAR` or more, None if it never was."""

    template: str
    strategy: str
    seed: int
    reached: float
    near_after: int | None
    evaluations: int


def compare(given: argparse.Namespace) -> int:
    samples = load(given.table)
    trials: list[Trial] = []
    for template in chosen(given):
        own = [sample for sample in samples if sample.template == template.name]
        missing = {json.dumps(p) for p in template.points()} - {json.dumps(s.point) for s in own}
        if missing:
            print(f"{template.name}: {len(missing)} points are not measured yet", file=sys.stderr)
            return 1
        progress(f"{template.name}: optimum {digits(Table(own).optimum)}x over {len(template.points())} points")
        for strategy in STRATEGIES:
            trials += [trial(template, own, strategy, seed, given.evaluations) for seed in range(given.seeds)]
    print(report(trials))
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in trials], indent=1) + "\n")
    return 0


def trial(template: Template, samples: list[Sample], strategy: str, seed: int, evaluations: int) -> Trial:
    evaluator = Table(samples)
    optimum = evaluator.optimum
    near: list[int] = []

    def watch(run: Run) -> None:
        best = run.tree.best
        code = run.tree.nodes[best].code if best is not None else None
        if not near and code is not None and evaluator.truth(parameters_in(code)[0]) >= NEAR * optimum:
            near.append(run.ledger.spent.evaluations)

    config = {
        "search": {"strategy": strategy, "seed": seed},
        "budget": {"evaluations": evaluations, "calls": 8 * evaluations},
        "stop": {"stale": None},
    }
    with tempfile.TemporaryDirectory(prefix="kernel-env-evolve-") as folder:
        result = KernelEvolve(
            template.task,
            None,
            evaluator,
            config=EvolveConfig.parse(config),
            run_dir=Path(folder, "run"),
            chat=Policy(template, seed),
            watch=watch,
        ).evolve()
    reached = evaluator.truth(parameters_in(result.best.code)[0]) / optimum if result.best else 0.0
    return Trial(template.name, strategy, seed, reached, near[0] if near else None, result.usage.evaluations)


def report(trials: list[Trial]) -> str:
    header = [
        "template",
        "strategy",
        "runs",
        "of optimum %",
        "worst %",
        f"{NEAR:.0%} reached %",
        "after evaluations",
    ]
    rows = []
    for template, strategy in dict.fromkeys((one.template, one.strategy) for one in trials):
        own = [one for one in trials if (one.template, one.strategy) == (template, strategy)]
        after = [one.near_after for one in own if one.near_after is not None]
        rows.append(
            [
                template,
                strategy,
                str(len(own)),
                percent(statistics.mean(one.reached for one in own)),
                percent(min(one.reached for one in own)),
                percent(len(after) / len(own)),
                digits(statistics.mean(after), 3) if after else "-",
            ]
        )
    return table(header, rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evolve", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("script", help="evolve diag(A) @ B + D from a script")
    one.add_argument("--size", type=int, default=4096, help="N and M, 4096 by default")
    one.add_argument("--run-dir", type=Path, help="a new folder below runs/ by default")
    one.set_defaults(act=script)
    two = commands.add_parser("measure", help="evaluate every point of the templates")
    two.add_argument("--times", type=natural, default=3, help="evaluations of each point, 3 by default")
    two.add_argument("--seconds", type=float, default=3600.0, help="begin nothing after so long")
    two.add_argument("--at-once", type=natural, default=1, help="as many as there are devices")
    two.set_defaults(act=measure)
    three = commands.add_parser("compare", help="compare strategies on what was measured")
    three.add_argument("--seeds", type=natural, default=20, help="runs of each strategy, 20 by default")
    three.add_argument("--evaluations", type=natural, default=24, help="the budget of each run, 24 by default")
    three.add_argument("--json", type=Path, help="write every run here")
    three.set_defaults(act=compare)
    for command in (two, three):
        command.add_argument("table", type=Path, help="JSON lines, one for each evaluation")
        command.add_argument("--templates", nargs="*", default=[], help="names; all by default")
        command.add_argument("--small", action="store_true", help="sizes for an interpreter")
    for command in (one, two):
        default = os.environ.get("KERNEL_ENV_EVALUATOR", "auto")
        command.add_argument("--evaluator", choices=("auto", "gpu", "cpu", "mock"), default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
