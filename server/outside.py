"""What a task needs that this package does not bring: the package `transformers`, and models of its hub.

Decided on the text and on what lies on this machine: nothing is imported, run or fetched. KernelBench's level 4
is of this kind. Models are those that a `from_pretrained` call names, in a literal or in a variable of the module
that holds one; of a model the configuration is needed, while its weights may be random (see `random_weights`).
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernel_env.syntax import parse

from . import model_cache

PACKAGE = "transformers"
INSTALL = "pip install 'openenv-kernel_env[level4]'"


@dataclass(frozen=True)
class Outside:
    """`missing` says why the task can't run on this machine and what to do, or is None where it can."""

    models: tuple[str, ...]
    weights: Literal["own", "random"] | None = None
    missing: str | None = None


def outside(source: str) -> Outside | None:
    """What a parsable task needs from outside; None for the many that need nothing."""
    if PACKAGE not in source:
        return None
    tree = parse(source)
    if not any(_imports_package(node) for node in ast.walk(tree)):
        return None
    models = tuple(dict.fromkeys(_models(tree)))
    missing = _missing(models)
    if missing or not models:
        return Outside(models, missing=missing)
    return Outside(models, "own" if all(map(model_cache.has_weights, models)) else "random")


def _missing(models: tuple[str, ...]) -> str | None:
    if importlib.util.find_spec(PACKAGE) is None:
        return f"it needs the package {PACKAGE}, which is not installed; {INSTALL}"
    absent = [name for name in models if not model_cache.has_config(name)]
    if absent:
        return (
            f"the configuration of {', '.join(absent)} is not on this machine; run `kernel-env tasks fetch` once"
            " where Hugging Face's hub can be reached, then start the server again"
        )
    return None


def _imports_package(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == PACKAGE for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE


def _models(tree: ast.Module) -> Iterator[str]:
    names = dict(_constants(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="from_pretrained"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Call(func=ast.Attribute(attr="from_pretrained"), args=[ast.Name(id=known), *_]):
                if known in names:
                    yield names[known]
            case _:
                pass


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Variables of the module that hold a literal text."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
            case _:
                pass
