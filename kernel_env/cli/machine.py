"""Facts about this machine that decide what can be evaluated here. Every probe has a deadline; none of
them imports torch into this process. What to do about a missing part is said beside it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kernel_env.server.peaks import Peak

PROBE_S = 120.0
VERSION_S = 10.0

State = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Fact:
    """One line of the report. `missing` means that submissions of some kind cannot be evaluated here."""

    name: str
    value: str
    state: State = "ok"
    advice: str = ""


def packages() -> list[Fact]:
    """Python and the installed versions of what evaluation needs."""
    return [
        Fact("python", f"{platform.python_version()} ({sys.executable})"),
        _package("openenv", "missing", "pip install 'openenv>=0.9,<0.11'"),
        _package("torch", "missing", "pip install torch; without it only the mock evaluator works"),
        _package("triton", "note", "pip install triton, for triton submissions"),
        *_of_languages(),
        _package("transformers", "note", "pip install 'openenv-kernel_env[level4]', for KernelBench's level 4"),
    ]


def _of_languages() -> list[Fact]:
    from kernel_env.server import languages

    return [
        _package(language.package, "note", f"pip install '{language.extra}', for {language.name} submissions")
        for language in languages.registry().values()
        if language.package
    ]


def pool(name: str) -> Fact:
    """Who evaluates for a server with these settings."""
    if name == "local":
        return Fact("pool", "local: this machine")
    found = _package(name, "missing", f"pip install 'openenv-kernel_env[{name}]'")
    return Fact("pool", f"{name}: {found.value}", found.state, found.advice)


def _package(name: str, state: State, advice: str) -> Fact:
    try:
        return Fact(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Fact(name, "not installed", state, advice)


def compilers() -> list[Fact]:
    """What `load_inline` needs for `cpp` and `cuda` submissions."""
    gxx = _tool("g++", r"\b(\d+\.\d+\.\d+)\b", "install g++ 11 or later for cpp and cuda submissions")
    ninja = _tool("ninja", r"(\d+\.\d+\S*)", "pip install ninja, for cpp and cuda submissions")
    nvcc = _tool("nvcc", r"release (\d+\.\d+)", "install the CUDA toolkit, for cuda submissions")
    return [gxx, ninja, nvcc]


def counters() -> Fact:
    """What `kernel-env profile --counters` needs."""
    return _tool("ncu", r"Version (\d[\d.]*\d)", "install Nsight Compute, for kernel-env profile --counters")


def _tool(name: str, pattern: str, advice: str) -> Fact:
    beside = os.path.join(os.path.dirname(sys.executable), name)
    path = shutil.which(name) or (beside if os.access(beside, os.X_OK) else None)
    if path is None:
        return Fact(name, "not found", "note", advice)
    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=VERSION_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Fact(name, f"{path} does not run: {error}", "note", advice)
    match = re.search(pattern, told.stdout)
    return Fact(name, f"{match[1] if match else 'version unknown'} ({path})")


def device(supplied: Peak | None) -> list[Fact]:
    """The devices that torch sees, asked in a process of its own, and their peak rates, unless `supplied`."""
    try:
        probe = subprocess.run(
            [sys.executable, "-m", "kernel_env.cli.probe"], capture_output=True, text=True, timeout=PROBE_S
        )
    except subprocess.TimeoutExpired:
        return [Fact("device", f"torch gave no answer within {PROBE_S:g} s", "missing", "check the GPU driver")]
    if probe.returncode:
        reason = (probe.stderr.strip().splitlines() or ["no output"])[-1]
        return [Fact("device", f"torch cannot be used: {reason}", "missing", "reinstall torch")]
    found: dict[str, Any] = json.loads(probe.stdout.splitlines()[-1])
    build = f"torch built for CUDA {found['cuda']}" if found["cuda"] else "a CPU build of torch"
    if not found["devices"]:
        advice = "triton runs in its interpreter and is not timed; cpp is timed by wall clock"
        return [Fact("device", f"CPU, {os.cpu_count()} cores ({build}, no CUDA device)", "note", advice)]
    facts = []
    for index, gpu in enumerate(found["devices"]):
        size = f"{gpu['memory_bytes'] / 2**30:.0f} GiB"
        facts.append(Fact(f"device {index}", f"{gpu['name']}, capability {gpu['capability']}, {size} ({build})"))
        facts.append(peaks(f"peaks {index}", gpu["name"], supplied))
    return facts


def peaks(label: str, device_name: str, supplied: Peak | None) -> Fact:
    """The rates that the roofline of a device is worked out from."""
    from kernel_env.server.peaks import peak

    found = supplied or peak(device_name)
    if found is None:
        advice = "KERNEL_ENV_PEAKS=tf32=...,half=...,bandwidth=... (TFLOP/s, GB/s)"
        return Fact(label, f"not known for {device_name}: no roofline, no floor for times", "note", advice)
    origin = "KERNEL_ENV_PEAKS" if supplied else "datasheet"
    rates = f"TF32 {found.tf32:g} TFLOP/s, 16 bits {found.half:g} TFLOP/s, memory {found.bandwidth:g} GB/s"
    return Fact(label, f"{rates} ({origin})")


def sandbox() -> list[Fact]:
    """What the kernel offers for confining candidates."""
    from kernel_env.server import landlock as kernel_landlock

    abi = kernel_landlock.abi()
    landlock = Fact("landlock", f"ABI {abi}") if abi else Fact("landlock", "not available", "note")
    root = os.geteuid() == 0
    uid = Fact("user", "root" if root else f"uid {os.geteuid()}")
    return [Fact("kernel", platform.release()), landlock, uid]
