"""An MCP server over an opened root: an assistant searches it and cites from it (extra `mcp`).

Model Context Protocol, https://modelcontextprotocol.io, by the official package.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import srrag
from srrag.core.errors import SrragError, UsageError
from srrag.core.pipeline import build_version
from srrag.library.root import Root
from srrag.retrieve.questions import HALF
from srrag.runner.pipeline_run import DEFAULT

if TYPE_CHECKING:
    from mcp.server import MCPServer

MOST = 50
"""Largest number of passages in one call."""

_ESCAPES = re.compile(
    rb"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<half>\\ud[89a-f][0-9a-f]{2})",
    re.IGNORECASE,
)
"""Escapes of JSON that matter: a backslash, a surrogate pair, half of one."""

INSTRUCTIONS = """Graded medical evidence from papers that the user has chosen. Call
search_evidence for passages, or answer_question for an answer whose every sentence is cited.
Cite each statement by title and PMID or source_id, and name its grade: A guideline, B systematic
review, C randomised trial, D cohort, E other. Where the `state` of an answer is `not`, say that
these papers do not answer the question. Where the `status` of a passage or paper is not empty, as
"retracted", "superseded" or "under an expression of concern", say so. Not medical advice."""


def mcp_server(root: Root, pipeline: str = DEFAULT, overrides: Iterable[str] = ()) -> MCPServer:
    """Make the server of a root, with the tools search_evidence, answer_question and status."""
    from mcp.server import MCPServer

    server = MCPServer("srrag", version=srrag.__version__, instructions=INSTRUCTIONS)
    chosen: dict[str, Any] = {"pipeline": pipeline, "overrides": tuple(overrides)}
    turn = threading.Lock()  # one question at a time: calls come from several threads
    seen = ""

    def newest() -> None:
        """Leave a build that was replaced: it may cite what is retracted or forgotten since."""
        nonlocal seen
        if (now := build_version(root.store, root.name)) != seen:
            root.close()
            seen = now

    @server.tool()
    def search_evidence(question: str, k: int = 10) -> dict[str, Any]:
        """Find passages of the papers for a clinical question, best first, with evidence grades.

        Each has text (verbatim), title, pmid or source_id, year, section, grade (A best … E) and
        `status`: what must be said of its publication, as "retracted (PMID 1)"; "" for nothing.
        """
        with turn, told():
            if k > MOST:
                raise UsageError(f"k={k}: at most {MOST} passages")
            newest()
            found = root.search(question, k=k, **chosen)
        return {"question": found.question, "passages": found.to_arrow().to_pylist()}

    @server.tool()
    def answer_question(question: str) -> dict[str, Any]:
        """Answer a clinical question from the papers alone; every sentence cites graded evidence.

        `state` says whether these papers answer it: answered, partly or not.
        """
        with turn, told():
            newest()
            return dict(root.ask(question, **chosen).json)

    @server.tool()
    def status() -> dict[str, Any]:
        """Say which papers stand in this root: counts, what was rejected, and their `version`."""
        made, version = root.status(), build_version(root.store, root.name)
        return {"build": made.build, "version": version, "documents": made.documents,
                "rejected": made.rejected}  # fmt: skip

    return server


def mend_input() -> None:
    """Put HALF for half of a surrogate pair in what comes by stdin, so that a question says so.

    The package drops a line with one, and its caller would wait for ever.
    """
    given, (read, write) = os.dup(0), os.pipe()
    os.dup2(read, 0)
    os.close(read)

    def pump() -> None:
        with os.fdopen(given, "rb") as source, os.fdopen(write, "wb", buffering=0) as target:
            for line in source:
                target.write(_ESCAPES.sub(_mended, line))

    threading.Thread(target=pump, name="stdin", daemon=True).start()


def _mended(found: re.Match[bytes]) -> bytes:
    return HALF.encode() if found["half"] else found[0]


@contextmanager
def told() -> Iterator[None]:
    """Describe the error of a call to the assistant, in one line."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except (SrragError, ValueError, RuntimeError) as error:
        raise ToolError(str(error)) from error
