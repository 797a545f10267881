"""`srrag mcp`: a root for assistants, over stdin and stdout."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import srrag
from srrag.core.errors import UsageError
from srrag.runner.pipeline_run import DEFAULT

OWN_STDOUT = True
"""The protocol has stdout to itself."""


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Serve until the assistant closes the connection."""
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("srrag mcp needs: pip install 'srrag[mcp]'")
    from srrag.library.mcp_server import mcp_server, mend_input

    named = [item.partition("=") for item in config["overrides"]]
    pipeline = next((value for key, _, value in named if key == "pipeline"), DEFAULT)
    given = ("root", "build", "pipeline", "out")
    rest = ["".join(item) for item in named if not re.fullmatch("|".join(given), item[0])]
    with srrag.open(config["root"], config["build"]) as root:
        mend_input()
        mcp_server(root, pipeline, rest).run("stdio")
    return {"ok": True}
