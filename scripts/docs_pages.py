"""mkdocs: pages that lie outside docs/ become pages of the site, and links to them lead there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

OUTSIDE = {"../benchmarks/README.md": "benchmarks.md", "../README.md": "readme.md"}
LINK = re.compile(r"\]\((?:\.\./)?docs/")


def on_files(files: Files, config: Any) -> Files:
    for path, page in OUTSIDE.items():
        text = (Path(config.docs_dir) / path).read_text()
        files.append(File.generated(config, page, content=LINK.sub("](", text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    for path, page in OUTSIDE.items():
        markdown = markdown.replace(f"]({path}", f"]({page}")
    return markdown
