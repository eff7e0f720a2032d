"""The kernel that counts elements that are off is in use on the device, and agrees with the plain comparison."""

from __future__ import annotations

import math

import pytest
import torch

from kernel_env.server import compare, fused
from kernel_env.server.local import visible_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not visible_gpus(), reason="no CUDA device")]

DTYPES = sorted(fused.TYPES, key=str)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 255, 100_003])
def test_it_counts_what_is_off(dtype: torch.dtype, size: int) -> None:
    count = compare._counter(dtype, torch.device("cuda", 0))
    assert count is not None
    for seed in range(20):
        generator = torch.Generator("cuda").manual_seed(seed)
        expected = torch.randn(size, generator=generator, device="cuda", dtype=torch.float64)
        noise = torch.randn(size, generator=generator, device="cuda", dtype=torch.float64)
        got, right = (expected * (1 + 0.01 * noise)).to(dtype), expected.to(dtype)
        got[seed % size] = [math.nan, math.inf, -math.inf, 0.0][seed % 4]
        for atol, rtol in compare.TOLERANCES:
            assert count(got, right, atol, rtol) == compare._compare_chunk(got, right, atol, rtol)[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_wrong_element_is_found_wherever_it_is(dtype: torch.dtype) -> None:
    expected = torch.ones(3, 1 << 20, device="cuda", dtype=dtype)
    assert compare.compare(expected.clone(), expected, 1e-2, 1e-2) is None
    for at in (0, 1, 12_345, 3 * (1 << 20) - 1):
        got = expected.clone()
        got.view(-1)[at] = 1.5
        found = compare.compare(got, expected, 1e-2, 1e-2)
        assert found is not None
        assert (found.wrong, found.total, found.got) == (1, 3 << 20, 1.5)
        assert found.index == (at >> 20, at % (1 << 20))


def test_what_lies_between_a_view_s_elements_is_no_part_of_it() -> None:
    expected = torch.ones(2000, device="cuda")
    got = expected.clone()
    got[1000::2] = 5.0
    assert compare.compare(got[::2], expected[::2], 1e-2, 1e-2) is not None
    assert compare.compare(got[1::2], expected[1::2], 1e-2, 1e-2) is None
    assert compare.compare(expected[:1].expand(2000), got, 1e-2, 1e-2) is not None


def test_more_elements_than_a_launch_takes() -> None:
    expected = torch.zeros(fused.AT_ONCE + 1000, device="cuda", dtype=torch.float16)
    got = expected.clone()
    assert compare.compare(got, expected, 1e-2, 1e-2) is None
    got[-1] = 1
    found = compare.compare(got, expected, 1e-2, 1e-2)
    assert found is not None
    assert found.index == (fused.AT_ONCE + 999,)
