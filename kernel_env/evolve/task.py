"""The task that a run starts from: a reference in KernelBench's form, checked as text before anything is spent."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path

from kernel_env.server.task_syntax import fault_of

from .errors import TaskFormError


def check_form(initial_code: str) -> str:
    """`initial_code`, less an indentation that all its lines share. Raises `TaskFormError` with what it lacks."""
    if not isinstance(initial_code, str):
        raise TaskFormError("initial_code is no text: give the source of a module with Model and its inputs")
    initial_code = textwrap.dedent(initial_code)
    fault = fault_of(initial_code)
    if fault is None:
        return initial_code
    hint = ""
    if "\n" not in initial_code.strip() and Path(initial_code.strip()[:255]).suffix == ".py":
        hint = "; it looks like a path: give the file's text"
    raise TaskFormError(
        f"initial_code {fault}{hint}. It must define class Model(nn.Module), get_inputs() and get_init_inputs()"
        " at module level"
    )


def task_hash(initial_code: str) -> str:
    """As the environment identifies a task's text."""
    return hashlib.sha256(initial_code.encode(errors="surrogatepass")).hexdigest()[:16]
