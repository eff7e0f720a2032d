import torch
import torch.nn as nn
import triton
import triton.language as tl


def get_configs():
    return [
        triton.Config({"BM": bm, "BN": bn, "BK": 32, "GROUP": 8}, num_stages=s, num_warps=w)
        for bm, bn, s, w in [(128, 128, 3, 8), (64, 128, 4, 4), (128, 64, 4, 4), (64, 64, 4, 4)]
    ]


def keep_small(configs, named_args, **kwargs):
    smallest = min(named_args["M"], named_args["N"])
    kept = [c for c in configs if max(c.kwargs["BM"], c.kwargs["BN"]) <= max(smallest, 64)]
    return kept or configs[:1]


@triton.autotune(configs=get_configs(), key=["M", "N", "K"], prune_configs_by={"early_config_prune": keep_small})
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    grid_m = tl.cdiv(M, BM)
    grid_n = tl.cdiv(N, BN)
    width = GROUP * grid_n
    group = pid // width
    size = min(grid_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % width) % size
    pid_n = (pid % width) // size
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        km = rk < K - k
        x = tl.load(a, mask=(rm[:, None] < M) & km[None, :], other=0.0)
        y = tl.load(b, mask=km[:, None] & (rn[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
        a += BK * sak
        b += BK * sbk
    c = c_ptr + rm[:, None] * scm + rn[None, :] * scn
    tl.store(c, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    assert a.shape[1] == b.shape[0], "inner dimensions must agree"
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)  # noqa: E731
    matmul_kernel[grid](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1)
    )
    return c


class ModelNew(nn.Module):
    def forward(self, A, B):
        # torch.matmul(A, B), written by hand
        return matmul(A, B)
