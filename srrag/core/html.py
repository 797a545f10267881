"""HTML pages without network access: autoescaping templates, one script, one style sheet."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


@cache
def templates(folder: Path) -> Environment:
    """Load the templates of a folder; rendering an undefined name raises UndefinedError."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def policy(script: str, style: str) -> str:
    """Return a Content-Security-Policy that allows one script and one style, by their hashes."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_digest(script)}",
            f"style-src {_digest(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _digest(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
