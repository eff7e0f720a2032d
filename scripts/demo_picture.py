"""The README's picture: plays `kernel-env demo` on this machine and writes its output as an SVG.

python scripts/demo_picture.py docs/demo.svg
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

WIDTH = 112
FONT = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)


def main() -> int:
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    kernel_env = str(Path(sys.executable).with_name("kernel-env"))
    played = subprocess.run(
        [kernel_env, "demo"], env={**os.environ, **terminal}, stdout=subprocess.PIPE, text=True, check=True
    )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ make demo\n{played.stdout}"))
    # No font from elsewhere: the page that shows it asks nobody.
    shape = FONT.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", "ui-monospace, Menlo, monospace")
    Path(sys.argv[1]).write_text(
        console.export_svg(title="make demo", code_format=shape, theme=SVG_EXPORT_THEME, unique_id="demo")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
