"""An MCP server over an opened root: an assistant searches it and cites from it (extra `mcp`).

Model Context Protocol, https://modelcontextprotocol.io, by the official package.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import srrag
from srrag.core.errors import SrragError, UsageError
from srrag.library.root import Root
from srrag.runner.pipeline_run import DEFAULT

if TYPE_CHECKING:
    from mcp.server import MCPServer

MOST = 50
"""Largest number of passages in one call."""

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

    @server.tool()
    def search_evidence(question: str, k: int = 10) -> dict[str, Any]:
        """Find passages of the papers for a clinical question, best first, with evidence grades.

        Each has text (verbatim), title, pmid or source_id, year, section, grade (A best … E) and
        `status`: what must be said of its publication, as "retracted (PMID 1)"; "" for nothing.
        """
        with turn, told():
            if k > MOST:
                raise UsageError(f"k={k}: at most {MOST} passages")
            found = root.search(question, k=k, **chosen)
        return {"question": found.question, "passages": found.to_arrow().to_pylist()}

    @server.tool()
    def answer_question(question: str) -> dict[str, Any]:
        """Answer a clinical question from the papers alone; every sentence cites graded evidence.

        `state` says whether these papers answer it: answered, partly or not.
        """
        with turn, told():
            return dict(root.ask(question, **chosen).json)

    @server.tool()
    def status() -> dict[str, Any]:
        """Say which papers stand in this root: counts, and what was rejected."""
        made = root.status()
        return {"build": made.build, "documents": made.documents, "rejected": made.rejected}

    return server


@contextmanager
def told() -> Iterator[None]:
    """Describe the error of a call to the assistant, in one line."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except (SrragError, ValueError, RuntimeError) as error:
        raise ToolError(str(error)) from error
