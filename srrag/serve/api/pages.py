"""The web pages: static files of this package, served without a build step."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.routing import Route

from srrag.answer.text import LEFT_OUT

_OURS = Path(__file__).parents[1] / "page"
_PROGRAMS = "a figure for programs"
ASK_LEFT_OUT = {
    "verdict": LEFT_OUT["verdict"],
    "choice": "`option` is its text",
    "papers": "the page lists the evidence, each with its paper and status",
    "left_out": "named by a note",
    "support": "what it dropped and put right is told by a note",
    "degraded": "told by notes",
    "usage": _PROGRAMS,
    "batch_rows": _PROGRAMS,
    "expansion": "the report and a terminal tell it",
    "off": "the page says who wrote the answer",
}
"""Fields of an answer that the question page does not show, with the reason."""
RUNS_LEFT_OUT = {
    **{
        name: ASK_LEFT_OUT[name] for name in ("choice", "papers", "left_out", "support", "degraded")
    },
    **dict.fromkeys(("usage", "batch_rows", "id", "pipeline", "version", "off"), _PROGRAMS),
    "error": "a failed row has its reject",
    "model": "told once for a run",
    "why": "the question page tells it",
    "expansion": "the report tells it",
    "clinical": "the question page reads it",
    "rewritten_from": "a stored run has no conversation",
}
"""Fields of an answer that the page of stored runs does not show, with the reason."""
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FILES = {
    "/": _OURS / "ask.html",
    "/runs": _OURS / "runs.html",
    "/graph": _OURS / "graph.html",
    **{
        f"/{name}": _OURS / name
        for name in (
            "page.css", "clinic.css", "runs.css", "graph.css", "ask.js", "runs.js",
            "graph.js", "walk.js", "dom.js", "evidence.js", "window.js", "why.js",
            "across.js", "reading.js", "paper.js", "places.js", "take.js",
        )
    },
}  # fmt: skip

CACHED = "private, no-cache"
"""A browser keeps a file, and asks each time whether it still stands."""

PAGE_PATHS = tuple(_FILES)
"""Paths that need no key, since these files hold nothing of the corpus."""


def add_pages(app: FastAPI) -> None:
    """Add a route for each file; every file is read once, here."""
    for path, file in _FILES.items():
        content = file.read_bytes()
        answer = partial(_answer, StaticPage.of(content, _KINDS[file.suffix]))
        app.router.routes.append(Route(path, answer))


@dataclass(frozen=True)
class StaticPage:
    """A file as it is sent: plain and compressed, with a tag that changes with its content."""

    content: bytes
    packed: bytes
    kind: str
    tag: str

    @classmethod
    def of(cls, content: bytes, kind: str) -> StaticPage:
        """Compress a file once."""
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        return cls(content, gzip.compress(content, mtime=0), kind, tag)


async def _answer(page: StaticPage, request: Request) -> Response:
    """Send a file, compressed where the browser takes it, or 304 where it has this one already."""
    headers = {"etag": page.tag, "cache-control": CACHED, "vary": "accept-encoding"}
    known = request.headers.get("if-none-match", "")
    if page.tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(page.packed, media_type=page.kind, headers=headers)
    return Response(page.content, media_type=page.kind, headers=headers)
