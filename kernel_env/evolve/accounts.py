"""What a journal's events add up to: spending, time, notes. Everything that was paid for counts, used or not."""

from __future__ import annotations

from collections.abc import Sequence

from .budget import Spend
from .config import Price
from .journal import Event

ESTIMATED = "the endpoint tells no usage: tokens are estimates"
MOCK = "the mock evaluator ran nothing: times are made up, and whether results are right is not known"


def usage(events: Sequence[Event], price: Price | None) -> Spend:
    """All spending; dollars are 0 where the price is not known."""
    total = Spend()
    for event in events:
        match event["event"]:
            case "answer":
                total += _answer(event["reply"], price)
            case "evaluation":
                total += Spend(evaluations=1, gpu_seconds=event["metrics"]["device_seconds"])
            case "fault":
                total += Spend(calls=event["requests"])
    return total


def _answer(reply: Event, price: Price | None) -> Spend:
    prompt, completion = reply["prompt_tokens"], reply["completion_tokens"]
    usd = (prompt * price.input + completion * price.output) / 1e6 if price else 0.0
    return Spend(calls=reply["requests"], tokens=prompt + completion, usd=usd)


def elapsed_s(events: Sequence[Event]) -> float:
    """Seconds that the run took while it ran, over all its sessions."""
    total, begun, last = 0.0, None, 0.0
    for event in events:
        if event["event"] in ("run", "resumed"):
            total += last - begun if begun is not None else 0.0
            begun = event["time"]
        last = event["time"]
    return total + (last - begun if begun is not None else 0.0)


def notes(events: Sequence[Event]) -> tuple[str, ...]:
    """What whoever reads the result has to know, each once."""
    found: dict[str, None] = {}
    for event in events:
        if event["event"] == "answer":
            found |= dict.fromkeys(event["reply"]["notes"])
            if event["reply"]["estimated"]:
                found[ESTIMATED] = None
        elif event["event"] == "evaluation" and event["metrics"]["mock"]:
            found[MOCK] = None
    return tuple(found)
