"""The roofline: peaks by name or setting, t_min, and the floor below which a time is impossible."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from kernel_env.cli.machine import peaks
from kernel_env.server.config import Settings, SettingsError
from kernel_env.server.extras import Extras, ExtrasError, built_in, extras_of
from kernel_env.server.floor_table import RULES
from kernel_env.server.floors import FloorError, Size, Traffic, form, traffic
from kernel_env.server.observation import facts, numbers
from kernel_env.server.outcome import Device, Evaluation, Passed, Timing
from kernel_env.server.peaks import PEAKS, Peak, known, peak, supply
from kernel_env.server.reference import Reference, TaskFault
from kernel_env.server.roofline import bound, doubt, floor_ms, measure, needed

H200 = PEAKS["H200"]
CPU = torch.device("cpu")
SETTING = "KERNEL_ENV_PEAKS"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA A10G", "A10G"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
    ],
)
def test_devices_are_known_by_their_cuda_names(device: str, name: str) -> None:
    assert peak(device) is PEAKS[name]


@pytest.mark.parametrize(
    "device",
    [
        "AMD EPYC (2 cores)",
        "NVIDIA L40",
        "NVIDIA A10",
        "NVIDIA GH200 480GB",
        "NVIDIA GB200",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "GRID T4-16Q",
        "NVIDIA A10G-24Q",
        "",
    ],
)
def test_other_devices_have_no_peaks(device: str) -> None:
    assert peak(device) is None
    assert known(device, {"tf32": 1.0, "half": 2.0, "bandwidth": 3.0}) == Peak(1.0, 2.0, 3.0)


@pytest.mark.parametrize("name", PEAKS)
def test_peaks_are_dense(name: str) -> None:
    """16 bits are twice TF32 on tensor cores; sparse figures would double one of them."""
    ratio = PEAKS[name].half / PEAKS[name].tf32
    assert ratio == pytest.approx(8.0 if name == "T4" else 2.0, rel=0.02)


def test_peaks_are_read_from_the_environment() -> None:
    assert Settings.from_env({}).peaks is None
    settings = Settings.from_env({SETTING: "bandwidth=4000, tf32=500,half=1e3"})
    assert settings.peaks == Peak(500.0, 1000.0, 4000.0)
    assert known("NVIDIA H200", json.loads(json.dumps(supply(settings.peaks)))) == settings.peaks
    assert known("NVIDIA H200", supply(None)) is H200


@pytest.mark.parametrize(
    "value",
    [
        "500",
        "tf32=500,half=1000",
        "tf32=500,half=1000,bandwidth=4000,fp8=2000",
        "tf32=500,half=1000,bandwidth=4000,tf32=500",
        "tf32=500,half=1000,bandwidth=0",
        "tf32=500,half=1000,bandwidth=-1",
        "tf32=500,half=1000,bandwidth=nan",
        "tf32=500,half=1000,bandwidth=inf",
        "tf32=500,half=1000,bandwidth=4 TB/s",
        "tf32=500;half=1000;bandwidth=4000",
    ],
)
def test_peaks_of_another_form_are_refused(value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({SETTING: value})
    for part in (SETTING, value, "tf32=...,half=...,bandwidth=..."):
        assert part in str(refused.value)


def test_the_roofline_is_reported_or_said_to_be_missing() -> None:
    timing = Timing(runtime_ms=2.0, ref_runtime_ms=4.0, speedup=2.0, low=1.9, high=2.1, samples=9, clock="events")
    passed = Passed(timing=timing, roofline=bound(0, 4_800_000_000, False, H200))
    found = numbers(passed)
    assert (found["bound"], found["arithmetic_intensity"], found["t_min_ms"]) == (
        "memory",
        0.0,
        pytest.approx(1.0),
    )
    assert (found["roofline_frac"], found["ref_roofline_frac"]) == (pytest.approx(0.5), pytest.approx(0.25))
    device = Device(kind="cuda", name="NVIDIA GH200 480GB")
    assert "roofline" not in facts(Evaluation(outcome=passed, device=device))
    without = Evaluation(outcome=Passed(timing=timing), device=device)
    assert "t_min_ms" not in numbers(without.outcome)
    for part in ("NVIDIA GH200 480GB", "not known", SETTING):
        assert part in facts(without)["roofline"]


def test_doctor_tells_the_peaks() -> None:
    assert "4800 GB/s (datasheet)" in peaks("peaks 0", "NVIDIA H200", None).value
    assert f"3 GB/s ({SETTING})" in peaks("peaks 0", "NVIDIA H200", Peak(1.0, 2.0, 3.0)).value
    missing = peaks("peaks 0", "NVIDIA GH200 480GB", None)
    assert missing.state == "note"
    assert SETTING in missing.advice


def test_the_roofline_takes_the_larger_time() -> None:
    memory = bound(flops=0, size=4_800_000_000, half=False, known=H200)
    assert (memory.bound, memory.t_min_ms, memory.arithmetic_intensity) == ("memory", pytest.approx(1.0), 0.0)
    compute = bound(flops=494_700_000_000, size=1000, half=False, known=H200)
    assert (compute.bound, compute.t_min_ms) == ("compute", pytest.approx(1.0))
    assert bound(989_400_000_000, 1000, half=True, known=H200).t_min_ms == pytest.approx(1.0)


def test_the_floor_is_what_must_move_at_full_rate() -> None:
    cache = 60 << 20
    gigabytes = 1.08 * 4.8e9
    assert floor_ms(Traffic(0.0, gigabytes + cache, ""), cache, H200) == pytest.approx(1.0)
    assert floor_ms(Traffic(gigabytes + cache, gigabytes + cache, ""), cache, H200) == pytest.approx(2.0)
    assert floor_ms(Traffic(1 << 20, 1 << 20, ""), cache, H200) == 0.0


def test_a_doubt_gives_its_numbers() -> None:
    text = doubt(0.5, 2.0, Traffic(6e9, 7e9, "a map"), 60_000_000, H200)
    for part in ("0.5 ms", "2 ms", "6000 MB", "7000 MB", "a map", "4800 GB/s", "60 MB"):
        assert part in text


def sizes(text: str) -> list[Size]:
    shapes = [tuple(map(int, part.split("x"))) for part in text.split()]
    return [Size(shape, 4 * math.prod(shape)) for shape in shapes]


def moved(task_id: str, shapes: str, tolerance: float = 0.01, extras: Extras | None = None) -> tuple[float, float]:
    inputs, outputs = (sizes(part) for part in shapes.split("->"))
    found = traffic(task_id, built_in(task_id) if extras is None else extras, tolerance, inputs, outputs)
    assert found.note
    return found.read, found.written


RELU = "4096x393216 -> 4096x393216"
SQUARES = "4096x4096 4096x4096 -> 4096x4096"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("task_id", "shapes", "read", "written"),
    [
        ("level1/19_ReLU", RELU, 6144 * MIB, 6144 * MIB),
        ("level1/23_Softmax", RELU, 6144 * MIB, 6144 * MIB),
        ("level1/12_Matmul_with_diagonal_matrices_", "4096 4096x4096 -> 4096x4096", 64 * MIB + 16384, 64 * MIB),
        ("level1/13_Matmul_for_symmetric_matrices", SQUARES, 0.9 * 64 * MIB, 64 * MIB),
        ("level1/14_Matmul_for_upper_triangular_matrices", SQUARES, 0.9 * 64 * MIB, 32 * MIB),
        ("level1/4_Matrix_vector_multiplication_", "2048x1048576 1048576x1 -> 2048x1", 0, 8192),
        ("level1/90_cumprod", "32768x32768 -> 32768x32768", 0, 4096 * MIB),
        ("level2/83_Conv3d_GroupNorm_Min_Clamp_Dropout", "128x3x16x64x64 -> 128x16x14x62x62", 0, 0),
        ("level2/14_Gemm_Divide_Sum_Scaling", "1024x8192 -> 1024x1", 0, 4096),
        ("level3/43_MinGPTCausalAttention", "128x512x768 -> 128x512x768", 0, 192 * MIB),
        ("user/mine", "64 -> 64", 0, 256),
    ],
)
def test_what_a_task_must_move(task_id: str, shapes: str, read: float, written: float) -> None:
    assert moved(task_id, shapes) == pytest.approx((read, written))


def test_an_entry_holds_only_for_what_it_was_made_for() -> None:
    assert moved("level1/19_ReLU", "4096x4096 -> 4096x4096")[0] == 0
    assert moved("level1/19_ReLU", RELU, tolerance=0.02)[0] == 0
    assert moved("level1/23_Softmax", RELU, extras=Extras(atol=0.01))[0] == 0
    upper = "level1/14_Matmul_for_upper_triangular_matrices"
    assert moved(upper, "64x64 64x64 -> 64x64") == (0, 64 * 64 * 2)


@pytest.mark.parametrize("task_id", RULES)
def test_the_table_is_in_order(task_id: str) -> None:
    shapes, rule = RULES[task_id]
    inputs = sizes(shapes.split("->")[0])
    assert len(rule.reads) == len(inputs)
    assert all(0.0 <= share <= 1.0 for share in (*rule.reads, rule.writes))
    assert not shapes or form(inputs, sizes(shapes.split("->")[1])) == shapes


def test_the_table_names_tasks_that_there_are() -> None:
    folder = Path(__file__).parents[1] / ".kb" / "KernelBench"
    if not folder.is_dir():
        pytest.skip("needs a KernelBench checkout")
    assert [name for name in RULES if not (folder / f"{name}.py").is_file()] == []


TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        return {result}


def get_inputs():
    return [torch.rand(64, 32), torch.ones(64, 1, dtype=torch.bool).expand(64, 32)]


def get_init_inputs():
    return []
"""


def needs(result: str, declared: str = "") -> tuple[float, float]:
    reference = Reference("user/mine", TASK.format(result=result) + declared, CPU, 1)
    inputs = reference.inputs(1)
    outputs, _, _ = measure(reference, inputs)
    found = needed("user/mine", reference, inputs, outputs, 0.01)
    return found.read, found.written


@pytest.mark.parametrize(
    ("result", "written"),
    [
        ("x * mask", 8192),
        ("(x + 1, x - 1)", 16384),
        ("x", 0),
        ("x[:, ::2]", 0),
        ("(x + 1, mask)", 8192),
        ("x.sum(1, keepdim=True).expand(64, 32)", 256),
    ],
)
def test_only_new_numbers_must_be_written(result: str, written: float) -> None:
    assert needs(result) == (0, written)


def test_a_task_declares_its_own_shares() -> None:
    assert needs("x * mask", 'EXTRA_CHECKS = {"reads": [1.0, 0.5]}') == (8192 + 32, 8192)
    assert needs("x * mask", 'EXTRA_CHECKS = {"writes": 0.25}') == (0, 2048)
    with pytest.raises(TaskFault, match="3 shares, but the task has 2"):
        needs("x * mask", 'EXTRA_CHECKS = {"reads": [1, 1, 1]}')


@pytest.mark.parametrize("declared", ['{"reads": [1.5]}', '{"reads": ["all"]}', '{"reads": 1.0}', '{"writes": 2}'])
def test_shares_of_another_form_break_the_task(declared: str) -> None:
    with pytest.raises(ExtrasError):
        extras_of("user/mine", f"EXTRA_CHECKS = {declared}\n")


def test_shares_must_fit_the_inputs() -> None:
    with pytest.raises(FloorError):
        traffic("user/mine", Extras(reads=(1.0, 1.0)), 0.01, sizes("4"), sizes("4"))
    assert asdict(traffic("user/mine", Extras(reads=(0.5,)), 0.01, sizes("4"), sizes("4")))["read"] == 8
