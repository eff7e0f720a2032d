"""What torch sees on this machine, as JSON: `python -m kernel_env.cli.probe`, run by `doctor` in a process
of its own, because importing torch and opening a device are slow and may fail in any way."""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Write one JSON object: versions, and the CUDA devices with their capability and memory in bytes."""
    import torch

    found: dict[str, object] = {"torch": torch.__version__, "cuda": torch.version.cuda, "devices": []}
    if torch.cuda.is_available():
        devices = []
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            devices.append(
                {
                    "name": properties.name,
                    "capability": f"{properties.major}.{properties.minor}",
                    "memory_bytes": properties.total_memory,
                }
            )
        found["devices"] = devices
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
