"""`KernelEvolve`: rewrites a PyTorch `Model` into a verified kernel. Saves a run however it ends.

EvoFabric's names and call shape. Never imports or runs a candidate; believes the evaluator alone.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_env import __version__

from .accounts import elapsed_s, notes, usage
from .bench import Bench, Limits
from .chat import Chat, OpenAIChat
from .config import EvolveConfig
from .errors import ConfigError, EvaluatorError, EvolveError, RunFolderError
from .evaluator import BaseEvaluator, GPUEvaluator
from .folder import JOURNAL, RunFolder, fresh_path
from .journal import FORMAT, read
from .llm_config import LLMConfig
from .memory import Memory, ReplayChat, ReplayEvaluator
from .prompts import own_problem
from .redact import MARK, Redactor
from .report import render
from .result import Best, EvolveResult
from .run import ANSWER_CAP, Run, Stopped, Terms
from .standing import estimate, faster, noise, spread
from .task import check_form, task_hash
from .tree import Node

RUNS = Path("runs")
INTERRUPT_S = 0.2

Watch = Callable[[Run], None]


class KernelEvolve:
    """`success, result = KernelEvolve(initial_code, llm_config, evaluator).evolve()`.

    `initial_code` is source in KernelBench's form. `config` holds strategy, budget, stop rules and so on; its
    sections `llm` and `evaluator` are for the command line. `run_dir` (a new one below `runs/` by default) keeps
    the run; with `resume` it goes on there. `record` copies answers and evaluations into a file of their own.
    `control` spends the same budget once more on independent drafts, in the folder `control` of the run's. `chat`
    takes the place of the endpoint, and is its owner's to close. `watch` is called whenever something changed. All
    of the constructor's errors are `ConfigError`s, raised before anything is spent.
    """

    def __init__(
        self,
        initial_code: str,
        llm_config: LLMConfig | None,
        evaluator: BaseEvaluator | None = None,
        *,
        config: EvolveConfig | None = None,
        run_dir: str | Path | None = None,
        resume: bool = False,
        record: str | Path | None = None,
        control: bool = False,
        chat: Chat | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.initial_code = check_form(initial_code)
        self.config = config or EvolveConfig()
        self.llm_config = llm_config
        self.evaluator = evaluator or GPUEvaluator()
        self.run_dir = Path(run_dir) if run_dir is not None else None
        self._resume = resume
        self._record = Path(record) if record is not None else None
        self._control = control
        self._chat = chat
        self.watch = watch
        self._replayed: Memory | None = None
        if resume and run_dir is None:
            raise ConfigError("to resume, name the run's folder: run_dir")
        if llm_config is None and chat is None:
            raise ConfigError("no model: give an LLMConfig")
        self.price = self.config.prices.get(self.model_name)
        if self.config.budget.usd is not None and self.price is None:
            raise ConfigError(
                f"budget.usd needs the price of {self.model_name!r}: give prices: {{{self.model_name}:"
                " {input: ..., output: ...}} in US dollars for a million tokens"
            )

    @classmethod
    def replay(
        cls, recording: str | Path, *, run_dir: str | Path | None = None, watch: Watch | None = None
    ) -> KernelEvolve:
        """The recorded run once more, without endpoint and evaluator: from a recording or a run's `run.jsonl`."""
        memory = Memory(read(Path(recording)))
        if not memory.head:
            raise RunFolderError(f"{recording} holds no run")
        evolve = cls(
            memory.head["initial_code"],
            None,
            ReplayEvaluator(memory),
            config=EvolveConfig.parse(memory.head["config"]),
            run_dir=run_dir,
            chat=ReplayChat(memory),
            watch=watch,
        )
        evolve._replayed = memory
        return evolve

    @property
    def model_name(self) -> str:
        return self.llm_config.model_name if self.llm_config else self.config.llm.model_name

    def evolve(self) -> EvolveResult:
        """Run to the end; Ctrl-C ends it saved. Also works where an event loop runs, which waits meanwhile."""
        if _in_a_loop():
            return _in_a_loop_of_its_own(lambda: self._evolve(keep_interrupt=True))
        return asyncio.run(self._evolve(keep_interrupt=True))

    async def aevolve(self) -> EvolveResult:
        """The same as a coroutine; cancelled, it saves the run and is cancelled."""
        return await self._evolve(keep_interrupt=False)

    async def _evolve(self, keep_interrupt: bool) -> EvolveResult:
        redact = Redactor([*(self.llm_config.secrets() if self.llm_config else ()), *self.evaluator.secrets()])
        path = self.run_dir or fresh_path(RUNS)
        folder = RunFolder(path, redact, self._resume)
        try:
            result = await self._in_folder(folder, redact, keep_interrupt)
        finally:
            folder.close()
        if not self._control or result.status > 2:
            return result
        return replace(result, control=await self._controlled(path / "control")._evolve(keep_interrupt))

    def _controlled(self, path: Path) -> KernelEvolve:
        """The same run with independent drafts only."""
        search = self.config.search.model_copy(update={"strategy": "best_of_n"})
        return KernelEvolve(
            self.initial_code,
            self.llm_config,
            self.evaluator,
            config=self.config.model_copy(update={"search": search}),
            run_dir=path,
            resume=(path / JOURNAL).is_file(),
            chat=self._chat,
            watch=self.watch,
        )

    async def _in_folder(self, folder: RunFolder, redact: Redactor, keep_interrupt: bool) -> EvolveResult:
        memory = Memory(folder.events)
        self._check_resumed(folder, memory)
        async with self._model(redact) as chat, _closing(self.evaluator):
            run: Run | None = None
            try:
                await self.evaluator.open()
                run = self._run(await self._terms(folder, memory), chat, folder, memory, redact)
                stopped = await run.go()
            except EvaluatorError as error:
                stopped = Stopped("evaluator", redact(str(error)))
            except EvolveError as error:
                self._finish(folder, run, Stopped("error", str(error)))
                raise
            except asyncio.CancelledError:
                stopped = Stopped("interrupted", "the run was interrupted")
                if not keep_interrupt:
                    self._finish(folder, run, stopped)
                    raise
            return self._finish(folder, run, stopped)

    @asynccontextmanager
    async def _model(self, redact: Redactor) -> AsyncIterator[Chat]:
        if self._chat is not None:
            yield self._chat
            return
        assert self.llm_config is not None  # the constructor asked for it
        async with OpenAIChat(self.llm_config, redact, self._answer_cap(sent=True)) as chat:
            yield chat

    def _check_resumed(self, folder: RunFolder, memory: Memory) -> None:
        """A resumed run goes on with the same task, language and search. Raises `RunFolderError`."""
        if not memory.head:
            return
        search = self.config.search.model_dump(mode="json")
        found = {
            "task": (memory.head["task_hash"], task_hash(self.initial_code)),
            "language": (memory.head["evaluator"]["language"], self.evaluator.language),
            **{f"search.{name}": (memory.head["config"]["search"].get(name), search[name]) for name in search},
        }
        for name, (then, now) in found.items():
            if then != now:
                raise RunFolderError(f"{folder.path} was begun with {name}={then!r}, not {now!r}: begin a new run")

    def _answer_cap(self, sent: bool = False) -> int | None:
        """Tokens of an answer. A budget of tokens or dollars needs a limit; without one none is sent."""
        budget = self.config.budget
        given = self.llm_config.answer_cap if self.llm_config else None
        if given is not None or (sent and budget.tokens is None and budget.usd is None):
            return given
        return ANSWER_CAP

    async def _terms(self, folder: RunFolder, memory: Memory) -> Terms:
        """What the run works under; the first event of the journal, or a note that it goes on."""
        known = memory.head or (self._replayed.head if self._replayed else {})
        problem = known.get("problem")
        if problem is None:
            problem = await self.evaluator.problem(self.initial_code) or own_problem(
                self.initial_code, self.evaluator.language
            )
        described = self.evaluator.describe()
        shown = self.llm_config.shown() if self.llm_config else {"model_name": self.model_name}
        if memory.head:
            folder.journal.write("resumed", llm=shown, evaluator=described)
        else:
            folder.journal.write(
                "run",
                durable=True,
                format=FORMAT,
                version=__version__,
                initial_code=self.initial_code,
                task_hash=task_hash(self.initial_code),
                problem=problem,
                config=self._saved_config(),
                llm=shown,
                evaluator=described,
            )
        folder.write_config(self._saved_config())
        wall_s = self.config.budget.wall_seconds
        left_s = None if wall_s is None else wall_s - elapsed_s(folder.events)
        return Terms(self.config, self.initial_code, problem, self.price, self._answer_cap() or ANSWER_CAP, left_s)

    def _saved_config(self) -> dict[str, Any]:
        """The settings without secrets; the model and the evaluator as they are, wherever they were given."""
        saved = self.config.model_dump(mode="json")
        client = self.llm_config.client_options if self.llm_config else {}
        headers = {**saved["llm"]["headers"], **(client.get("default_headers") or {})}
        saved["llm"]["headers"] = dict.fromkeys(headers, MARK)
        for name in ("default_headers", "default_query"):
            saved["llm"]["options"].pop(name, None)
        if self.llm_config is not None:
            shown = self.llm_config.shown()
            saved["llm"] |= {name: shown[name] for name in ("model_class", "model_name", "base_url")}
            saved["llm"]["options"] = dict(self.llm_config.sampling)
        saved["evaluator"]["language"] = self.evaluator.language
        if isinstance(self.evaluator, GPUEvaluator):
            saved["evaluator"] |= {"url": self.evaluator.base_url, "kind": self.evaluator.kind}
        return saved

    def _run(self, terms: Terms, chat: Chat, folder: RunFolder, memory: Memory, redact: Redactor) -> Run:
        bench = Bench(
            self.evaluator,
            self.initial_code,
            memory,
            folder.journal,
            redact,
            Limits(self.config.parallel.evaluations, self.config.parallel.evaluation_timeout_s),
            told=lambda change: run.evaluating(change),
        )
        run = Run(terms, chat, bench, folder, memory, changed=lambda: self.watch(run) if self.watch else None)
        run.best_changed = lambda node: folder.write_best(node.code or "", self._facts(run, node))
        return run

    def _finish(self, folder: RunFolder, run: Run | None, stopped: Stopped) -> EvolveResult:
        """Say why the run ended, write the report and the recording, work out the result."""
        events = read(folder.journal.path)
        if events:  # else the evaluator never came up, and there is nothing to go on with
            folder.journal.write("stop", durable=True, kind=stopped.kind, reason=stopped.text)
            events = read(folder.journal.path)
            folder.write("report.html", render(events))
        if events and self._record is not None:
            shutil.copyfile(folder.journal.path, self._record)
        nodes = tuple(run.tree.nodes) if run else ()
        best = None
        if run is not None and run.tree.best is not None:
            best = _best(run, run.tree.nodes[run.tree.best])
        failures = Counter("quarantined" if node.quarantine else node.stage for node in nodes if not node.verified)
        return EvolveResult(
            success=best is not None,
            result=best.code if best else _reason(len(nodes), failures, stopped),
            best=best,
            history=nodes,
            usage=usage(events, self.price),
            stop_kind=stopped.kind,
            stop_reason=stopped.text,
            run_dir=folder.path,
            failures=dict(failures),
            notes=notes(events),
        )

    def _facts(self, run: Run, node: Node) -> dict[str, Any]:
        best = _best(run, node)
        return {
            "node": node.id,
            "program": node.key,
            "task_hash": task_hash(self.initial_code),
            "speedup": best.speedup,
            "spread": best.spread,
            "idea": node.idea,
            "model": node.model,
            "first": node.metrics.to_dict() if node.metrics else None,
            "confirmations": [metrics.to_dict() for metrics in node.confirmations],
            "evaluator": self.evaluator.describe(),
            "version": __version__,
        }


@asynccontextmanager
async def _closing(evaluator: BaseEvaluator) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await evaluator.close()


def _best(run: Run, node: Node) -> Best:
    between = noise(run.tree.nodes)
    return Best(
        node=node.id,
        code=node.code or "",
        speedup=estimate(node),
        spread=math.exp(spread(node, between)),
        faster=faster(node, between),
        metrics=node.confirmations[-1],
        confirmations=len(node.confirmations),
    )


def _reason(candidates: int, failures: Counter[str], stopped: Stopped) -> str:
    counts = ", ".join(f"{count} at {stage}" for stage, count in failures.most_common())
    told = f"{candidates} candidates, {counts}" if counts else f"{candidates} candidates"
    return f"no program was verified ({told}); {stopped.text}"


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_a_loop_of_its_own(work: Callable[[], Coroutine[Any, Any, EvolveResult]]) -> EvolveResult:
    """Run in a thread, whose loop is ended when this one is interrupted."""
    outcome: Future[EvolveResult] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> EvolveResult:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        return await work()

    def run() -> None:
        # Whatever ends the run is raised in the caller's thread.
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="evolve", daemon=True).start()
    try:
        _wait_for(outcome, asyncio.current_task())
    except KeyboardInterrupt:
        loop, task = started.result()
        loop.call_soon_threadsafe(task.cancel)
    return outcome.result()


def _wait_for(outcome: Future[EvolveResult], outer: asyncio.Task[Any] | None) -> None:
    """Raises KeyboardInterrupt also where the loop takes an interrupt for itself, by cancelling its task."""
    while not outcome.done():
        wait([outcome], timeout=INTERRUPT_S)
        if outer is not None and outer.cancelling() and not outcome.done():
            raise KeyboardInterrupt
