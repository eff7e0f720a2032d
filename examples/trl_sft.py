"""Supervised fine-tuning with TRL on the right kernels of a server's log: a start for a model before its RL.

    KERNEL_ENV_EVAL_LOG=log.jsonl KERNEL_ENV_EVAL_LOG_CODE=true kernel-env serve
    kernel-env export log.jsonl -o sft.jsonl --best 4
    python examples/trl_sft.py sft.jsonl --model Qwen/Qwen3-8B

Each line of the file is a conversation, problem and fenced kernel, in the form that TRL takes as it is.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from datasets import load_dataset
from transformers import set_seed
from trl import SFTConfig, SFTTrainer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="of kernel-env export")
    parser.add_argument("--model", default="Qwen/Qwen3-8B")
    parser.add_argument("--tiny", action="store_true", help="a model made on the spot")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--out", default="outputs/sft")
    options = parser.parse_args()

    set_seed(0)
    rows = load_dataset("json", data_files=options.file, split="train").select_columns(["messages"])
    model: dict[str, Any] = {"model": options.model}
    settings: dict[str, Any] = {}
    if options.tiny:
        from tiny_model import tiny_model

        answers = [row["messages"][-1]["content"] for row in rows]
        model["model"], model["processing_class"] = tiny_model(answers)
        settings = {"use_cpu": True, "bf16": False}
    trainer = SFTTrainer(
        args=SFTConfig(
            output_dir=options.out,
            max_steps=options.steps,
            per_device_train_batch_size=2,
            max_length=options.tokens,
            learning_rate=options.learning_rate,
            assistant_only_loss=True,
            logging_steps=1,
            report_to=[],
            **settings,
        ),
        train_dataset=rows,
        **model,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']}  loss {entry['loss']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
