"""Who may be with a worker at one time."""

from __future__ import annotations

import asyncio

import pytest

from kernel_env.server.company import Company


async def test_one_that_comes_alone_is_alone_and_gets_its_turn() -> None:
    company, inside, seen = Company(), set[str](), list[tuple[str, ...]]()

    async def visit(name: str) -> None:
        async with company.join(alone=name.startswith("alone")):
            inside.add(name)
            seen.append(tuple(sorted(inside)))
            for _ in range(5):
                await asyncio.sleep(0)
            inside.remove(name)

    names = ["a", "b", "alone 1", "c", "alone 2", "d"]
    await asyncio.gather(*(visit(name) for name in names))
    assert seen[:4] == [("a",), ("a", "b"), ("alone 1",), ("alone 2",)]
    assert seen[-1] == ("c", "d")


async def test_one_that_gives_up_its_turn_lets_the_others_in() -> None:
    company = Company()
    async with company.join(alone=False):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02), company.join(alone=True):
                raise AssertionError("it was not alone")
        async with asyncio.timeout(10.0), company.join(alone=False):
            pass
    async with asyncio.timeout(10.0), company.join(alone=True):
        pass
