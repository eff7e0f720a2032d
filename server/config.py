"""Settings: read once from environment variables into one frozen object, validated before anything starts.

No other module reads environment variables for configuration. A bad value raises `SettingsError`, whose
text names the variable, the value and what is allowed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, cast

from .layers import Mode
from .logs import LogKind
from .peaks import FIELDS, Peak

EvaluatorKind = Literal["auto", "gpu", "cpu", "mock"]
RewardKind = Literal["speedup", "roofline"]
BaselineKind = Literal["eager", "compile"]
PoolKind = Literal["local", "ray", "modal"]
ChecksKind = Literal["standard", "strict"]
Precision = Literal["fp32", "fp16", "bf16"]
TolerancesKind = Literal["default", "kernelbench"]

TOLERANCES: dict[TolerancesKind, dict[Precision, float]] = {
    # The spacing of bf16 at one is 0.8 %: two roundings more or less than the reference's pass 1 %.
    "default": {"fp32": 1e-2, "fp16": 1e-2, "bf16": 2e-2},
    "kernelbench": {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2},  # its `get_tolerance_for_precision`
}
"""By precision, absolute and relative alike."""

PREFIX = "KERNEL_ENV_"
ELSEWHERE = frozenset({"KERNEL_ENV_MODAL_GPU"})
"""What `modal_app.py` reads."""

_FASTEST = 1e6


class SettingsError(ValueError):
    """A setting has a value that is not allowed."""


@dataclass(frozen=True)
class Settings:
    """Every knob of the server. Durations are seconds, sizes bytes.

    `tasks` lists sources in order: `embedded`, `kernelbench` (needs `kernelbench_dir`), `huggingface`,
    or the path of a task file or folder. `peaks` holds for every device of this server. `user_tasks`: a reset may
    bring a task of its own, whose reference runs where the judge does. `gpu_model` and what begins with `ray_` are
    for the pool on a Ray cluster; `ray_cpus` 0 is a device's share of its host. `precision` is that of all tasks;
    "fp32" leaves them as they are made.
    """

    evaluator: EvaluatorKind = "auto"
    pool: PoolKind = "local"
    gpus: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ("embedded",)
    kernelbench_dir: Path | None = None
    max_turns: int = 4
    max_sessions: int = 64
    eval_log: Path | None = None
    eval_log_code: bool = False
    log: LogKind = "text"
    reward: RewardKind = "speedup"
    roofline_reject: float = 0.8
    baseline: BaselineKind = "eager"
    peaks: Peak | None = None
    gpu_model: str = ""
    ray_address: str = "auto"
    ray_cpus: float = 0.0
    checks: ChecksKind = "standard"
    precision: Precision = "fp32"
    profile: bool = False
    sandbox: Mode = "auto"
    host: str = "127.0.0.1"
    port: int = 8000
    token: str = field(default="", repr=False)
    web: bool = False
    user_tasks: bool = False
    resume_s: float = 300.0
    idle_s: float = 3600.0
    trials: int = 5
    atol: float = 1e-2
    rtol: float = 1e-2
    max_code_bytes: int = 256 * 1024
    step_timeout_s: float = 900.0
    build_timeout_s: float = 240.0
    correctness_timeout_s: float = 120.0
    timing_timeout_s: float = 120.0
    timing_budget_s: float = 1.0
    ping_interval_s: float = 20.0
    ping_timeout_s: float = 300.0

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read `KERNELBENCH_DIR` and `KERNEL_ENV_*`; raises `SettingsError` on the first bad value."""
        return cls._read(_Reader(os.environ if environ is None else environ))

    @classmethod
    def _read(cls, env: _Reader) -> Settings:
        kernelbench = env.path("KERNELBENCH_DIR", must_be="folder")
        default_tasks = ("kernelbench",) if kernelbench else ("embedded",)
        precision = cast(Precision, env.choice("KERNEL_ENV_PRECISION", ("fp32", "fp16", "bf16"), "fp32"))
        kind = cast(TolerancesKind, env.choice("KERNEL_ENV_TOLERANCES", ("default", "kernelbench"), "default"))
        tolerance = TOLERANCES[kind][precision]
        return cls(
            evaluator=cast(
                EvaluatorKind, env.choice("KERNEL_ENV_EVALUATOR", ("auto", "gpu", "cpu", "mock"), "auto")
            ),
            pool=cast(PoolKind, env.choice("KERNEL_ENV_POOL", ("local", "ray", "modal"), "local")),
            gpus=env.gpus("KERNEL_ENV_GPUS"),
            gpu_model=env.text("KERNEL_ENV_GPU_MODEL", cls.gpu_model),
            ray_address=env.text("KERNEL_ENV_RAY_ADDRESS", cls.ray_address),
            ray_cpus=env.number("KERNEL_ENV_RAY_CPUS", cls.ray_cpus, 0.0, 1024.0),
            tasks=env.names("KERNEL_ENV_TASKS", default_tasks),
            kernelbench_dir=kernelbench,
            max_turns=env.integer("KERNEL_ENV_MAX_TURNS", cls.max_turns, 1, 1000),
            max_sessions=env.integer("KERNEL_ENV_MAX_SESSIONS", cls.max_sessions, 1, 100_000),
            eval_log=env.path("KERNEL_ENV_EVAL_LOG"),
            eval_log_code=env.flag("KERNEL_ENV_EVAL_LOG_CODE", cls.eval_log_code),
            log=cast(LogKind, env.choice("KERNEL_ENV_LOG", ("text", "json"), "text")),
            reward=cast(RewardKind, env.choice("KERNEL_ENV_REWARD", ("speedup", "roofline"), "speedup")),
            baseline=cast(BaselineKind, env.choice("KERNEL_ENV_BASELINE", ("eager", "compile"), "eager")),
            checks=cast(ChecksKind, env.choice("KERNEL_ENV_CHECKS", ("standard", "strict"), "standard")),
            precision=precision,
            profile=env.flag("KERNEL_ENV_PROFILE", cls.profile),
            roofline_reject=env.number("KERNEL_ENV_ROOFLINE_REJECT", cls.roofline_reject, 0.0, 1.0),
            peaks=env.peaks("KERNEL_ENV_PEAKS"),
            sandbox=cast(Mode, env.choice("KERNEL_ENV_SANDBOX", ("auto", "strict", "off"), "auto")),
            host=env.text("KERNEL_ENV_HOST", cls.host),
            port=env.integer("KERNEL_ENV_PORT", cls.port, 0, 65535),
            token=env.text("KERNEL_ENV_TOKEN", ""),
            web=env.flag("ENABLE_WEB_INTERFACE", False),
            user_tasks=env.flag("KERNEL_ENV_USER_TASKS", cls.user_tasks),
            resume_s=env.number("KERNEL_ENV_RESUME_S", cls.resume_s, 0.0, 86_400.0),
            idle_s=env.number("KERNEL_ENV_IDLE_S", cls.idle_s, 1.0, 604_800.0),
            trials=env.integer("KERNEL_ENV_TRIALS", cls.trials, 1, 100),
            atol=env.number("KERNEL_ENV_ATOL", tolerance, 0.0, 1.0),
            rtol=env.number("KERNEL_ENV_RTOL", tolerance, 0.0, 1.0),
            max_code_bytes=env.integer("KERNEL_ENV_MAX_CODE_BYTES", cls.max_code_bytes, 1024, 1 << 20),
            step_timeout_s=env.number("KERNEL_ENV_STEP_TIMEOUT_S", cls.step_timeout_s, 1.0, 86_400.0),
            build_timeout_s=env.number("KERNEL_ENV_BUILD_TIMEOUT_S", cls.build_timeout_s, 1.0, 3600.0),
            correctness_timeout_s=env.number(
                "KERNEL_ENV_CORRECTNESS_TIMEOUT_S", cls.correctness_timeout_s, 1.0, 3600.0
            ),
            timing_timeout_s=env.number("KERNEL_ENV_TIMING_TIMEOUT_S", cls.timing_timeout_s, 1.0, 3600.0),
            timing_budget_s=env.number("KERNEL_ENV_TIMING_BUDGET_S", cls.timing_budget_s, 0.05, 600.0),
            ping_interval_s=env.number("KERNEL_ENV_PING_INTERVAL_S", cls.ping_interval_s, 0.0, 3600.0),
            ping_timeout_s=env.number("KERNEL_ENV_PING_TIMEOUT_S", cls.ping_timeout_s, 1.0, 3600.0),
        )


def names() -> frozenset[str]:
    """Of all variables that are read."""
    reader = _Reader({})
    Settings._read(reader)
    return frozenset(reader.seen)


def unknown(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that are set, look like settings and are none, each with the nearest that is one, or "".

    They stop nothing: Kubernetes sets some for a Service whose name is `kernel-env`.
    """
    known = names() | ELSEWHERE
    strange = sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
    return {name: next(iter(get_close_matches(name, known, 1)), "") for name in strange}


class _Reader:
    """Parses one variable at a time; an empty string counts as unset. `seen` has the names asked for."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.seen: set[str] = set()

    def text(self, name: str, default: str) -> str:
        self.seen.add(name)
        return self._environ.get(name, "").strip() or default

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise SettingsError(f"{name}={value!r} is not allowed; use one of: {', '.join(allowed)}")
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        raw = self.text(name, str(default))
        try:
            value = int(raw)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            hint = (
                "; Kubernetes sets it for a Service of that name: enableServiceLinks: false"
                if "://" in raw
                else ""
            )
            raise SettingsError(f"{name}={raw!r} is not allowed; use a whole number from {low} to {high}{hint}")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        raw = self.text(name, str(default))
        try:
            value = float(raw)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise SettingsError(f"{name}={raw!r} is not allowed; use a number from {low:g} to {high:g}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        raw = self.text(name, "true" if default else "false").lower()
        if raw not in ("true", "1", "yes", "false", "0", "no"):
            raise SettingsError(f"{name}={raw!r} is not allowed; use true or false")
        return raw in ("true", "1", "yes")

    def names(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        raw = self.text(name, "")
        return tuple(part.strip() for part in raw.split(",") if part.strip()) or default

    def gpus(self, name: str) -> tuple[str, ...]:
        parts = self.names(name, ())
        for part in parts:
            if not (part.isdigit() or part.startswith("GPU-")):
                raise SettingsError(
                    f"{name}={self.text(name, '')!r} is not allowed; use a comma list of device indices"
                    " or GPU- UUIDs, such as 0,1"
                )
        if len(set(parts)) != len(parts):
            raise SettingsError(f"{name}={self.text(name, '')!r} names a device twice")
        return parts

    def peaks(self, name: str) -> Peak | None:
        raw = self.text(name, "")
        if not raw:
            return None
        given = [part.partition("=") for part in raw.replace(" ", "").split(",")]
        try:
            rates = {key: float(value) for key, _, value in given}
        except ValueError:
            rates = {}
        fit = all(0.0 < rate <= _FASTEST for rate in rates.values())
        if not fit or sorted(key for key, _, _ in given) != sorted(FIELDS) or not rates:
            raise SettingsError(
                f"{name}={raw!r} is not allowed; use tf32=...,half=...,bandwidth=..., each once and above 0:"
                " dense TFLOP/s and GB/s, such as tf32=494.7,half=989.4,bandwidth=3352"
            )
        return Peak(**rates)

    def path(self, name: str, must_be: Literal["folder"] | None = None) -> Path | None:
        raw = self.text(name, "")
        if not raw:
            return None
        path = Path(raw).expanduser()
        if must_be == "folder" and not path.is_dir():
            raise SettingsError(f"{name}={raw!r} is not a folder")
        return path
