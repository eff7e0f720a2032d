"""`kernel-env eval-run`: judge every kernel of a run directory that has no result yet.

Status 0 when every kernel has a result, 1 when some could not be judged (the same command goes on with them), 2
when the command could not be carried out. A kernel that was changed since it was judged is judged again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import (
    AUTO,
    LANGUAGES,
    USAGE,
    check_language,
    err,
    fail,
    leave_gradio_out,
    load_tasks,
    out,
    pool_of,
    progress,
    settings_from,
    steps,
)

if TYPE_CHECKING:
    from kernel_env.toolkit.attempt import Attempt
    from kernel_env.toolkit.batch import Unjudged, Work
    from kernel_env.toolkit.evaluators import Evaluator
    from kernel_env.toolkit.folder import Sample
    from kernel_env.toolkit.problems import Place
    from kernel_env.toolkit.results import Results

SAVE_EVERY_S = 2.0


def eval_run(
    folder: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Holds level_L_problem_P_sample_S_kernel.py.")],
    level: Annotated[list[int] | None, typer.Option(help="Only this level; may be repeated.")] = None,
    problems: Annotated[str | None, typer.Option(help="Only these problems, such as 1-10,23.")] = None,
    language: Annotated[str, typer.Option(help=f"{LANGUAGES[:-1]}; auto: by what a file uses.")] = AUTO,
    url: Annotated[
        str | None, typer.Option("--url", "--base-url", help="A running server; without it, evaluate here.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Connections to the server at one time.")] = 8,
    evaluator: Annotated[
        str | None, typer.Option(help="auto, gpu, cpu or mock, without --url [KERNEL_ENV_EVALUATOR].")
    ] = None,
    gpus: Annotated[str | None, typer.Option(help="Device indices, as in 0,1 [KERNEL_ENV_GPUS].")] = None,
    sources: Annotated[
        str | None, typer.Option("--tasks", help="Task sources, without --url [KERNEL_ENV_TASKS].")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="eager or compile, without --url [KERNEL_ENV_BASELINE].")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, fp16 or bf16, without --url [KERNEL_ENV_PRECISION].")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Judge also what has a result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A summary as one JSON object.")] = False,
) -> None:
    """Judge the kernels of a run directory; results go into eval_results.json, in KernelBench's format."""
    from kernel_env.toolkit.evaluators import EvaluatorError
    from kernel_env.toolkit.folder import FolderError, locked
    from kernel_env.toolkit.problems import SelectionError
    from kernel_env.toolkit.results import ResultsError

    check_language(language, AUTO)
    options = {
        "KERNEL_ENV_EVALUATOR": evaluator,
        "KERNEL_ENV_GPUS": gpus,
        "KERNEL_ENV_TASKS": sources,
        "KERNEL_ENV_BASELINE": baseline,
        "KERNEL_ENV_PRECISION": precision,
    }
    try:
        given = None if url is not None else settings_from(options).precision
        run = _Run.of(folder, level, problems, language, again, given)
        with locked(folder):
            asyncio.run(run.judge(evaluator_for(url, at_once, options)))
    except (FolderError, ResultsError, SelectionError, EvaluatorError, OSError) as error:
        fail(error, USAGE)
    run.tell(as_json)
    raise typer.Exit(1 if run.unjudged or run.stopped else 0)


def evaluator_for(url: str | None, at_once: int, options: Mapping[str, object]) -> Evaluator:
    """A server's, or workers of this process."""
    from kernel_env.toolkit.evaluators import LocalEvaluator, ServerEvaluator

    if url is not None:
        leave_gradio_out()
        return ServerEvaluator(url, at_once)
    settings = settings_from(options)
    return LocalEvaluator(settings, load_tasks(settings), pool_of(settings))


@dataclass
class _Run:
    """The kernels that were chosen, the results files, and what became of them.

    `precision`: what is judged now; None where a server knows.
    """

    kernels: dict[Sample, Path]
    results: dict[int, Results]
    language: str
    again: bool
    precision: str | None
    judged: list[Attempt] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    kept: int = 0
    seconds: float = 0.0
    stopped: str = ""

    @classmethod
    def of(
        cls,
        folder: Path,
        levels: list[int] | None,
        problems: str | None,
        language: str,
        again: bool,
        precision: str | None,
    ) -> _Run:
        from kernel_env.toolkit.folder import FolderError, kernels, results_files
        from kernel_env.toolkit.problems import numbers
        from kernel_env.toolkit.results import Results

        found = kernels(folder)
        wanted = None if problems is None else numbers(problems)
        chosen = {
            sample: file
            for sample, file in found.items()
            if (not levels or sample.level in levels) and (wanted is None or sample.problem in wanted)
        }
        if not chosen:
            told = f"holds {len(found)} kernels, none of them chosen" if found else "holds no kernel"
            raise FolderError(f"{folder} {told}; kernels are named level_1_problem_19_sample_0_kernel.py")
        files = results_files(folder, {sample.level for sample in found})
        results = {level: Results(file, level) for level, file in files.items()}
        return cls(chosen, results, language, again, precision)

    async def judge(self, evaluator: Evaluator) -> None:
        from kernel_env.toolkit.batch import judge
        from kernel_env.toolkit.evaluators import EvaluatorError
        from kernel_env.toolkit.problems import by_place

        began = saved = time.monotonic()
        stack = AsyncExitStack()
        try:
            work = self._work(by_place(await evaluator.task_ids()))
            if work:
                with progress("Starting the evaluator"):
                    await stack.enter_async_context(evaluator)
            with steps("Evaluating", len(work)) as step:
                async for result in judge(evaluator, work):
                    step(self._take(result))
                    if time.monotonic() - saved > SAVE_EVERY_S:
                        self._save()
                        saved = time.monotonic()
        except EvaluatorError as error:
            if not self.judged:
                raise
            self.stopped = str(error)
        finally:
            self._save()
            self._tell_passes()
            self.seconds = time.monotonic() - began
            await stack.aclose()

    def _work(self, tasks: Mapping[Place, str]) -> list[Work]:
        from kernel_env.extract import extract_code
        from kernel_env.server.languages import guess
        from kernel_env.toolkit.batch import Unjudged, Work
        from kernel_env.toolkit.folder import read_text

        work = []
        for sample, file in self.kernels.items():
            task_id = tasks.get((sample.level, sample.problem))
            if task_id is None:
                reason = f"no usable task is problem {sample.problem} of level {sample.level}"
                self.unjudged.append(Unjudged(sample, "", reason))
                continue
            code = extract_code(read_text(file))
            if self._known(sample, code):
                self.kept += 1
                continue
            language = guess(code) if self.language == AUTO else self.language
            work.append(Work(sample, task_id, language, code))
        return work

    def _known(self, sample: Sample, code: str) -> bool:
        """Has this very text been judged? An entry of another tool does not say, and stands."""
        from kernel_env.toolkit.folder import FolderError
        from kernel_env.toolkit.results import OWN

        entry = None if self.again else self.results[sample.level].find(sample)
        if entry is None:
            return False
        own = entry["metadata"].get(OWN)
        known = own.get("code_hash") if isinstance(own, dict) else None
        before = own.get("precision") if isinstance(own, dict) else None
        if self.precision and before and before != self.precision:
            raise FolderError(
                f"{self.results[sample.level].file} holds results in {before}, this is {self.precision};"
                " judge them in another directory, or all of it with --again"
            )
        return known is None or known == hashlib.sha256(code.encode()).hexdigest()[:16]

    def _take(self, result: Attempt | Unjudged) -> str:
        """Keep it; one line that tells of it."""
        from kernel_env.toolkit.batch import Unjudged

        if isinstance(result, Unjudged):
            self.unjudged.append(result)
            return f"{result.sample.stem} not judged: {result.reason[:200]}"
        self.judged.append(result)
        self.results[result.level].put(result)
        speedup = "" if result.speedup is None else f" {result.speedup:.2f}x"
        return f"level_{result.level}_problem_{result.problem}_sample_{result.number} {result.stage}{speedup}"

    def _save(self) -> None:
        for results in self.results.values():
            results.save()

    def _tell_passes(self) -> None:
        """pass@k beside the results, where some problem has several samples."""
        from kernel_env.toolkit import passes

        for results in self.results.values():
            attempts = list(results.attempts())
            if len({attempt.problem for attempt in attempts}) < len(attempts):
                passes.write(results.file, passes.table(attempts))

    def tell(self, as_json: bool) -> None:
        stages = Counter(attempt.stage for attempt in self.judged)
        files = [str(results.file) for results in self.results.values() if results.file.exists()]
        if as_json:
            told = {"judged": len(self.judged), "kept": self.kept, "stages": dict(stages), "files": files}
            left = [{"sample": result.sample.stem, "reason": result.reason} for result in self.unjudged]
            out.print(json.dumps({**told, "unjudged": left, "stopped": self.stopped}), markup=False)
            return
        counted = ", ".join(f"{count} {stage}" for stage, count in sorted(stages.items())) or "nothing new"
        out.print(f"{counted}; {self.kept} had a result; {self.seconds:.0f} s", markup=False)
        for file in files:
            out.print(file, markup=False)
        for result in self.unjudged:
            err.print(f"{result.sample.stem} was not judged: {result.reason[:300]}", style="yellow", markup=False)
        if self.stopped:
            err.print(f"kernel-env: {self.stopped}; run it again to go on", style="red", markup=False)
