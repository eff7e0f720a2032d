"""A run directory in KernelBench's naming: `level_1_problem_19_sample_0_kernel.py`, and where its results lie.

`eval_results.json` has no place for the level. So a directory that holds one level has that file itself; one that
holds several has `level_1/eval_results.json` and so on, each of which KernelBench's scripts read as a run.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RESULTS = "eval_results.json"
MOST_TEXT = 4 << 20
PASS_AT_K = "pass_at_k_results.json"
_LOCK = ".kernel_env_lock"
_KERNEL = re.compile(r"level_(\d{1,9})_problem_(\d{1,9})_sample_(\d{1,9})_kernel\.py")


class FolderError(RuntimeError):
    """The run directory can't be used as it is; the text says what to do."""


@dataclass(frozen=True, order=True)
class Sample:
    """One generated kernel: which of a problem's samples it is."""

    level: int
    problem: int
    number: int

    @property
    def stem(self) -> str:
        return f"level_{self.level}_problem_{self.problem}_sample_{self.number}"

    @property
    def file_name(self) -> str:
        return f"{self.stem}_kernel.py"


def kernels(folder: Path) -> dict[Sample, Path]:
    """The kernels of a run directory, in order. Raises `FolderError` where it is none."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; name a run directory")
    found = {}
    for file in folder.iterdir():
        match = _KERNEL.fullmatch(file.name)
        if match:
            sample = Sample(*(int(part) for part in match.groups()))
            if sample.file_name != file.name:
                raise FolderError(f"{file.name} has leading zeros; rename it to {sample.file_name}")
            found[sample] = file
    return dict(sorted(found.items()))


def results_files(folder: Path, levels: set[int]) -> dict[int, Path]:
    """The results file of each level that the directory holds. Raises `FolderError` where that is not clear."""
    if len(levels) <= 1:
        return {level: _alone(folder, level) for level in levels}
    if (folder / RESULTS).exists():
        raise FolderError(
            f"{folder / RESULTS} does not say which of the levels {', '.join(map(str, sorted(levels)))} it is of:"
            f" move it into {folder}/level_N/ of its level N"
        )
    return {level: folder / f"level_{level}" / RESULTS for level in sorted(levels)}


def _alone(folder: Path, level: int) -> Path:
    """Where a directory had several levels before, its results stay where they are."""
    split = folder / f"level_{level}" / RESULTS
    return split if split.exists() else folder / RESULTS


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One writer at a time. Raises `FolderError` while another one works here."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise FolderError(f"{folder} cannot be written to: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise FolderError(f"another kernel-env command works in {folder}; wait for it, or end it") from error
    finally:
        os.close(descriptor)


def read_text(file: Path) -> str:
    """At most `MOST_TEXT` bytes, which is more than any evaluator takes. Raises OSError."""
    with file.open("rb") as stream:
        return stream.read(MOST_TEXT).decode(errors="replace")


def write_whole(file: Path, text: str) -> None:
    """Replace a file's content in one step: a reader, or a crash, meets the old or the new one. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_text(text)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
