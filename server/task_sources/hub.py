"""Tasks of the Hugging Face dataset ScalingIntelligence/KernelBench.

One Parquet file a level, fetched through `huggingface_hub` and kept in its cache: once there, it serves
offline as well. pyarrow, which reads Parquet, is needed for this source alone and loaded when it is used.
Ids equal those of a local checkout: `level1/19_ReLU`.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx

from .text import SourceError, TaskText

DATASET = "ScalingIntelligence/KernelBench"
LEVELS = (1, 2, 3, 4)

_FILE = re.compile(r"level_(\d+)-.*\.parquet")


def download() -> list[TaskText]:
    """All levels of the dataset; raises `SourceError` when it is neither cached nor reachable."""
    _pyarrow()
    return read_files(_files())


def read_files(files: list[Path]) -> list[TaskText]:
    """The tasks in Parquet files; raises `SourceError` when pyarrow is missing."""
    parquet = _pyarrow()
    return [text for file in files for text in rows(parquet.read_table(file).to_pylist())]


def rows(records: list[dict[str, Any]]) -> list[TaskText]:
    """Dataset rows as texts; raises `SourceError` where a column is missing or of the wrong type."""
    return [_text(record) for record in records]


def _text(record: dict[str, Any]) -> TaskText:
    code, level, name = record.get("code"), record.get("level"), record.get("name")
    if not (isinstance(code, str) and isinstance(level, int) and isinstance(name, str)):
        raise SourceError(
            f"a row of {DATASET} lacks code, level or name (it has {', '.join(sorted(record))});"
            " use the task source 'kernelbench' with a checkout instead"
        )
    name = name.removesuffix(".py")
    return TaskText(
        id=f"level{level}/{name}",
        level=level,
        name=name,
        source=code,
        origin=f"huggingface:{DATASET}/level_{level}",
    )


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError as error:
        raise SourceError(
            "the task source 'huggingface' needs pyarrow to read Parquet; run: pip install pyarrow"
        ) from error


def _files() -> list[Path]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        snapshot = snapshot_download(DATASET, repo_type="dataset", allow_patterns="data/level_*.parquet")
    except (OSError, httpx.HTTPError, HfHubHTTPError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(
            f"the Hugging Face dataset {DATASET} is not in the cache and cannot be fetched ({reason});"
            " connect once, or clone KernelBench and set KERNELBENCH_DIR, or use the embedded tasks"
        ) from error
    return pick_files(Path(snapshot))


def pick_files(snapshot: Path) -> list[Path]:
    """The Parquet files under `snapshot/data`, by level; raises `SourceError` unless every level is there."""
    found = {file: int(match[1]) for file in snapshot.glob("data/*") if (match := _FILE.fullmatch(file.name))}
    missing = sorted(set(LEVELS) - set(found.values()))
    if missing:
        raise SourceError(
            f"the cached copy of {DATASET} in {snapshot} lacks level {', '.join(map(str, missing))};"
            " delete it and connect once to fetch it again"
        )
    return sorted(found, key=lambda file: (found[file], file.name))
