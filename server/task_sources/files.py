"""Tasks in files: the embedded set, a KernelBench checkout, and a file or folder of the user's own.

A file `level1/19_ReLU.py` is the task `level1/19_ReLU`; a file under no `levelN` folder is `user/<stem>`
of level 0. A file that cannot be read is yielded with its fault, never skipped. Names starting with `_`
or `.` are no tasks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from .text import MAX_TEXT_BYTES, SourceError, TaskText

MAX_FILES = 10_000

_LEVEL = re.compile(r"level(\d+)")


def embedded() -> list[TaskText]:
    """The tasks that come with the package."""
    return folder(Path(__file__).parent.parent / "embedded")


def kernelbench(root: Path | None) -> list[TaskText]:
    """`level1/` to `level4/` of a KernelBench checkout's `KernelBench/` folder."""
    if root is None:
        raise SourceError(
            "the task source 'kernelbench' needs KERNELBENCH_DIR: the KernelBench/ folder of a checkout"
        )
    if not root.is_dir():
        raise SourceError(f"KERNELBENCH_DIR={root} is not a folder; clone KernelBench and name its folder")
    levels = sorted(child for child in root.iterdir() if child.is_dir() and _LEVEL.fullmatch(child.name))
    if not levels:
        inner = root / "KernelBench"
        hint = f"; did you mean {inner}?" if inner.is_dir() else ""
        raise SourceError(f"KERNELBENCH_DIR={root} has no level1/ ... level4/ folders{hint}")
    return [text for level in levels for text in folder(level)]


def path(source: str) -> list[TaskText]:
    """A task file or a folder of them (recursive) that the user names."""
    target = Path(source).expanduser()
    if target.is_file():
        return [_read(target, target.absolute().parent)]
    if target.is_dir():
        return folder(target)
    raise SourceError(
        f"the task source {source!r} is neither embedded, kernelbench or huggingface nor an existing"
        " file or folder; check KERNEL_ENV_TASKS"
    )


def folder(root: Path) -> list[TaskText]:
    """Every task file under `root`; raises `SourceError` when there is none."""
    texts: list[TaskText] = []
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            if name.endswith(".py") and not name.startswith(("_", ".")):
                texts.append(_read(Path(parent, name), root))
                if len(texts) > MAX_FILES:
                    raise SourceError(f"{root} holds more than {MAX_FILES} Python files; name a smaller folder")
    if not texts:
        raise SourceError(f"{root} holds no task file (*.py)")
    return texts


def _read(file: Path, root: Path) -> TaskText:
    level = _level(file, root)
    prefix = "user" if level is None else f"level{level}"
    source, fault = _text(file)
    return TaskText(
        id=f"{prefix}/{file.stem}",
        level=level or 0,
        name=file.stem,
        source=source,
        origin=str(file),
        fault=fault,
    )


def _level(file: Path, root: Path) -> int | None:
    """The nearest `levelN` above the file; folders above `root` do not count, `root` itself does."""
    root = root.absolute()
    for parent in file.absolute().parents:
        match = _LEVEL.fullmatch(parent.name)
        if match:
            return int(match[1])
        if parent == root:
            return None
    return None


def _text(file: Path) -> tuple[str, str | None]:
    """The text and the fault that kept it from being read whole."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    if len(data) > MAX_TEXT_BYTES:
        return "", f"is larger than {MAX_TEXT_BYTES} bytes"
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        return data.decode(errors="replace"), f"is not UTF-8 (byte {error.start})"
