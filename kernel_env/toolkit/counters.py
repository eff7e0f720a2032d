"""What the hardware counts in one call, by kernel: Nsight Compute's key metrics, where this user may read them.

`ncu` starts `kernel_env.server.counted`, in which the submission runs without the sandbox: only for code that its
user trusts. It runs each kernel several times, from cold caches, at the clocks that the device has.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 300.0
LAUNCHES = 64
TIME = "gpu__time_duration.sum"
BYTES = "dram__bytes.sum"
SHARES = {
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l2_hits": "lts__t_sector_hit_rate.pct",
}
METRICS = (TIME, BYTES, *SHARES.values())
_REASON_CAP = 300


class CountersError(RuntimeError):
    """There are no counters; the text says why, in one line."""


@dataclass(frozen=True)
class Subject:
    """What is counted: a submission's text, its task, and the device by its index or UUID ("" for the first)."""

    task_id: str
    source: str
    code: str
    precision: str
    gpu: str = ""


@dataclass(frozen=True)
class Counted:
    """One kernel's launches in the call. `shares` are from 0 to 1, by the keys of `SHARES`, weighted by time."""

    name: str
    launches: int
    ms: float
    bytes: float
    shares: Mapping[str, float]

    @property
    def gb_s(self) -> float:
        """Of the device's memory, as counted."""
        return self.bytes / self.ms / 1e6 if self.ms else 0.0


def count(subject: Subject) -> list[Counted]:
    """Longest first. Raises `CountersError`."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise CountersError("ncu (Nsight Compute) is not on PATH")
    with tempfile.TemporaryDirectory(prefix="kernel-env-") as name:
        folder = Path(name)
        (folder / "submission.py").write_text(subject.code, "utf-8")
        spec = {"task_id": subject.task_id, "source": subject.source, "precision": subject.precision}
        (folder / "spec.json").write_text(json.dumps({**spec, "code": str(folder / "submission.py")}))
        log = folder / "ncu.csv"
        said = _run([ncu, *_options(log), sys.executable, "-m", "kernel_env.server.counted"], folder, subject.gpu)
        lines = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
    counted = parse(lines)
    if not counted:
        raise CountersError(_reason([*lines, *said.splitlines()]))
    return counted


def parse(lines: Iterable[str]) -> list[Counted]:
    """ncu's raw page as CSV, in base units (ns, bytes, %); lines that are none of it are left out."""
    rows = [row for row in csv.DictReader(line for line in lines if line.startswith('"')) if row["ID"].isdigit()]
    by_name: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        by_name.setdefault(row["Kernel Name"], []).append({metric: _number(row.get(metric)) for metric in METRICS})
    return sorted((_counted(name, found) for name, found in by_name.items()), key=lambda one: -one.ms)


def _counted(name: str, launches: list[dict[str, float]]) -> Counted:
    total = sum(launch[TIME] for launch in launches)
    shares = {
        key: sum(launch[metric] * launch[TIME] for launch in launches) / total / 100 if total else 0.0
        for key, metric in SHARES.items()
    }
    return Counted(name, len(launches), total / 1e6, sum(launch[BYTES] for launch in launches), shares)


def _number(text: str | None) -> float:
    """Thousands have commas; what the device does not count is `n/a`."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return 0.0


def _options(log: Path) -> list[str]:
    return [
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
        *("--profile-from-start", "off", "--target-processes", "application-only"),
        *("--clock-control", "none", "--launch-count", str(LAUNCHES), "--metrics", ",".join(METRICS)),
    ]


def _run(command: list[str], folder: Path, gpu: str) -> str:
    """What it says. Raises `CountersError`."""
    environment = {
        **os.environ,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}),
    }
    try:
        done = subprocess.run(
            [*command, str(folder / "spec.json")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CountersError(f"ncu was not done within {LIMIT_S:g} s") from None
    except OSError as error:
        raise CountersError(f"ncu can't be run: {error.strerror}") from error
    return done.stdout


def _reason(said: list[str]) -> str:
    if any("ERR_NVGPUCTRPERM" in line for line in said):
        return (
            "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): an administrator allows it with the"
            " driver's option NVreg_RestrictProfilingToAdminUsers=0"
        )
    errors = [line for line in said if line.startswith("==ERROR==")] or [line for line in said if line.strip()]
    last = errors[-1].removeprefix("==ERROR==").strip() if errors else "it said nothing"
    return f"ncu counted no kernel: {last}"[:_REASON_CAP]
