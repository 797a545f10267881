"""What the site holds beside docs/: the keys, made from conf/, and the page of clusters."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "https://github.com/sr-rag/sr-rag/blob/main"  # where links to files of the repository go


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    sys.path.insert(0, str(ROOT))
    from jobs import JOBS
    from srrag.config.keys import reference

    made = {
        "reference/keys.md": reference(JOBS),
        "cluster.md": (ROOT / "cluster" / "README.md").read_text("utf-8"),
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links that leave docs/ to the cluster's page, or to the file in the repository."""
    markdown = markdown.replace("](../cluster/README.md)", "](cluster.md)")
    markdown = re.sub(r"\[(\d+)\](?=\[\d)", r"\\[\1\\]", markdown)  # citations, not links
    if page.file.src_uri == "cluster.md":
        markdown = markdown.replace("](../docs/", "](")
        markdown = re.sub(r"\]\((?!https?:|#)([\w/.-]+\.(?:yaml|sh|txt|json))\)", _source, markdown)
    return markdown


def _source(match: re.Match[str]) -> str:
    return f"]({SOURCE}/cluster/{match[1]})"
