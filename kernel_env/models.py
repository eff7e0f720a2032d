"""The wire types: what a trainer sends and gets. Field names are frozen; trainers log them.

Built on openenv's `Action`, `Observation` and `State`, whose import is costly (openenv pulls in gradio
where it is installed); `import kernel_env` alone does not touch this module.
"""

from __future__ import annotations

from typing import Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

Stage = Literal["", "format", "compile", "correctness", "timing", "passed", "infrastructure"]


class KernelAction(Action):
    """One submission.

    `code` defines `ModelNew`, bare or inside a Markdown fence (the last fence that defines it wins).
    `metadata["request_id"]`, when given, makes the step idempotent: sent again after a dropped
    connection it returns the first result.
    """

    code: str = Field(description="Source text that defines ModelNew, bare or inside a Markdown fence.")


class KernelObservation(Observation):
    """What the agent sees after `reset` and after each `step`.

    Times are milliseconds a call (medians). Fields that could not be measured are None, never a guess.
    """

    problem: str = Field("", description="Everything a model needs to solve the task, in one text.")
    task_id: str = ""
    language: str = "triton"
    turn: int = Field(0, ge=0, description="Submissions judged so far; infrastructure faults do not count.")
    max_turns: int = Field(4, ge=1)
    stage: Stage = Field("", description="How far the last submission got; empty after reset.")
    feedback: str = Field("", description="What to fix, for a model to read.")
    correct: bool = False
    speedup: float | None = Field(None, description="Reference time over candidate time.")
    speedup_low: float | None = Field(None, description="Lower end of the speedup's 95 % interval.")
    speedup_high: float | None = Field(None, description="Upper end of the speedup's 95 % interval.")
    runtime_ms: float | None = None
    ref_runtime_ms: float | None = None
    compiled_runtime_ms: float | None = Field(
        None, description="The reference's time under torch.compile, where KERNEL_ENV_BASELINE asks for it."
    )
    samples: int | None = Field(None, description="Timed calls of the submission that the speedup rests on.")
    launch_bound: bool | None = Field(
        None, description="The host takes longer to launch the submission's work than the device to do it."
    )
    bound: Literal["compute", "memory"] | None = None
    arithmetic_intensity: float | None = Field(None, description="FLOPs a byte of the reference.")
    t_min_ms: float | None = Field(None, description="Speed of light of the task on this device.")
    roofline_frac: float | None = Field(None, description="t_min_ms over runtime_ms.")
    ref_roofline_frac: float | None = Field(None, description="t_min_ms over ref_runtime_ms.")
    profile: dict[str, Any] | None = Field(
        None, description="Kernels of one call and what it achieves, where KERNEL_ENV_PROFILE asks for it."
    )
    best_speedup: float | None = Field(None, description="Best speedup of the episode so far.")
    best_reward: float | None = Field(None, description="Best reward of the episode so far.")
    infrastructure_fault: bool = Field(
        False, description="The fault is the environment's: mask this sample, do not punish it."
    )
    mock: bool = Field(False, description="Timings are fake (the mock evaluator).")


class KernelState(State):
    """The session's state; `step_count` counts every step frame that was accepted, faults included."""

    task_id: str = ""
    language: str = "triton"
    split: str = ""
    turn: int = Field(0, ge=0)
    max_turns: int = Field(4, ge=1)
    done: bool = False
