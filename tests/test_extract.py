"""Extraction of code from answers: fences of all kinds, strings that hold fences, and hostile text."""

from __future__ import annotations

import textwrap
import time

import pytest

from kernel_env.extract import extract_code

CODE = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
OTHER = "import os\nprint(os.name)\n"
DOCUMENTED = 'def f():\n    """Use it so:\n\n```python\nf()\n```\n    """\n\n' + CODE

CASES = {
    "bare": (CODE, CODE),
    "bare with CRLF": (CODE.replace("\n", "\r\n"), CODE.replace("\n", "\r\n")),
    "empty": ("", ""),
    "prose": ("I give up.", "I give up."),
    "backticks": (f"Here:\n```python\n{CODE}```\nDone.", CODE),
    "no language": (f"```\n{CODE}```", CODE),
    "tag with attributes": (f"```python title=kernel.py\n{CODE}```", CODE),
    "tag after a blank": (f"``` py\n{CODE}```", CODE),
    "tildes": (f"~~~python\n{CODE}~~~\n", CODE),
    "long fence": (f"`````python\n{CODE}`````", CODE),
    "CRLF": (f"Hi\n```python\n{CODE}```\nbye\n".replace("\n", "\r\n"), CODE),
    "unterminated": (f"Sure:\n```python\n{CODE}", CODE),
    "indented": (f"1. So:\n   ```python\n{textwrap.indent(CODE, '   ')}   ```\n", CODE),
    "blanks after the fence": (f"```python   \n{CODE}```   \nend", CODE),
    "last definition wins": (f"```python\nclass ModelNew: old\n```\nBetter:\n```python\n{CODE}```", CODE),
    "later fences without it": (f"```python\n{CODE}```\nRun:\n```bash\npip list\n```", CODE),
    "earlier fences without it": (f"```bash\npip list\n```\n```python\n{CODE}```", CODE),
    "no fence defines it": (f"```bash\npip list\n```\n```python\n{OTHER}```\nDone.", OTHER),
    "a mention is no definition": (f"```python\n{CODE}```\n```python\nm = ModelNew() # class ModelNew\n```", CODE),
    "not a prefix": (f"```python\n{CODE}```\n```python\nclass ModelNewest: ...\n```", CODE),
    "nested": (f"```\n{CODE}```\n```\nif 1:\n  class ModelNew: ...\n```", "if 1:\n  class ModelNew: ...\n"),
    "fence opened by the prompt": (f"{CODE}```\nThat is it.", CODE),
    "bare code, then prose in a fence": (f"{CODE}\n```text\nnotes\n```\n", CODE + "\n"),
    "docstring with a fence": (f"```python\n{DOCUMENTED}```\nDone.", DOCUMENTED),
    "bare docstring with a fence": (DOCUMENTED, DOCUMENTED),
    "single quotes": (f"```python\nS = '''\n```\n'''\n{CODE}```", f"S = '''\n```\n'''\n{CODE}"),
    "quote in a comment": (f"```python\n# it's \"\"\" here\n{CODE}```\nbye", f"# it's \"\"\" here\n{CODE}"),
    "quote in a string": (f"```python\na = \"'''\"\n{CODE}```\nbye", f"a = \"'''\"\n{CODE}"),
    "escaped quote": (f"```python\na = '\\'\"\"\"'\n{CODE}```\nbye", f"a = '\\'\"\"\"'\n{CODE}"),
    "odd quotes in prose": (f'Mind the """ here.\n```python\n{CODE}```\nbye', CODE),
    "string never closed": ('```python\nclass ModelNew: """\n```\nbye', 'class ModelNew: """\n'),
    "inline code": (f"Use `ModelNew` and ```x```.\n```python\n{CODE}```", CODE),
    "tilde inside backticks": (f"```python\n{CODE}~~~\n```", CODE + "~~~\n"),
    "shorter fence inside": (f"````python\n{CODE}```\n````", CODE + "```\n"),
    "wrapped in markdown": (f"````markdown\nText\n```python\n{CODE}```\n````", CODE),
    "restarted": (f"```python\nclass ModelNew: old\nwait\n```python\n{CODE}```", CODE),
    "unicode": (f"Très bien \u2028:\n```python\n# naïve\n{CODE}```", f"# naïve\n{CODE}"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_extract(name: str) -> None:
    text, expected = CASES[name]
    assert extract_code(text) == expected


@pytest.mark.parametrize(
    "unit",
    ["```\n", '"""\n```python\n', "`", "~", " ", "\n", "```a", "'''\"\"\"\n```\n", "\\", "\"'", "class ModelNew\n",
     "```" + "a" * 100 + "`\n", "\r\n", "class" + " " * 50, "\t```\n", "#'''\n", "\ud800\n```\n"],
)  # fmt: skip
def test_time_grows_with_length(unit: str) -> None:
    """300 KB of anything takes a second at most: a quadratic scan would take minutes."""
    text = unit * (300_000 // len(unit))
    started = time.monotonic()
    assert isinstance(extract_code(text), str)
    assert isinstance(extract_code("```python\n" + text), str)
    assert time.monotonic() - started < 20
