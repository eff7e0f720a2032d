"""How long extensions take to build, as PyTorch does it and light: `python -m benchmarks.builds --language cuda`.

Every submission of the corpus in the language is built both ways, one after the other, each in a process and a
folder of its own with nothing kept; what is measured is the compilers' time, by the clock and on the cores. A
build that falls back counts with both of its attempts. Nothing is run, so no GPU is needed. With a PyTorch without
CUDA but with a CUDA toolkit (`CUDA_HOME`), the same sources are compiled for sm_90a, and not linked.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from .machine import load, machine, show
from .tables import digits, table

ROOT = Path(__file__).parent.parent
SOURCES = {
    "cuda": ["tests/kernels/cuda", "tests/honest/cuda", "tests/exploits/native", "tests/submissions"],
    "cpp": ["tests/honest/cpp", "tests/exploits/native", "tests/submissions", "kernel_env/demos"],
}
LIMIT_S = 600
JOBS = "4"
WITHOUT_DEVICE = "9.0a"
MISSING_HEADER = "c10/cuda/impl/cuda_cmake_macros.h"
"""A PyTorch without CUDA has every header of c10/cuda but this one, which says how it was configured."""


@dataclass(frozen=True)
class Build:
    wall_s: float
    cpu_s: float
    how: str
    error: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.builds", description=__doc__.splitlines()[0])
    parser.add_argument("--language", choices=tuple(SOURCES), default="cuda")
    parser.add_argument("--only", default="", metavar="TEXT", help="submissions with this in their path")
    parser.add_argument("--one", nargs=2, metavar=("HOW", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(vars(_build(options.language, options.one[0], Path(options.one[1])))))
        return
    show(machine(["torch"]))
    paths = [path for path in submissions(options.language) if options.only in str(path)]
    print(f"\n{'wall and CPU seconds':44} stock wall   cpu  light wall   cpu  ratio  built", flush=True)
    pairs = [pair for path in paths if (pair := _pair(options.language, path))]
    light = [(stock, light) for stock, light in pairs if light.how == "light" and not stock.error]
    print(f"\n{summary(light)}\n{len(light)} of {len(pairs)} light; load at the end {load()}")


def submissions(language: str) -> Iterator[Path]:
    """Those that build an extension in the language."""
    for folder in SOURCES[language]:
        for path in sorted((ROOT / folder).glob("*.py")):
            text = path.read_text("utf-8")
            if "load_inline(" in text and ("cuda_sources" in text or "CUDA" in text) == (language == "cuda"):
                yield path


def summary(pairs: Sequence[tuple[Build, Build]]) -> str:
    """Medians over those that were built light."""
    if not pairs:
        return "none was built light"
    rows = []
    for name, of in (("wall s", "wall_s"), ("CPU s", "cpu_s")):
        stock, light = (statistics.median(getattr(pair[side], of) for pair in pairs) for side in (0, 1))
        rows.append([f"median {name}", digits(stock, 3), digits(light, 3), f"{stock / light:.1f}"])
    return table(["", "stock", "light", "ratio"], rows)


def _pair(language: str, path: Path) -> tuple[Build, Build] | None:
    """None for one that builds nothing before `ModelNew` is constructed."""
    stock, light = (_apart(language, how, path) for how in ("stock", "light"))
    if not stock.how:
        return None
    ratio = f"{stock.wall_s / light.wall_s:.1f}"
    seconds = "".join(f"{value:10.1f}" for value in (stock.wall_s, stock.cpu_s, light.wall_s, light.cpu_s))
    outcome = light.how + (f", fails: {stock.error}" if stock.error else "")
    print(f"{path.parent.name + '/' + path.stem:44.44}{seconds}  {ratio:>5}  {outcome}", flush=True)
    if bool(stock.error) != bool(light.error):
        raise SystemExit(f"{path}: stock {stock.error or 'builds'}, light {light.error or 'builds'}")
    return stock, light


def _apart(language: str, how: str, path: Path) -> Build:
    with tempfile.TemporaryDirectory(prefix="builds-") as folder:
        environment = {"TORCH_EXTENSIONS_DIR": folder, "TMPDIR": folder, "MAX_JOBS": JOBS}
        command = [sys.executable, "-m", "benchmarks.builds", "--language", language, "--one", how, str(path)]
        done = subprocess.run(
            command, env=os.environ | environment, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True, cwd=ROOT
        )
    return Build(**json.loads(done.stdout.splitlines()[-1]))


def _build(language: str, how: str, path: Path) -> Build:
    import torch
    from torch.utils import cpp_extension

    from kernel_env.server.light import FOLDER, REFUSED, Light

    light = Light.over(Path(torch.__file__).parent / "include") if how == "light" else Light({})
    builds: list[Build] = []
    original: Any = cpp_extension._run_ninja_build

    def measured(build_directory: str, verbose: bool, error_prefix: str) -> None:
        run = partial(original, build_directory, verbose=False, error_prefix=error_prefix)
        if not torch.cuda._is_compiled() and language == "cuda":
            _leave_out_link(Path(build_directory, "build.ninja"))
        begun, error, told = time.monotonic(), "", _cpu_s()
        try:
            light.build(Path(build_directory), run)
        except RuntimeError as failure:
            error = next((line for line in str(failure).splitlines() if "error" in line), "?")[-160:]
        refused = Path(build_directory, REFUSED).exists()
        headers = Path(build_directory, FOLDER).exists()
        kind = ("fell back" if refused else "light") if headers else "stock"
        builds.append(Build(time.monotonic() - begun, _cpu_s() - told, kind, error))

    cpp_extension._run_ninja_build = measured
    cpp_extension._import_module_from_library = lambda *ignored: Mock()
    if language == "cuda":
        _settle_cuda(cpp_extension, torch)
    exec(compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "submission"})
    walls, cpus = sum(build.wall_s for build in builds), sum(build.cpu_s for build in builds)
    how = min((build.how for build in builds), default="")
    return Build(walls, cpus, how, next((build.error for build in builds if build.error), ""))


def _settle_cuda(cpp_extension: Any, torch: Any) -> None:
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}{'a' if major in (9, 10) else ''}"
        return
    os.environ["TORCH_CUDA_ARCH_LIST"] = WITHOUT_DEVICE
    cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME or os.environ["CUDA_HOME"]
    if not torch.cuda._is_compiled():
        header = Path(os.environ["TMPDIR"], "own", MISSING_HEADER)
        header.parent.mkdir(parents=True)
        header.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
        os.environ["CPATH"] = f"{os.environ['TMPDIR']}/own"


def _leave_out_link(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    objects = [line.split(":")[0].removeprefix("build ") for line in lines if "compile /" in line]
    kept = [line for line in lines if not line.startswith(("default ", "build")) or "compile /" in line]
    file.write_text("\n".join([*kept, f"default {' '.join(objects)}\n"]), "utf-8")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
