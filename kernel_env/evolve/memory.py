"""What a journal or a recording knows already: answers, evaluations, and nodes that got none.

A resumed run takes from it instead of asking again. A replay takes everything from it: what it does not hold
is an error, never a request.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from .chat import Message, Reply
from .errors import EndpointError, ReplayError
from .evaluator import BaseEvaluator
from .journal import Event
from .metrics import Metrics, failed
from .program import key_of

LOST = ("endpoint", "infrastructure")


def digest(messages: list[Message]) -> str:
    """Identifies a request by its content."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


class Memory:
    """Events by what they answer. Of several for one question the last counts."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.head: Event = {}
        self.answers: dict[int, Event] = {}
        self.evaluations: dict[tuple[str, int], Event] = {}
        self.nodes: dict[int, Event] = {}
        self.faults: dict[int, str] = {}
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event["event"]:
            case "run":
                self.head = event
            case "answer":
                self.answers[event["node"]] = event
            case "evaluation":
                self.evaluations[event["program"], event["number"]] = event
            case "node":
                self.nodes[event["node"]] = event
            case "fault":
                self.faults[event["node"]] = event["error"]

    def reply(self, node: int) -> Reply | None:
        event = self.answers.get(node)
        return Reply.from_dict(event["reply"]) if event else None

    def evaluation(self, program: str, number: int) -> Metrics | None:
        event = self.evaluations.get((program, number))
        return Metrics.from_dict(event["metrics"]) if event else None

    def lost(self, node: int) -> Event | None:
        """The node's event, if it was settled without an answer or a verdict: that stays so."""
        event = self.nodes.get(node)
        return event if event and event["stage"] in LOST else None


class ReplayChat:
    """Answers from a recording, by candidate and content. See `chat.Chat`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def complete(self, node: int, messages: list[Message], may_retry: Callable[[], bool]) -> Reply:
        event = self._memory.answers.get(node)
        if event is not None and event["digest"] == digest(messages):
            return Reply.from_dict(event["reply"])
        if event is None and node in self._memory.faults:
            raise EndpointError(self._memory.faults[node])
        reason = "has none" if event is None else "has one to another request"
        raise ReplayError(f"the run asks for an answer for candidate {node}; the recording {reason}")


class ReplayEvaluator(BaseEvaluator):
    """Stands for the evaluator of a recorded run: the evaluations of each program in the order that they had."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._described: dict[str, Any] = memory.head["evaluator"]
        self._seen: Counter[str] = Counter()
        self.language = self._described["language"]

    def describe(self) -> dict[str, Any]:
        return self._described

    async def evaluate(self, initial_code: str, evolve_code: str) -> Metrics:
        program = key_of(evolve_code)
        metrics = self._memory.evaluation(program, self._seen[program])
        if metrics is not None:
            self._seen[program] += not metrics.infrastructure
            return metrics
        if any(event["program"] == program for event in self._memory.nodes.values() if event["stage"] in LOST):
            return failed("no verdict in the recorded run, either", "infrastructure", infrastructure=True)
        raise ReplayError("the run asks for an evaluation that the recording does not hold")
