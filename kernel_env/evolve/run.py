"""The loop of a run: proposes, asks, evaluates, settles; the tree grows in the order of the candidates' numbers.

Candidates are asked for and evaluated side by side, but settled one after the other: what follows from a
candidate (duplicates, confirmation, the best, stop rules, the budget) depends on those before it and on nothing
else. So a run that was killed and resumed has the tree of one that was not. Work that a stop overtakes is ended;
what it had brought stays in the journal.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from .bench import Bench
from .budget import Ledger, Spend
from .chat import Chat, Message, Reply, prompt_estimate
from .config import EvolveConfig, Price
from .errors import EndpointError, EvaluatorError, RunFolderError
from .folder import RunFolder
from .memory import Memory, digest
from .metrics import Metrics
from .program import key_of, read_answer
from .prompts import messages_for
from .standing import beats, challenges, estimate, noise
from .strategies import strategy_of
from .tree import Node, Proposal, Tree

FAULTS = 3  # in a row, and the endpoint or the evaluator is taken as down
ENOUGH = 5  # confirmations: one more would change little
ANSWER_CAP = 16_384  # tokens of an answer, where a budget needs a cap and the options give none


@dataclass(frozen=True)
class Stopped:
    """Why a run ended: `kind` is "budget", "target", "roofline", "patience", "stale", "endpoint", "evaluator",
    "error" or "interrupted"."""

    kind: str
    text: str


@dataclass(frozen=True)
class Terms:
    """What a run works under. `price` is that of the model, None where it is not known; `wall_s` what is left of
    the wall time, None for no limit."""

    config: EvolveConfig
    initial_code: str
    problem: str
    price: Price | None = None
    answer_cap: int = 0
    wall_s: float | None = None


@dataclass
class _Planned:
    proposal: Proposal
    messages: list[Message]


class Run:
    """`tree`, `ledger` and `doing` may be read at any time; `changed` is called when they change."""

    def __init__(
        self,
        terms: Terms,
        chat: Chat,
        bench: Bench,
        folder: RunFolder,
        memory: Memory,
        changed: Callable[[], None],
    ) -> None:
        self.tree = Tree()
        self.ledger = Ledger(terms.config.budget)
        self.doing = Counter({"asking": 0, "evaluating": 0})
        self.began = time.monotonic()
        self.terms = terms
        self.best_changed: Callable[[Node], None] = lambda node: None
        self._config = terms.config
        self._chat = chat
        self._bench = bench
        self._folder = folder
        self._memory = memory
        self._changed = changed
        self._strategy = strategy_of(self._config.search)
        self._calls = asyncio.Semaphore(self._config.parallel.llm)
        self._planned: list[_Planned] = []
        self._tasks: dict[int, asyncio.Task[Node]] = {}
        self._costs: dict[int, Spend] = {}
        self._longest_s = 0.0
        self._faults = 0

    async def go(self) -> Stopped:
        """Until a stop rule, the budget or a fault ends it. Raises `ConfigError` and `ReplayError`."""
        try:
            async with asyncio.timeout(self.terms.wall_s) as bound:
                return await self._loop()
        except TimeoutError:
            if not bound.expired():
                raise
            return Stopped("budget", f"the budget of {self._config.budget.wall_seconds:g} wall_seconds is spent")
        except EvaluatorError as error:
            return Stopped("evaluator", str(error))
        finally:
            await self._end()

    async def _loop(self) -> Stopped:
        while True:
            self._plan()
            lacking = self._launch()
            number = len(self.tree)
            if number not in self._tasks:
                return Stopped("budget", f"the budget of {lacking} is spent")
            try:
                node = await self._tasks[number]
            except EndpointError as error:
                return Stopped("endpoint", str(error))
            stopped = await self._settle(node) or self._reached()
            if stopped is not None:
                return stopped

    async def _end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._bench.stop()

    # Candidates, side by side.

    def _plan(self) -> None:
        """Propose every candidate whose horizon is the tree as it is."""
        while self._strategy.horizon(len(self._planned)) <= len(self.tree):
            number = len(self._planned)
            proposal = self._strategy.propose(number, self.tree)
            messages = messages_for(number, proposal, self.tree, self.terms.problem)
            self._planned.append(_Planned(proposal, messages))

    def _launch(self) -> str | None:
        """Begin as many as there is room and budget for, in order; the unit that is lacking for the next one."""
        parallel = self._config.parallel
        room = len(self.tree) + 2 * (parallel.llm + parallel.evaluations)
        for number in range(len(self._tasks), min(room, len(self._planned))):
            planned = self._planned[number]
            need = self._need(number, planned.messages)
            if not self.ledger.reserve(number, need):
                return self.ledger.lacking(need)
            self._tasks[number] = asyncio.create_task(self._grow(number, planned))
        return None

    def _need(self, number: int, messages: list[Message]) -> Spend:
        """The most that a candidate can cost: an answer, its evaluation and confirmation, the best once more."""
        evaluations = 3 if self._remeasures(number) else 2
        prompt = prompt_estimate(messages)
        return Spend(
            evaluations=evaluations,
            calls=1,
            tokens=prompt + self.terms.answer_cap,
            usd=self._usd(prompt, self.terms.answer_cap),
            gpu_seconds=self._longest_s * evaluations,
        )

    def _usd(self, prompt: int, completion: int) -> float:
        price = self.terms.price
        return (prompt * price.input + completion * price.output) / 1e6 if price else 0.0

    async def _grow(self, number: int, planned: _Planned) -> Node:
        """The candidate as answered and evaluated; not yet a part of the tree."""
        lost = self._memory.lost(number)
        if lost is not None:
            self._costs[number] = Spend(**lost["cost"])
            known = self._memory.reply(number)
            node = Node(number, planned.proposal, lost["stage"], lost["feedback"], lost["idea"])
            if known is not None:
                node.code = read_answer(known.text, known.finish_reason).code
                node.key, node.model = lost["program"], known.model
            return node
        try:
            reply = await self._answer(number, planned.messages)
        except EndpointError as error:
            if error.fatal:
                raise
            self._folder.journal.write("fault", node=number, error=str(error), requests=error.requests)
            self._costs[number] = Spend(calls=error.requests)
            return Node(number, planned.proposal, "endpoint", str(error))
        self._costs[number] = Spend(
            calls=reply.requests,
            tokens=reply.tokens,
            usd=self._usd(reply.prompt_tokens, reply.completion_tokens),
        )
        return await self._judged(number, planned.proposal, reply)

    async def _answer(self, number: int, messages: list[Message]) -> Reply:
        known = self._memory.reply(number)
        if known is not None:
            return known
        async with self._calls:
            self.doing["asking"] += 1
            self._changed()
            try:
                reply = await self._chat.complete(
                    number, messages, lambda: self.ledger.reserve(number, Spend(calls=1))
                )
            finally:
                self.doing["asking"] -= 1
        # Secrets go before anything is made of the answer: a resumed run works with what was saved.
        reply = replace(reply, text=self._folder.redact(reply.text))
        self._folder.journal.write(
            "answer", durable=True, node=number, digest=digest(messages), messages=messages, reply=reply.to_dict()
        )
        return reply

    async def _judged(self, number: int, proposal: Proposal, reply: Reply) -> Node:
        answer = read_answer(reply.text, reply.finish_reason)
        node = Node(number, proposal, "answer", answer.fault, answer.idea, model=reply.model)
        if answer.code is None:
            return node
        node.code, node.key = answer.code, key_of(answer.code)
        self._folder.write_candidate(number, answer.code)
        node.metrics = await self._bench.evaluate(node.key, answer.code)
        return node

    def evaluating(self, change: int) -> None:
        """The bench's reports of what it does."""
        self.doing["evaluating"] += change
        self._changed()

    # Settling, one after the other.

    async def _settle(self, node: Node) -> Stopped | None:
        cost = self._costs[node.id]
        original = None if node.key is None else self.tree.original(node.key)
        if original is not None:
            self._repeat(node, self.tree.nodes[original])
        elif node.metrics is not None:
            cost += await self._take(node, node.metrics)
        if node.stage in ("endpoint", "infrastructure"):
            self._faults += 1
            if self._faults >= FAULTS:
                kind = "endpoint" if node.stage == "endpoint" else "evaluator"
                return Stopped(kind, f"{FAULTS} candidates in a row got nothing; the last: {node.feedback}")
        else:
            self._faults = 0
        self.tree.add(node)
        if node.became_best:
            self.tree.crown(node.id)
            self.best_changed(node)
        elif self._remeasures(node.id):
            cost += await self._remeasure()
        self.ledger.charge(node.id, cost)
        self._tell(node, cost)
        return None

    def _repeat(self, node: Node, original: Node) -> None:
        node.duplicate_of = original.id
        node.stage, node.feedback, node.metrics = original.stage, original.feedback, original.metrics
        node.quarantine, node.score = original.quarantine, original.score

    async def _take(self, node: Node, metrics: Metrics) -> Spend:
        """A program that is new: its verdict, and its confirmation where it may be the best."""
        node.stage, node.feedback = metrics.stage, metrics.feedback or metrics.error or ""
        node.quarantine = metrics.quarantine
        cost = self._cost(metrics)
        if metrics.infrastructure:
            assert node.key is not None
            self._bench.forget(node.key)
        if not metrics.correct:
            return cost
        node.score = metrics.speedup if metrics.timed else 0.0
        best = self._best()
        if challenges(metrics, best):
            cost += await self._confirm(node)
            node.became_best = node.verified and bool(node.confirmations) and beats(node, best, self._noise(node))
        return cost

    async def _confirm(self, node: Node) -> Spend:
        """One more evaluation, in a fresh process and on other inputs; what it finds counts."""
        assert node.key is not None
        assert node.code is not None
        metrics = await self._bench.evaluate(node.key, node.code, len(node.confirmations) + 1)
        if metrics.infrastructure:
            return self._cost(metrics)
        if metrics.correct:
            node.confirmations.append(metrics)
            confirmed = estimate(node)
            node.score = 0.0 if confirmed is None else confirmed
        else:
            node.stage, node.feedback = metrics.stage, metrics.feedback or metrics.error or ""
            node.quarantine, node.score = metrics.quarantine, None
        return self._cost(metrics)

    def _remeasures(self, number: int) -> bool:
        every = self._config.search.remeasure
        return every > 0 and (number + 1) % every == 0

    async def _remeasure(self) -> Spend:
        """Measure the best again; another confirmed program takes its place where the new figure says so."""
        best = self._best()
        if best is None or estimate(best) is None or len(best.confirmations) >= ENOUGH:
            return Spend()
        cost = await self._confirm(best)
        ranked = [node for node in self.tree.usable() if node.confirmations]
        first = ranked[0] if ranked else None
        if not best.verified:
            self.tree.best = None
        held = self._best()
        if first is not None and first is not held and beats(first, held, noise(self.tree.nodes)):
            self.tree.crown(first.id)
        held = self._best()
        if held is not None:
            self.best_changed(held)
        return cost

    def _cost(self, metrics: Metrics) -> Spend:
        self._longest_s = max(self._longest_s, metrics.device_seconds)
        return Spend(evaluations=1, gpu_seconds=metrics.device_seconds)

    def _best(self) -> Node | None:
        return None if self.tree.best is None else self.tree.nodes[self.tree.best]

    def _noise(self, node: Node) -> float:
        return noise([*self.tree.nodes, node])

    def _tell(self, node: Node, cost: Spend) -> None:
        """Journal the node; a resumed run checks that it finds what was found before."""
        summary = {**node.summary(), "best_node": self.tree.best}
        known = self._memory.nodes.get(node.id)
        if known is None:
            self._folder.journal.write("node", **summary, feedback=node.feedback, cost=cost.to_dict())
        elif differing := [name for name, value in summary.items() if known.get(name) != value]:
            raise RunFolderError(
                f"candidate {node.id} differs from the journal in {', '.join(differing)}: the run was made by"
                " another version, or its journal was changed"
            )
        self._changed()

    def _reached(self) -> Stopped | None:
        stop, best = self._config.stop, self._best()
        if best is not None and stop.target_speedup is not None and (estimate(best) or 0.0) >= stop.target_speedup:
            return Stopped("target", f"the target of {stop.target_speedup:g}x is reached")
        share = best.confirmations[-1].roofline_frac if best is not None and best.confirmations else None
        if share is not None and stop.roofline is not None and share >= stop.roofline:
            return Stopped("roofline", f"{share:.0%} of the roofline are reached")
        waited = len(self.tree) - self.tree.best_since
        if stop.patience is not None and waited >= stop.patience:
            return Stopped("patience", f"{waited} candidates in a row brought no new best")
        stale = len(self.tree) - self.tree.new_since
        if stop.stale is not None and stale >= stop.stale:
            return Stopped("stale", f"{stale} candidates in a row brought no program that is new")
        return None
