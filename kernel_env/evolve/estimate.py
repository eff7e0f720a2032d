"""What a run can cost at most, before anything is sent: for `--dry-run`."""

from __future__ import annotations

from typing import Any

from .chat import prompt_estimate
from .config import EvolveConfig
from .llm_config import LLMConfig
from .prompts import FEEDBACK_CAP, messages_for, own_problem
from .run import ANSWER_CAP
from .strategies import strategy_of
from .tree import Tree

PROGRAM = 6_000  # characters of a program of a usual length
RULES = 4_000  # of the environment's rules around the task


def estimate(initial_code: str, config: EvolveConfig, llm: LLMConfig) -> dict[str, Any]:
    """The most that each candidate and the whole run take. Where the run has no limit of a kind, None."""
    budget, language = config.budget, config.evaluator.language
    problem = own_problem(initial_code, language)
    first = prompt_estimate(messages_for(0, strategy_of(config.search).propose(0, Tree()), Tree(), problem))
    first += RULES // 3
    later = first + (2 * (PROGRAM + FEEDBACK_CAP // 4)) // 3
    answer = llm.answer_cap or ANSWER_CAP
    price = config.prices.get(llm.model_name)
    each_usd = (later * price.input + answer * price.output) / 1e6 if price else None
    limits = [
        budget.calls,
        budget.evaluations,
        None if budget.tokens is None else budget.tokens // (first + answer),
        None if budget.usd is None or not each_usd else int(budget.usd / each_usd),
    ]
    known = [limit for limit in limits if limit is not None]
    candidates = min(known) if known else None
    return {
        "model": llm.model_name,
        "strategy": config.search.strategy,
        "candidates": candidates,
        "evaluations": budget.evaluations,
        "prompt_tokens_first": first,
        "prompt_tokens_later": later,
        "answer_tokens_at_most": answer,
        "tokens_at_most": budget.tokens or (None if candidates is None else candidates * (later + answer)),
        "usd_at_most": budget.usd
        or (None if each_usd is None or candidates is None else round(candidates * each_usd, 2)),
        "gpu_seconds_at_most": budget.gpu_seconds,
        "wall_seconds_at_most": budget.wall_seconds,
    }
