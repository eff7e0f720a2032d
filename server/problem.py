"""The problem text: everything a model needs to solve a task in a language, in one Markdown text.

The words are in `prompts/`: a template for each language (`string.Template`; a plug-in brings its own), and
`rules.md`, which holds for all. This module fills in what depends on task, settings and device. It states what the
evaluator does and decides nothing itself.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from string import Template

from . import languages, peaks, strict
from .config import Precision, Settings
from .extras import disclosure, extras_of
from .languages import PROMPTS, Language
from .outcome import Device
from .tasks import Task

DTYPES: dict[Precision, str] = {"fp32": "torch.float32", "fp16": "torch.float16", "bf16": "torch.bfloat16"}

_GIB = 1 << 30


class PromptError(RuntimeError):
    """A template has a placeholder that nothing fills."""


def problem_text(task: Task, language: str, settings: Settings, device: Device | None) -> str:
    """The problem as Markdown; `device` is None while it is not known. Raises `LanguageError`."""
    spoken = languages.get(language)
    rules = rules_text(settings)
    judging = "\n".join(
        (
            _device(device, spoken),
            *_models(task, settings),
            *precision_text(settings.precision, language),
            *_interpreted(spoken, settings, device),
            correctness_text(task, settings, device),
            _timing(spoken, device),
            _reward(settings, device),
            _limits(settings),
        )
    )
    return _fill(spoken.prompt, task_id=task.id, reference=fenced(task.source), rules=rules, judging=judging)


def rules_text(settings: Settings) -> str:
    """What holds for a submission in any language, as Markdown."""
    return _fill(PROMPTS / "rules.md", max_code_kib=settings.max_code_bytes // 1024)


def _fill(template: Path, **values: object) -> str:
    try:
        return _template(template).substitute(values)
    except (KeyError, ValueError) as error:
        raise PromptError(
            f"{template}: {error}; its placeholders are {', '.join(f'${key}' for key in values)},"
            " and a dollar sign is written $$"
        ) from error


@cache
def _template(file: Path) -> Template:
    return Template(file.read_text(encoding="utf-8"))


def fenced(source: str) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`{3,}", source)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{source.strip()}\n{fence}"


def _device(device: Device | None, language: Language) -> str:
    if device is None:
        return "- Device: not known yet, as the evaluator is still starting."
    if device.kind == "mock":
        return (
            "- Device: none. This is the mock evaluator: submissions are checked as text but not run, and"
            " times are made up."
        )
    facts = [f"CUDA device {device.name}" if device.kind == "cuda" else f"CPU {device.name}, no CUDA"]
    if device.capability:
        facts.append(f"compute capability {device.capability}")
    if device.memory_bytes:
        facts.append(f"{device.memory_bytes / _GIB:.0f} GiB of memory")
    others = languages.packages() - {language.package}
    facts += [f"{name} {version}" for name, version in device.versions.items() if name not in others]
    return f"- Device: {', '.join(facts)}."


def correctness_text(task: Task, settings: Settings, device: Device | None) -> str:
    """The item of a Markdown list that says what counts as right."""
    extras = extras_of(task.id, task.source)
    extra = disclosure(extras, settings.atol, settings.rtol)
    trials = f"{settings.trials} trials. Each"
    if settings.checks == "strict":
        extra = f"{extra} {strict.disclosure(extras.families, settings.precision)}".lstrip()
        trials = f"{min(settings.trials, strict.OWN_TRIALS)} trials or more. Each of these"
    beyond = "" if extra else "; nothing beyond `get_inputs()` is tried"
    sizes = ""
    if device is not None and device.kind != "mock":
        sizes = f" `torch.cuda.is_available()` is {device.kind == 'cuda'} where the reference runs."
    return (
        f"- Correctness: {trials} draws fresh inputs from `get_inputs()` under a secret"
        f" seed, on the device{beyond}.{sizes} Both modules stay in the mode"
        " that they are constructed in, without gradients. An element is right if"
        f" |got - expected| <= {settings.atol:g} + {settings.rtol:g} * |expected|; integers and booleans must"
        " be equal, infinities and NaN must stand where the reference has them, and every element must be"
        f" right. {extra}".rstrip()
    )


def precision_text(precision: Precision, language: str) -> tuple[str, ...]:
    """The item of a Markdown list that says what is cast; none in 32 bits, which tasks are written in."""
    if precision == "fp32":
        return ()
    dtype, own = DTYPES[precision], languages.get(language).halves.get(precision, "")
    return (
        f"- Precision: {precision}. `Model` and `ModelNew` are constructed as they are written, then their"
        f" floating-point parameters and buffers are cast to `{dtype}`. So are floating-point inputs of `forward`"
        " and tensors among the constructor's arguments. Integers and booleans stay, and so does what `__init__`"
        " keeps as neither parameter nor buffer: cast that yourself. Outputs have the dtype that `Model` then"
        " returns. Sum and compute in 32 bits, and round once at the end: what the reference gives in 32 bits from"
        f" the same `{dtype}` numbers, rounded, is right as well.{own}",
    )


def _interpreted(language: Language, settings: Settings, device: Device | None) -> tuple[str, ...]:
    bf16 = settings.precision == "bf16"
    if device is None or device.kind != "cpu" or not (bf16 and language.interpreted):
        return ()
    return (
        "- Triton's interpreter gets arithmetic on bf16 values wrong, `tl.dot` included: convert what is loaded to"
        " `tl.float32` first. Loading and storing bf16 is right.",
    )


def _models(task: Task, settings: Settings) -> tuple[str, ...]:
    if task.outside is None:
        return ()
    made = "random weights" if settings.precision != "fp32" else "random weights, in float32"
    weights = {"own": "their own weights", "random": made}.get(task.outside.weights or "")
    return (
        f"- Models: those of `transformers` are in evaluation mode{f', with {weights}' if weights else ''}."
        " `ModelNew` gets the same configuration object as `Model`, but may not import `transformers`: name your"
        " parameters as in the `state_dict()` of `Model`, such as `model.lm_head.weight`.",
    )


def _timing(language: Language, device: Device | None) -> str:
    if device is None:
        return "- Timing: against the reference in eager PyTorch, side by side on the same device."
    if device.kind == "mock":
        return "- Timing: none that means anything."
    if (why := language.lacks(device)) is not None:
        return f"- Timing: none. {why}; use the language {' or '.join(languages.runnable(device))}."
    if device.kind == "cuda":
        return (
            "- Timing: the median of single calls by CUDA events, the L2 cache flushed before each, in turn"
            " with the reference in eager PyTorch on the same inputs. Outputs of timed calls are compared"
            " too."
        )
    if language.interpreted:
        return (
            "- Timing: none. There is no CUDA device, so Triton runs in its interpreter: kernels are really"
            " run and their results compared, but speed is not measured. The interpreter runs one program of"
            " the grid after the other: fewer programs with larger blocks finish sooner."
        )
    return (
        "- Timing: the median of single calls by wall clock, in turn with the reference in eager PyTorch on"
        " the same inputs. Outputs of timed calls are compared too."
    )


def _reward(settings: Settings, device: Device | None) -> str:
    if settings.reward == "roofline":
        formula = (
            "0.3 + 2.7 * min(t_min / t_new, 1), where t_new is your time and t_min the least time in which"
            " the device could move the task's bytes and do its arithmetic"
        )
    else:
        formula = (
            "0.3 + clamp(log2(speedup), -0.2, 3.0), where speedup is the reference's time over yours: 0.3 at"
            " equal speed, 1.3 at twice the speed, 3.3 at eight times and above"
        )
    return (
        f"- Reward: 0 unless every trial is right; else {formula}. A correct submission that is not timed"
        f" gets 0.3.{_without_peaks(settings, device)}"
    )


def _without_peaks(settings: Settings, device: Device | None) -> str:
    if settings.reward == "speedup" or device is None or device.kind == "mock":
        return ""
    if peaks.known(device.name, peaks.supply(settings.peaks)) is not None:
        return ""
    return " The peak rates of this device are not known, so that here every correct submission gets 0.3."


def _limits(settings: Settings) -> str:
    turns = settings.max_turns
    return (
        f"- Limits: {turns} submission{'s' if turns > 1 else ''}, each rewarded on its own, with feedback on"
        f" what to fix. Building may take {settings.build_timeout_s:g} s, the trials"
        f" {settings.correctness_timeout_s:g} s, timing {settings.timing_timeout_s:g} s."
    )
