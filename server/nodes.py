"""The device files that a candidate gets: those of the one GPU that it runs on."""

from __future__ import annotations

import re
from pathlib import Path

PLAIN = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY = "/dev/shm"
SHARED = (SHARED_MEMORY, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-caps")
_DRIVER = Path("/proc/driver/nvidia/gpus")


def of_gpu(index: str) -> tuple[str, ...]:
    """Of the GPU with this index (in the order of the bus) or UUID; of all where the driver does not tell."""
    infos = [text for path in sorted(_DRIVER.glob("*/information")) if (text := _read(path))]
    if index.isdigit():
        infos = infos[int(index) : int(index) + 1]
    else:
        infos = [text for text in infos if f"{index.lower()}" in text.lower()]
    minors = [found[1] for text in infos if (found := re.search(r"Device Minor:\s*(\d+)", text))]
    return (*SHARED, f"/dev/nvidia{minors[0]}") if len(minors) == 1 else of_all_gpus()


def of_all_gpus() -> tuple[str, ...]:
    return (*SHARED, *(str(path) for path in sorted(Path("/dev").glob("nvidia[0-9]*"))))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
