"""Texts are parsed from many threads at once: checks of several submissions, tasks of several episodes."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernel_env.syntax import parse

TEXT = Path(__file__).read_text("utf-8")


class Litter:
    """Garbage whose collection lets another thread run, wherever it strikes."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def eager_collector() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.set_threshold(50)
    yield
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("eager_collector")
def test_many_threads_parse_at_once() -> None:
    def one(text: str) -> ast.Module:
        Litter()
        return parse(text)

    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(one, [TEXT] * 300))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(parse(TEXT))}


@pytest.mark.parametrize(("text", "error"), [("x = (", SyntaxError), ("x = '\0'", (SyntaxError, ValueError))])
def test_what_does_not_parse_is_told(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse(text)
    assert parse("x = '\\d'").body
