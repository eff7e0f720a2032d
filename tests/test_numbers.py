"""The pure parts of a verdict: comparison, statistics, the judge's bound on claims."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from kernel_env.server import fused
from kernel_env.server.compare import _compare_chunk, _counter, compare, same_bytes
from kernel_env.server.digest import Digest
from kernel_env.server.layout import LayoutError, flatten, unflatten
from kernel_env.server.statistics import Block, Reading, estimate, spread, steady


def test_equal_and_close_tensors_match() -> None:
    expected = torch.randn(1000)
    assert compare(expected.clone(), expected, 0.0, 0.0) is None
    assert compare(expected + 0.009, expected, 1e-2, 0.0) is None
    assert compare(torch.empty(0), torch.empty(0), 0.0, 0.0) is None


def test_a_mismatch_names_the_worst_element() -> None:
    expected = torch.ones(4, 8)
    got = expected.clone()
    got[1, 2], got[3, 7] = 1.5, 9.0
    mismatch = compare(got, expected, 1e-2, 1e-2)
    assert mismatch is not None
    assert (mismatch.wrong, mismatch.total) == (2, 32)
    assert (mismatch.index, mismatch.got, mismatch.expected) == ((3, 7), 9.0, 1.0)
    assert "[3, 7]: got 9, expected 1" in mismatch.text()


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (-math.inf, math.inf, False),
        (math.nan, 1.0, False),
        (1.0, math.nan, False),
        (math.inf, 1.0, False),
        (1.0, math.inf, False),
        (math.nan, math.inf, False),
    ],
)
def test_non_finite_values_match_in_kind(got: float, expected: float, same: bool) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        pair = torch.tensor([0.0, got], dtype=dtype), torch.tensor([0.0, expected], dtype=dtype)
        assert (compare(*pair, 1e-2, 1e-2) is None) is same


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_are_compared_exactly(dtype: torch.dtype) -> None:
    expected = torch.ones(100, dtype=dtype)
    got = expected.clone()
    assert compare(got, expected, 10.0, 10.0) is None
    got[41] = 0
    mismatch = compare(got, expected, 10.0, 10.0)
    assert mismatch is not None
    assert mismatch.index == (41,)


def test_large_integers_do_not_collide() -> None:
    expected = torch.tensor([2**60])
    assert compare(expected + 1, expected, 0.0, 0.0) is not None


def test_complex_numbers_are_compared_by_distance() -> None:
    expected = torch.tensor([1 + 1j, 2 - 1j])
    assert compare(expected + 0.001j, expected, 1e-2, 0.0) is None
    assert compare(expected + 0.1j, expected, 1e-2, 0.0) is not None


KERNELS: dict[str, tuple[int | None, Exception | None]] = {
    "right": (None, None),
    "never runs": (0, None),
    "each thread looks at one element": (fused.BLOCKS * fused.THREADS, None),
    "leaves the last element out": (-1, None),
    "can't be launched": (None, RuntimeError("CUDA error: invalid argument")),
}


@pytest.mark.parametrize(("reach", "fault"), KERNELS.values(), ids=KERNELS.keys())
def test_only_a_kernel_that_counts_alike_is_used(
    reach: int | None, fault: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(grid: object, block: object, arguments: list[Any]) -> None:
        got, right, tolerance, off, _ = arguments
        if fault is not None:
            raise fault
        off += _compare_chunk(got[:reach], right[:reach], *tolerance.tolist())[0]

    monkeypatch.setattr(torch.cuda, "_compile_kernel", lambda source, name: launch, raising=False)
    count = _counter.__wrapped__(torch.float32, torch.device("cpu"))
    assert (count is not None) is (reach is None and fault is None)


@pytest.mark.parametrize("fault", [AttributeError, ImportError, RuntimeError, OSError])
def test_where_no_kernel_can_be_compiled_there_is_none(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: str, name: str) -> None:
        raise fault

    monkeypatch.setattr(torch.cuda, "_compile_kernel", fail, raising=False)
    assert _counter.__wrapped__(torch.float32, torch.device("cpu")) is None


def test_same_bytes_is_bit_for_bit() -> None:
    value = torch.tensor([math.nan, -0.0, 1.0])
    assert same_bytes(value, value.clone())
    assert not same_bytes(value, torch.tensor([math.nan, 0.0, 1.0]))


@pytest.mark.parametrize("size", [0, 3, 8, 4096, 8 * 1024 * 5 + 13])
def test_a_digest_tells_changed_bytes(size: int) -> None:
    digest, data = Digest(), torch.randint(0, 256, (size,), dtype=torch.uint8)
    first = int(digest.of(data))
    assert int(digest.of(torch.ones(100_000, dtype=torch.uint8))) != first
    assert int(digest.of(data)) == first
    for at in {0, size // 2, size - 1} if size else set():
        changed = data.clone()
        changed[at] ^= 1
        assert int(digest.of(changed)) != first


def test_a_digest_tells_rows_that_changed_places() -> None:
    digest, rows = Digest(), torch.randint(0, 256, (4, 8 * 1024), dtype=torch.uint8)
    assert int(digest.of(rows.flatten())) != int(digest.of(rows.flip(0).flatten()))


def test_a_dicts_tensors_have_an_order_of_their_own() -> None:
    a, b = torch.zeros(1), torch.ones(2)
    one, other = flatten({"a": a, "b": [b, 3]}), flatten({"b": [b, 3], "a": a})
    assert one == ({"dict": {"a": {"tensor": 0}, "b": {"list": [{"tensor": 1}, {"value": 3}]}}}, [a, b])
    assert other == (one[0], [a, b])
    assert list(unflatten(*other)) == ["b", "a"]


def test_what_is_flattened_runs_no_code_of_its_own() -> None:
    value = torch.zeros(1)

    def ran(*_: object) -> object:
        raise AssertionError

    traps = dict.fromkeys(("__iter__", "__getitem__", "__len__", "__str__", "keys", "items", "__float__"), ran)
    traps |= {"__class__": property(ran), "__pos__": ran, "__index__": ran}
    lazy: Any = {base: type("Lazy", (base,), traps) for base in (list, tuple, dict, int, float, str)}
    assert flatten(lazy[list]([value])) == ({"list": [{"tensor": 0}]}, [value])
    assert flatten(lazy[tuple]([value])) == ({"tuple": [{"tensor": 0}]}, [value])
    assert flatten(lazy[dict](a=value)) == ({"dict": {"a": {"tensor": 0}}}, [value])
    for plain in (3, 1.5, "text"):
        (content,) = flatten(lazy[type(plain)](plain))[0].values()
        assert (type(content), content) == (type(plain), plain)
    with pytest.raises(LayoutError):
        flatten({lazy[str]("a"): value})


def test_an_estimate_is_coherent_and_repeatable() -> None:
    blocks = [Block.of([1.0 + 0.01 * i, 1.0], [2.0 + 0.01 * i, 2.0]) for i in range(9)]
    first = estimate(blocks)
    assert first == estimate(blocks)
    assert first.speedup == first.ref_runtime_ms / first.runtime_ms
    assert first.low <= first.speedup <= first.high
    assert first.samples == 18
    assert first.half_width < 0.05


def test_the_spread_is_that_of_the_blocks() -> None:
    assert spread([2.0]) == {"std_ms": 0.0, "min_ms": 2.0, "max_ms": 2.0}
    assert spread([1.0, 3.0]) == {"std_ms": 1.0, "min_ms": 1.0, "max_ms": 3.0}


def test_an_estimate_shrugs_off_an_outlier() -> None:
    blocks = [Block.of([1.0], [2.0])] * 8 + [Block.of([50.0], [2.0])]
    assert estimate(blocks).speedup == 2.0


def test_equal_blocks_give_a_point() -> None:
    result = estimate([Block.of([1.0], [3.0])] * 5)
    assert (result.low, result.speedup, result.high) == (3.0, 3.0, 3.0)


def test_times_of_nothing_give_a_finite_speedup() -> None:
    result = estimate([Block.of([0.0], [0.0])] * 5)
    assert (result.speedup, result.half_width) == (1.0, 0.0)


def reading(mhz: int, slowed: bool = False) -> Reading:
    return Reading(mhz, slowed)


def test_blocks_at_another_clock_are_left_out() -> None:
    fast, slow = (
        Block.of([1.0], [2.0], reading(1980), reading(1700)),
        Block.of([9.0], [2.0], reading(1500), reading(1700)),
    )
    held = Block.of([1.0], [9.0], reading(1980), reading(1700, slowed=True))
    assert steady([fast, slow, fast, held, fast]) == [fast, fast, fast]


def test_blocks_count_where_clocks_are_unknown_or_never_the_same() -> None:
    unknown = [Block.of([1.0], [2.0])] * 3
    assert steady(unknown) == unknown
    wild = [Block.of([1.0], [2.0], reading(mhz), reading(1700)) for mhz in (1000, 1200, 1400, 1600)]
    assert steady(wild) == wild
