"""Evolve `diag(A) @ B + D` into a Triton kernel, with a model behind any OpenAI-compatible endpoint.

    OPENAI_API_KEY=... python examples/evolve_diagonal.py --model NAME [--base-url URL] [--server URL]

Without a GPU add `--language cpp`: candidates are then C++ for the CPU.
"""

from __future__ import annotations

import argparse
import sys

from kernel_env.evolve import EvolveConfig, GPUEvaluator, KernelEvolve, LLMConfig

INITIAL_CODE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B, D):
        return torch.diag(A) @ B + D


N = M = 4096


def get_inputs():
    return [torch.randn(N), torch.randn(N, M), torch.randn(N, M)]


def get_init_inputs():
    return []
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url")
    parser.add_argument("--server", help="a running kernel_env server; without it, workers are started here")
    parser.add_argument("--language", default="triton", choices=("triton", "cuda", "cpp"))
    parser.add_argument("--evaluations", type=int, default=24)
    options = parser.parse_args()

    result = KernelEvolve(
        INITIAL_CODE,
        LLMConfig(model_name=options.model, base_url=options.base_url, temperature=0.8),
        GPUEvaluator(options.server, language=options.language),
        config=EvolveConfig.parse({"budget": {"evaluations": options.evaluations}}),
    ).evolve()
    success, text = result
    print(text if success else f"nothing was verified: {text}")
    if result.best is not None and result.best.speedup is not None:
        print(f"{result.best.speedup:.2f}x, confirmed {result.best.confirmations} times; {result.run_dir}")
    return result.status


if __name__ == "__main__":
    sys.exit(main())
