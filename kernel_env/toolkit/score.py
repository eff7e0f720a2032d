"""Scores of a run on one level against one baseline: rates, fast_p, pass@k, means, each with its interval.

Rates are over the level's tasks: those in the baseline file where there is one, else those of the run. Which
samples count is `Pick`: `first` (number 0, as KernelBench's analysis does), `best` (the fastest right one of each
task), or `every` (the mean over a task's samples, which is the rate that one sample would have).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, get_args

from .attempt import Attempt
from .baselines import Baseline
from .measures import Estimate, Ratio, bootstrap, fast_p, geometric_mean, pass_at_k, wilson

Pick = Literal["first", "best", "every"]
PICKS: tuple[str, ...] = get_args(Pick)
MEASURED = "measured eager"
MEASURED_COMPILED = "measured compile"


@dataclass(frozen=True)
class Score:
    """`untimed` right samples have no ratio and so count in no fast_p; `left_out` belong to no task counted here.

    `short`: by k, how many tasks have fewer samples than k and are left out of pass@k.
    """

    level: int
    baseline: str
    pick: Pick
    tasks: int
    attempted: int
    samples: int
    compiled: Estimate
    correct: Estimate
    fast: dict[float, Estimate]
    geometric_mean: Estimate | None
    geometric_mean_faster: Estimate | None
    median: Estimate | None
    untimed: int
    left_out: int
    pass_at: dict[int, Estimate] = field(default_factory=dict)
    fast_1_at: dict[int, Estimate] = field(default_factory=dict)
    short: dict[int, int] = field(default_factory=dict)


def levels(attempts: Sequence[Attempt]) -> list[int]:
    return sorted({attempt.level for attempt in attempts})


def measured(attempts: Sequence[Attempt]) -> list[str]:
    """The baselines that were measured beside the kernels themselves."""
    names = []
    if any(attempt.speedup is not None for attempt in attempts):
        names.append(MEASURED)
    if any(attempt.compiled_runtime_ms is not None for attempt in attempts):
        names.append(MEASURED_COMPILED)
    return names


def score(
    attempts: Sequence[Attempt],
    level: int,
    baseline: Baseline | str,
    pick: Pick,
    ps: Sequence[float],
    ks: Sequence[int],
    tasks: int | None = None,
) -> Score:
    """`baseline` is a file's, or `MEASURED`, `MEASURED_COMPILED`.

    `tasks` is how many the rates are over; the number of the run's where that is larger, as a file may hold a part
    of a level.
    """
    groups, left_out = _groups(attempts, level, baseline)
    count = max(tasks or 0, len(groups))
    chosen = {key: _picked(group, pick, baseline) for key, group in groups.items()}
    ratios = [[_ratio(attempt, baseline) for attempt in group] for group in chosen.values()]
    timed = [own for group in ratios if (own := [ratio for ratio in group if ratio is not None])]
    faster = [above for group in timed if (above := [ratio for ratio in group if ratio > 1.0])]
    right = [attempt for group in chosen.values() for attempt in group if attempt.correct]
    right_of = [[float(a.correct) for a in group] for group in groups.values()]
    fast_of = [[float(_above(_ratio(a, baseline), 1.0)) for a in group] for group in groups.values()]
    return Score(
        level=level,
        baseline=baseline if isinstance(baseline, str) else baseline.name,
        pick=pick,
        tasks=count,
        attempted=len(groups),
        samples=sum(map(len, groups.values())),
        compiled=_rate([[float(a.compiled) for a in group] for group in chosen.values()], count),
        correct=_rate([[float(a.correct) for a in group] for group in chosen.values()], count),
        fast={p: _rate([[float(_above(ratio, p)) for ratio in group] for group in ratios], count) for p in ps},
        geometric_mean=bootstrap(timed, _over_all(geometric_mean)),
        geometric_mean_faster=bootstrap(faster, _over_all(geometric_mean)),
        median=bootstrap(timed, _over_all(statistics.median)),
        untimed=len(right) - sum(map(len, timed)),
        left_out=left_out,
        pass_at={k: found for k in ks if (found := _at_k(right_of, k))},
        fast_1_at={k: found for k in ks if (found := _at_k(fast_of, k))},
        short={k: sum(len(group) < k for group in groups.values()) for k in ks},
    )


def _over_all(figure: Callable[[list[float]], float]) -> Callable[[Sequence[Sequence[float]]], float]:
    """Of samples by task: those of one task stay together when tasks are resampled."""
    return lambda groups: figure(list(chain.from_iterable(groups)))


def _groups(
    attempts: Sequence[Attempt], level: int, baseline: Baseline | str
) -> tuple[dict[str | int, list[Attempt]], int]:
    """The attempts of each task that is counted, and how many belong to none."""
    groups: dict[str | int, list[Attempt]] = {}
    left_out = 0
    for attempt in attempts:
        if attempt.level != level:
            continue
        if isinstance(baseline, Baseline) and (level, attempt.problem) not in baseline.means:
            left_out += 1
            continue
        groups.setdefault(attempt.problem or attempt.task_id, []).append(attempt)
    return groups, left_out


def _ratio(attempt: Attempt, baseline: Baseline | str) -> Ratio:
    if not attempt.correct or not attempt.runtime_ms:
        return None
    if isinstance(baseline, Baseline):
        return baseline.means[attempt.level, attempt.problem] / attempt.runtime_ms
    if baseline == MEASURED:
        return attempt.speedup or None
    return attempt.compiled_runtime_ms / attempt.runtime_ms if attempt.compiled_runtime_ms else None


def _above(ratio: Ratio, p: float) -> bool:
    return ratio is not None and ratio > p


def _picked(group: Sequence[Attempt], pick: Pick, baseline: Baseline | str) -> list[Attempt]:
    if pick == "every":
        return list(group)
    if pick == "first":
        return [attempt for attempt in group if attempt.number == 0][:1]
    return [max(group, key=lambda a: (a.correct, _ratio(a, baseline) or 0.0, a.compiled))]


def _rate(groups: Sequence[Sequence[float]], tasks: int) -> Estimate:
    """The mean of the groups' means over `tasks`, of which those without a group have 0."""
    means = [statistics.fmean(group) for group in groups if group]
    if all(mean in (0.0, 1.0) for mean in means):
        return wilson(sum(means), tasks)
    filled = [*means, *[0.0] * (tasks - len(means))]
    return bootstrap(filled, statistics.fmean) or Estimate(0.0)


def _at_k(groups: Sequence[Sequence[float]], k: int) -> Estimate | None:
    """Over the groups of at least `k` values, each 1 for a success and 0 for none."""
    rates = [[pass_at_k(len(group), int(sum(group)), k)] for group in groups if len(group) >= k]
    return _rate(rates, len(rates)) if rates else None


def curve(
    attempts: Sequence[Attempt], found: Score, baseline: Baseline | str, ps: Sequence[float]
) -> list[float] | None:
    """fast_p of a score at further p; None where nothing has a time."""
    groups, _ = _groups(attempts, found.level, baseline)
    picked = [_picked(group, found.pick, baseline) for group in groups.values()]
    ratios = [[_ratio(attempt, baseline) for attempt in group] for group in picked if group]
    if found.tasks == 0 or all(ratio is None for group in ratios for ratio in group):
        return None
    return [sum(fast_p(group, len(group), p) for group in ratios) / found.tasks for p in ps]
