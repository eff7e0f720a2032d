"""What there is on this machine of the models on Hugging Face's hub that task files name. Never asks the network.

A model's name is a folder, or a repository in the hub's cache, where `kernel-env tasks fetch` puts it. Processes
that evaluate get `environment()`: the folder of fetched models and nothing of the hub's settings beside it, where
its token lies. They are always offline, so that no evaluation waits for a download.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def folder() -> Path:
    """The hub's cache of models, by the hub's own variables."""
    environ = os.environ
    caches = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or os.path.join(caches, "huggingface")
    named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return Path(os.path.expandvars(named)).expanduser().absolute()


def environment() -> dict[str, str]:
    """For processes that evaluate: where fetched models lie, no network, no progress bars in the server's log."""
    return {
        "HF_HUB_CACHE": str(folder()),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }


def has_config(name: str) -> bool:
    return find(name, CONFIG) is not None


def has_weights(name: str) -> bool:
    """Are all of a model's weights here, in one file or in the parts that an index lists?"""
    return any(find(name, file) is not None or _has_parts(name, f"{file}.index.json") for file in WEIGHTS)


def find(name: str, file: str) -> Path | None:
    """A file of a model, or None where it is not here."""
    if os.path.isdir(name):
        inside = Path(name, file)
        return inside if inside.is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, file, cache_dir=folder())
    except HFValidationError:  # neither a folder nor a name that a repository may have
        return None
    return Path(found) if isinstance(found, str) else None


def _has_parts(name: str, index: str) -> bool:
    listed = find(name, index)
    if listed is None:
        return False
    try:
        parts = set(json.loads(listed.read_text())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return all(find(name, str(part)) is not None for part in parts)
