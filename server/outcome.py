"""The result of an evaluation: a closed, frozen set of outcomes, and the facts that go with each.

Each outcome knows the `stage` it was reached in and whether the submission is `correct`. Outcomes are
produced by trusted processes only; a candidate contributes text (capped) and nothing else. No class is
ever derived from the wording of a message.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Stage = Literal["format", "compile", "correctness", "timing", "passed", "infrastructure"]


class Fact(BaseModel):
    """Base of every record that crosses a process boundary: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Timing(Fact):
    """Measured side by side, in milliseconds a call (medians).

    `clock` says whose clock decided: `events` (CUDA events, bounded by the judge's clock), `wall`
    (per-call wall clock, bounded likewise), or `judge` (the judge's own clock, where the claimed
    times could not be true). `low` and `high` bound the speedup (95 %). `host_ms` and `ref_host_ms` are
    what the host takes to launch a call, without the dispatch guard, which a device's times do not hold (None on
    a CPU). `compiled_ms` is the reference's time under `torch.compile`, where that was asked for. `std_ms`,
    `min_ms` and `max_ms` are over the medians of the submission's blocks; None where those do not count.
    """

    runtime_ms: float
    ref_runtime_ms: float
    speedup: float
    low: float
    high: float
    samples: int
    clock: Literal["events", "wall", "judge", "mock"]
    host_ms: float | None = None
    ref_host_ms: float | None = None
    compiled_ms: float | None = None
    std_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None

    @property
    def launch_bound(self) -> bool | None:
        """Does the host take longer to launch the candidate's work than the device to do it?"""
        return None if self.host_ms is None else self.host_ms > self.runtime_ms


class Roofline(Fact):
    """Speed of light of the task on this device; see `roofline`."""

    bound: Literal["compute", "memory"]
    arithmetic_intensity: float
    t_min_ms: float


class KernelProfile(Fact):
    """One kernel of a call, and the shape of its longest launch; None where the profiler did not tell it.

    `share` is of the device's time that all kernels of a call add up to, `occupancy` CUPTI's estimate of the
    share of a multiprocessor's warps that are active. `spills` are registers a thread that went to local memory,
    which Triton tells of its kernels.
    """

    name: str
    origin: Literal["triton", "extension", "text", ""]
    launches: float
    ms: float
    share: float
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None


class Profile(Fact):
    """What one call of a submission does on the device, on average; kernels, longest first.

    Names, times and shapes of kernels are the word of the submission's process. The rates are not: they rest on
    the timing's `runtime_ms`, on `bytes` (inputs, weights and outputs, each once) and on `flops` (of the
    reference's products, convolutions and attention). `*_share` are of the device's peaks, None where these are
    unknown.
    """

    kernels: list[KernelProfile]
    others: float
    others_ms: float
    launches: float
    busy_ms: float
    runtime_ms: float
    bytes: int
    flops: int
    gb_s: float
    tflop_s: float
    bandwidth_share: float | None = None
    compute_share: float | None = None


class Rejected(Fact):
    """Refused for what it is: by the static checks (`rule`) or by the dispatch guard (`rule` = "guard")."""

    kind: Literal["rejected"] = "rejected"
    rule: str
    message: str
    stage: Literal["format"] = "format"


class BuildFailed(Fact):
    """The source does not import, or a compiler refused it. Line numbers are the submission's own."""

    kind: Literal["build_failed"] = "build_failed"
    message: str
    stage: Literal["compile"] = "compile"


class Raised(Fact):
    """The candidate raised a Python exception while constructing `ModelNew` or in `forward`."""

    kind: Literal["raised"] = "raised"
    stage: Literal["compile", "correctness", "timing"]
    message: str


class Crashed(Fact):
    """The candidate's process died: by `signal` (e.g. "SIGSEGV"), or by exiting with `exit_code`."""

    kind: Literal["crashed"] = "crashed"
    stage: Literal["compile", "correctness", "timing"]
    signal: str | None = None
    exit_code: int | None = None
    message: str = ""


class TimedOut(Fact):
    """The candidate was ended at the deadline of `stage`, after `seconds`."""

    kind: Literal["timed_out"] = "timed_out"
    stage: Literal["compile", "correctness", "timing"]
    seconds: float
    message: str = ""


class OutOfMemory(Fact):
    """The candidate ran out of device or host memory where the reference fits, or left it none to fit into."""

    kind: Literal["out_of_memory"] = "out_of_memory"
    stage: Literal["compile", "correctness", "timing"]
    message: str


class WrongOutput(Fact):
    """Built and ran, but the result is not the reference's (shape, dtype, values, type, mutation of inputs)."""

    kind: Literal["wrong_output"] = "wrong_output"
    stage: Literal["correctness", "timing"] = "correctness"
    message: str
    trial: int | None = None


class ImpossibleTiming(Fact):
    """Correct, but measured twice, in two processes, below `floor_ms`, what any program must take here."""

    kind: Literal["impossible_timing"] = "impossible_timing"
    stage: Literal["timing"] = "timing"
    message: str
    runtime_ms: float
    floor_ms: float


class Passed(Fact):
    """Correct on every trial. `timing` is None where the device cannot time it; `note` then says why.

    `profile` is there where it was asked for and the device's work could be recorded.
    """

    kind: Literal["passed"] = "passed"
    timing: Timing | None = None
    roofline: Roofline | None = None
    profile: Profile | None = None
    note: str = ""
    stage: Literal["passed"] = "passed"


class Infrastructure(Fact):
    """The fault is ours (judge, zygote, worker, device, task): says nothing about the submission.

    `task` tells that the task itself can't be evaluated on this device, now or later.
    """

    kind: Literal["infrastructure"] = "infrastructure"
    message: str
    retryable: bool = True
    task: bool = False
    stage: Literal["infrastructure"] = "infrastructure"


Outcome = Annotated[
    Rejected
    | BuildFailed
    | Raised
    | Crashed
    | TimedOut
    | OutOfMemory
    | WrongOutput
    | ImpossibleTiming
    | Passed
    | Infrastructure,
    Field(discriminator="kind"),
]


class Device(Fact):
    """What evaluates: `kind` "cuda" | "cpu" | "mock", its name, and how submissions in each language run.

    `uuid` is the driver's, where there is one: what tells two devices of one model apart.
    """

    kind: Literal["cuda", "cpu", "mock"]
    name: str
    index: str = "0"
    uuid: str | None = None
    capability: str | None = None
    memory_bytes: int | None = None
    versions: dict[str, str] = Field(default_factory=dict)


_COMPILED = """

def ModelNew(*arguments):
    model = Model(*arguments)
    model.compile({options})
    return model
"""


class TaskSource(Fact):
    """A task as the evaluator needs it: KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`)."""

    id: str
    source: str
    hash: str

    @property
    def as_submission(self) -> str:
        """The reference in a submission's form."""
        return f"{self.source}\n\nModelNew = Model\n"

    def as_compiled(self, options: str = "") -> str:
        """The reference under `torch.compile`, in a submission's form; `options` are its arguments, as code."""
        return f"{self.source}\n{_COMPILED.format(options=options)}"


class EvaluationRequest(Fact):
    """One submission to evaluate. `budget_s` counts from arrival at the pool, queueing included.

    `mode` "audit" is for tasks, never for submissions: the code is the reference itself, and runs without static
    checks and guard. "unchecked" leaves out the static checks alone, to show what stands without them. No frame of
    a client can ask for either.
    """

    id: str
    task: TaskSource
    language: str
    code: str
    budget_s: float
    mode: Literal["submission", "unchecked", "audit"] = "submission"


ON_THE_DEVICE = ("candidate", "correctness", "quiet", "timing", "provenance", "baseline", "ending")
"""The stages of `Evaluation.durations` in which a submission has the device."""


class Evaluation(Fact):
    """An outcome with where, on what and how long: enough to rebuild the reward offline.

    `durations` maps stage names (queue, checks, build, candidate, correctness, quiet, timing, ...) to seconds.
    `seeds_digest` identifies the secret seeds without revealing them. `peak_bytes` is the most device memory
    that the judge saw in use, by everybody, at its own measuring points; None on a CPU.
    """

    outcome: Outcome
    device: Device
    durations: dict[str, float] = Field(default_factory=dict)
    task_hash: str = ""
    code_hash: str = ""
    seeds_digest: str = ""
    peak_bytes: int | None = None
