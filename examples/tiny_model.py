"""A language model that a laptop trains in seconds: a random Qwen3 of a few thousand weights.

Its words are whole answers, and each ends its turn, so that a policy gradient has something to choose from in its
first step. It shows that a trainer is wired up, and which answer pays; it knows nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

TASK = "level1/e02_SiLU"
RIGHT = "value * tl.sigmoid(value)", "value / (1.0 + tl.exp(-value))"
WRONG = "tl.maximum(value, 0.0)", "tl.sigmoid(value)"
MARKS = "<pad>", "<unk>", "<|im_start|>assistant\n", "<|im_end|>"

# What a trainer's configuration needs for it: no mark but an answer is ever drawn.
TINY = {"use_cpu": True, "bf16": False, "generation_kwargs": {"suppress_tokens": [0, 1, 2, 3]}}

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def apply(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count)
    tl.store(y + at, {expression}, mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        apply[(triton.cdiv(x.numel(), 262144),)](x, y, x.numel(), BLOCK=262144)
        return y
"""


def kernels() -> list[str]:
    """Four submissions for `TASK`, the first two of them right."""
    return [KERNEL.format(expression=expression) for expression in RIGHT + WRONG]


def chat_template() -> str:
    """Qwen3's template, which TRL ships and knows how to read tool calls from."""
    import trl

    return (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()


def tiny_model(answers: Sequence[str]) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """The model, and a tokenizer whose words are the marks of a chat and `answers`."""
    words = Tokenizer(models.WordLevel({mark: index for index, mark in enumerate(MARKS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="<|im_end|>", padding_side="left"
    )
    tokenizer.chat_template = chat_template()
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in (MARKS[2], *answers)])
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=8192,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = list(range(len(MARKS) - 1, len(tokenizer)))
    return model, tokenizer
